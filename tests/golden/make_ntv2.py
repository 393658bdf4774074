"""Makes the golden files of the Nucleotide Transformer v2, tests/golden/ntv2_*.h5.

    /tmp/venv/bin/python tests/golden/make_ntv2.py [folder]

in the environment of make_llama.py. tests/golden/README.md describes the layout.

transformers has no such class. The model is its ESM-2, run as make_esm2.py runs it, with the MLP written here from the
paper and the configurations of the published models: down(silu(gate) * up), without biases, where gate is the first
half of the outputs of `intermediate.dense` and up the second. The decoder has a matrix of its own.
"""

import dataclasses

import torch

import make_esm2
import masked

# <unk>, <pad>, <mask>, <cls>, <eos>, <bos>, and tokens in the place of 6-mers. <cls> begins a sequence; its last token
# is one like the others.
NTV2 = masked.Vocabulary(size=47, mask=2, first=3, last=6, residues=range(6, 47), pad=1)

CASES = [
    masked.Case(
        name="packed",
        family="ntv2",
        seed=51,
        layers=2,
        hidden=32,
        ffn=48,
        heads=4,
        norm_eps=1e-3,
        vocabulary=NTV2,
        tied=False,
        row_tokens=136,
        segments=[[(40, 0.15), (2, 0.0), (61, 0.5), (33, 0.1)], [(136, 0.3)], [(9, 0.8), (90, 0.2)], []],
    ),
    masked.Case(
        name="pad",
        family="ntv2",
        seed=53,
        layers=1,
        hidden=48,
        ffn=40,
        heads=2,
        norm_eps=1e-5,
        vocabulary=NTV2,
        tied=False,
        row_tokens=64,
        segments=[[(64, 0.6)], [(23, 0.6), (31, 0.5)]],
        replacements=(NTV2.pad, NTV2.pad, 7, 9),
    ),
]


class Intermediate(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        self.dense = torch.nn.Linear(case.hidden, 2 * case.ffn, bias=False)
        self.exchanged = False

    def forward(self, x):
        gate, up = self.dense(x).chunk(2, -1)
        if self.exchanged:
            gate, up = up, gate
        return torch.nn.functional.silu(gate) * up


def make_model(case):
    model = make_esm2.make_model(case)
    for layer in model.esm.encoder.layer:
        layer.intermediate = Intermediate(case)
        layer.output.dense = torch.nn.Linear(case.ffn, case.hidden, bias=False)
    return model


@dataclasses.dataclass
class Mutation(make_esm2.Mutation):
    exchanged: bool = False  # gate and up


FAITHFUL = Mutation()
MUTATIONS = {
    name: (Mutation(**dataclasses.asdict(mutation)), concerns)
    for name, (mutation, concerns) in make_esm2.MUTATIONS.items()
    if "token dropout" not in name and "share of masks" not in name and "erf" not in name and "feed-forward" not in name
} | {"gate and up exchanged": (Mutation(exchanged=True), make_esm2.always)}


class Run(make_esm2.Run):
    make = staticmethod(make_model)

    def __init__(self, case, weights, batch, dtype, mutation):
        super().__init__(case, weights, batch, dtype, mutation)
        for layer in self.model.esm.encoder.layer:
            layer.intermediate.exchanged = mutation.exchanged


def check_parameter_counts():
    """Published: 55.9 and 97.9 million parameters with the table of 2050 positions, which rotary models do not use."""
    for layers, hidden, count in ((12, 512, 54855179), (22, 512, 96839179)):
        case = dataclasses.replace(
            CASES[0], layers=layers, hidden=hidden, ffn=4 * hidden, heads=16,
            vocabulary=dataclasses.replace(NTV2, size=4107)
        )  # fmt: skip
        with torch.device("meta"):
            model = make_model(case)
        assert sum(parameter.numel() for parameter in model.parameters()) == count


def goldens():
    return [masked.Golden(case, make_model, Run, FAITHFUL) for case in CASES]


if __name__ == "__main__":
    check_parameter_counts()
    masked.main("Makes the Nucleotide Transformer v2 golden files.", goldens, MUTATIONS)
