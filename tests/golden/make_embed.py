"""Makes the golden files of `cistron embed`, tests/golden/embed_esm2.{fa,h5}, from Hugging Face transformers.

    /tmp/venv/bin/python tests/golden/make_embed.py [folder]

in the environment of make_llama.py, after make_bridge.py: the model is esm2_tiny as it lies in the folder. For each
record of embed_esm2.fa, embed_esm2.h5 holds /NAME/tokens (int32, what transformers' tokenizer makes of the sequence,
<cls> and <eos> included), /NAME/states (float64 [tokens, hidden], the output of the last LayerNorm) and /NAME/mean
(float64 [hidden], over the residues alone) and /NAME/hidden_states (float64 [layers, tokens, hidden], the output of the
embedding and of all layers but the last, with which states completes transformers' hidden_states). /NAME/contacts
(float64 [residues, residues]) is what EsmForMaskedLM.predict_contacts returns in float64. Computed in float64
with each record by itself, and compared here with transformers' own EsmModel in float32.
"""

import dataclasses
import pathlib
import sys

import h5py
import numpy
import torch
import transformers

import make_bridge
import make_esm2
import masked
from make_llama import relative

RECORDS = {
    # UniProt P42212, the green fluorescent protein of Aequorea victoria
    "P42212": "MSKGEELFTGVVPILVELDGDVNGHKFSVSGEGEGDATYGKLTLKFICTTGKLPVPWPTLVTTFSYGVQCFSRYPDHMKQHDFFKSAMPEGYVQERTIFF"
    "KDDGNYKTRAEVKFEGDTLVNRIELKGIDFKEDGNILGHKLEYNYNSHNVYIMADKQKNGIKVNFKIRHNIEDGSVQLADHYQQNTPIGDGPVLLPDNHY"
    "LSTQSALSKDPNEKRDHMVLLEFVTAAGITHGMDELYK",
    "insulin_B": "FVNQHLCGSHLVEALYLVCGERGFFYTPKT",
    "rare": "MXUBZO",
    "one": "W",
}
LINE = 60


class Batch(masked.Batch):
    """One record alone, nothing selected."""

    def __init__(self, tokens):
        self.given = numpy.array(tokens, numpy.int32)
        case = dataclasses.replace(
            make_bridge.ESM2, row_tokens=len(tokens), segments=[[(len(tokens), 0.0)]]
        )
        super().__init__(case, None)

    def sequence(self, length, share, random):
        return self.given, numpy.full(length, masked.IGNORED, numpy.int32)


def states(weights, tokens):
    """Outputs of embedding, layers but the last, and last LayerNorm, [layers + 1, tokens, hidden] in float64."""
    batch = Batch(tokens)
    run = make_esm2.Run(batch.case, weights, batch, torch.float64, make_esm2.FAITHFUL)
    seen = []
    for layer in run.model.esm.encoder.layer:
        layer.register_forward_pre_hook(lambda module, x: seen.append(x[0][0].numpy()))
    run.model.esm.encoder.emb_layer_norm_after.register_forward_hook(lambda module, x, y: seen.append(y[0].numpy()))
    with torch.no_grad():
        run.own_logits()
    return numpy.stack(seen)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    torch.set_num_threads(1)
    model, report = transformers.EsmForMaskedLM.from_pretrained(folder / "esm2_tiny", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "esm2_tiny")
    eager = {"attn_implementation": "eager"}  # other kinds of attention return no maps
    model = transformers.EsmForMaskedLM.from_pretrained(folder / "esm2_tiny", **eager).eval()
    double = transformers.EsmForMaskedLM.from_pretrained(folder / "esm2_tiny", **eager).eval().double()
    weights = {n: p.detach().numpy() for n, p in model.named_parameters() if "contact_head" not in n}
    assert len(RECORDS["P42212"]) == 238
    with h5py.File(folder / "embed_esm2.h5", "w") as file, open(folder / "embed_esm2.fa", "w") as fasta:
        for name, sequence in RECORDS.items():
            fasta.write(f">{name}\n")
            for at in range(0, len(sequence), LINE):
                fasta.write(sequence[at : at + LINE] + "\n")
            inputs = tokenizer(sequence, return_tensors="pt")
            tokens = inputs["input_ids"][0].tolist()
            assert len(tokens) == len(sequence) + 2
            vectors = states(weights, tokens)
            with torch.no_grad():
                own = torch.stack(model.esm(**inputs, output_hidden_states=True).hidden_states)[:, 0].numpy()
            worst = max(relative(a, b) for a, b in zip(own, vectors, strict=True))
            print(f"{name}: {len(sequence)} residues, transformers in float32 deviates by {worst:.1e}")
            assert worst < 1e-5
            vectors, hidden = vectors[-1], vectors[:-1]
            with torch.no_grad():
                contacts = [m.predict_contacts(inputs["input_ids"], inputs["attention_mask"])[0].double().numpy()
                            for m in (model, double)]
            assert contacts[1].shape == (len(sequence), len(sequence))
            print(f"{name}: contacts in float32 deviate by {relative(*contacts):.1e}, {contacts[1].min():.3f} to "
                  f"{contacts[1].max():.3f}")
            assert relative(*contacts) < 1e-5
            group = file.create_group(name)
            group.create_dataset("tokens", data=numpy.array(tokens, numpy.int32), track_times=False)
            group.create_dataset("states", data=vectors, track_times=False)
            group.create_dataset("hidden_states", data=hidden, track_times=False)
            group.create_dataset("contacts", data=contacts[1], track_times=False)
            group.create_dataset("mean", data=vectors[1:-1].mean(0), track_times=False)


if __name__ == "__main__":
    main()
