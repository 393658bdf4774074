"""Makes the golden files of ESM C, tests/golden/esmc_*.h5, from Hugging Face transformers.

    /tmp/venv/bin/python tests/golden/make_esmc.py [folder]

in the environment of make_llama.py, with transformers 5.24.0 or newer. tests/golden/README.md describes the layout.

Each segment of the packed rows is a row of its own in transformers (masked.SegmentRun). transformers rounds the
table of RoPE to float32 whatever the model's dtype; `exact` replaces it by its formula in float64. Everything else is
transformers' code as it stands, but for the epsilon of its norms, which the configuration does not have: a case sets it.
The comparison run in float32 changes that epsilon alone.
"""

import dataclasses
import math
import types

import torch
import transformers
from transformers.models.esmc import modeling_esmc

import masked

ESMC = masked.Vocabulary(size=40, mask=32, first=0, last=2, residues=range(4, 29), pad=1)

CASES = [
    masked.Case(
        name="packed",
        family="esmc",
        seed=41,
        layers=2,
        hidden=32,
        ffn=48,
        heads=4,
        norm_eps=1e-3,
        vocabulary=ESMC,
        tied=False,
        row_tokens=136,
        segments=[[(40, 0.15), (2, 0.0), (61, 0.5), (33, 0.1)], [(136, 0.3)], [(9, 0.8), (90, 0.2)], []],
    ),
    masked.Case(
        name="pad",
        family="esmc",
        seed=42,
        layers=3,
        hidden=48,
        ffn=40,
        heads=2,
        norm_eps=1e-5,
        vocabulary=ESMC,
        tied=False,
        row_tokens=64,
        segments=[[(64, 0.6)], [(23, 0.6), (31, 0.5)]],
        replacements=(ESMC.pad, ESMC.pad, 5, 9),
    ),
]


@dataclasses.dataclass
class Mutation:
    """A fault of the model, planted on purpose. silent: parameters whose names end so are zero in the computation."""

    rope: bool = True
    causal: bool = False
    softmax: float = 1.0
    norm_eps: float = 1.0
    residual: float = 0.0  # the divisor of residual branches; 0: the model's
    by_head: bool = False  # norms of q and k are of each head
    mean: bool = True  # norms of q and k subtract the mean
    silent: tuple = ()


FAITHFUL = Mutation()


def always(_):
    return True


MUTATIONS = {
    "RoPE left out": (Mutation(rope=False), always),
    "causal": (Mutation(causal=True), always),
    "softmax scale x 1.01": (Mutation(softmax=1.01), always),
    "norm eps doubled": (Mutation(norm_eps=2.0), always),
    "residuals not scaled": (Mutation(residual=1.0), always),
    "norms of q and k by head": (Mutation(by_head=True), always),
    "q and k normed without the mean": (Mutation(mean=False), always),
    "norm biases left out": (Mutation(silent=("layernorm.bias", "layer_norm.bias")), always),
    "head's dense bias left out": (Mutation(silent=("lm_head.dense.bias",)), always),
    "decoder bias left out": (Mutation(silent=("lm_head.decoder.bias",)), always),
}


def configuration(case):
    return transformers.EsmcConfig(
        vocab_size=case.vocabulary.size,
        mask_token_id=case.vocabulary.mask,
        pad_token_id=case.vocabulary.pad,
        hidden_size=case.hidden,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        intermediate_size=case.ffn,
        rope_parameters={"rope_type": "default", "rope_theta": case.rope_theta},
        attn_implementation="eager",
    )


def make_model(case):
    model = transformers.EsmcForMaskedLM(configuration(case))
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = case.norm_eps
    return model


def exact(model, case, mutation):
    """The model in float64 throughout, with the mutation planted."""
    model = model.double()
    omega = case.rope_theta ** (-torch.arange(0, case.head_dim, 2, dtype=torch.float64) / case.head_dim)

    def rope_table(_, x, position_ids):
        angle = position_ids[:, :, None] * omega * (1 if mutation.rope else 0)
        angle = torch.cat((angle, angle), -1)
        return angle.cos(), angle.sin()

    def qk_norm(self, x):
        heads = x.unflatten(-1, (case.heads if mutation.by_head else 1, -1))
        heads = heads - heads.mean(-1, keepdim=True) * (1 if mutation.mean else 0)
        return self.weight * (heads * torch.rsqrt(heads.square().mean(-1, keepdim=True) + self.eps)).flatten(-2)

    model.esmc.rotary_emb.forward = types.MethodType(rope_table, model.esmc.rotary_emb)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps *= mutation.norm_eps
        elif isinstance(module, modeling_esmc.EsmcLayer):
            module.scaling_factor = mutation.residual or module.scaling_factor
        elif isinstance(module, modeling_esmc.EsmcAttention):
            module.scaling *= mutation.softmax
            if mutation.by_head or not mutation.mean:
                for norm in (module.q_norm, module.k_norm):
                    norm.forward = types.MethodType(qk_norm, norm)
    return model


class Run(masked.SegmentRun):
    def __init__(self, case, weights, batch, dtype, mutation):
        super().__init__(make_model(case), case, weights, batch, mutation)
        for layer in self.model.esmc.layers:
            assert layer.scaling_factor == math.sqrt(case.layers / 36)
        if dtype == torch.float64:
            self.model = exact(self.model, case, mutation)

    def attention_mask(self):
        """The mask of padding, or as a fault an additive one, of later tokens too."""
        if not self.mutation.causal:
            return self.mask
        hidden = ~self.mask.bool()[:, None, None, :] | torch.ones(self.mask.shape[1], self.mask.shape[1], dtype=torch.bool).triu(1)
        return torch.zeros(hidden.shape, dtype=self.model.dtype).masked_fill(hidden, torch.finfo(self.model.dtype).min)

    def own_logits(self):
        return self.call(self.attention_mask())


def goldens():
    return [masked.Golden(case, make_model, Run, FAITHFUL) for case in CASES]


if __name__ == "__main__":
    masked.main("Makes the ESM C golden files.", goldens, MUTATIONS)
