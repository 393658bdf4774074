"""Loads exported fine-tuning heads with transformers and compares their loss with Cistron's.

    heads.py FOLDER STORE LOSS

FOLDER is what `cistron export` wrote, STORE a token store with labels, LOSS the loss that Cistron's validation logged
for it. No key may be missing or unexpected; the mean loss of all labels must agree to 1e-5. Ends with 77 without torch,
transformers or h5py.
"""

import json
import pathlib
import sys

try:
    import h5py
    import numpy
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error.name} is not installed for {sys.executable}")
    sys.exit(77)

CLS, EOS = 0, 2  # of ESM-2
BASES_EOS, BASES_BOS = 0, 2  # of nucleotides


def main():
    folder, store, own = pathlib.Path(sys.argv[1]), h5py.File(sys.argv[2], "r"), float(sys.argv[3])
    config = json.loads((folder / "config.json").read_text())
    family = getattr(transformers, config["architectures"][0])
    model, info = family.from_pretrained(folder, output_loading_info=True)
    wrong = {name: keys for name, keys in info.items() if keys}
    esm = config["model_type"] == "esm"
    first, last = (CLS, EOS) if esm else (BASES_BOS, BASES_EOS)
    names = store["classes"][:].tobytes().decode().split("\n")[:-1]
    same_names = [model.config.id2label[i] for i in range(model.config.num_labels)] == names
    tokens, offsets, labels = store["tokens"][:], store["offsets"][:], store["labels"][:]
    kind = store.attrs["label_kind"]
    kind = kind.decode() if isinstance(kind, bytes) else kind
    losses, count = 0.0, 0
    model.eval()
    for i in range(len(offsets) - 1):
        ids = numpy.concatenate([[first], tokens[offsets[i] : offsets[i + 1]], [last]]).astype(numpy.int64)
        if kind == "token":
            label = torch.from_numpy(numpy.concatenate([[-100], labels[offsets[i] : offsets[i + 1]], [-100]]).astype(int))
            weight = int((label >= 0).sum())
        else:
            number = labels.reshape(len(offsets) - 1, -1)[i]
            label, weight = torch.from_numpy(number.astype(numpy.int64) if kind == "class" else number), 1
            label = label[None] if len(number) > 1 else label
        with torch.no_grad():
            output = model(input_ids=torch.from_numpy(ids)[None], labels=label[None] if kind == "token" else label)
        losses += float(output.loss) * weight if weight else 0.0
        count += weight
    theirs = losses / count
    print(f"{family.__name__}: {count} labels, loss {theirs:.8f}, Cistron's {own:.8f}, keys {wrong or 'all'}")
    sys.exit(0 if not wrong and same_names and abs(theirs / own - 1) < 1e-5 else 1)


if __name__ == "__main__":
    main()
