"""Loads exported fine-tuning heads with transformers and compares loss and metrics with Cistron's.

    heads.py NAME...

For each NAME, the folder hf_NAME is what `cistron export` wrote, NAME.valid.h5 a token store with labels, and
NAME/log.jsonl the log whose last validation was of it. No key may be missing or unexpected; the mean loss of all labels
and the metrics, here from their definitions, must agree to 1e-5. Prints a line "right NAME" or "wrong NAME" for each,
with details. Ends with 77 without torch, transformers or h5py.
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


def ranks(values):
    """From 1, equal values with the mean of their ranks."""
    values = numpy.asarray(values)
    return ((values[:, None] > values).sum(1) + (values[:, None] >= values).sum(1) + 1) / 2


def class_metrics(logits, labels):
    predicted, classes = logits.argmax(1), range(logits.shape[1])
    seen = [c for c in classes if (labels == c).any() or (predicted == c).any()]
    f1 = [2 * ((labels == c) & (predicted == c)).sum() / ((labels == c).sum() + (predicted == c).sum()) for c in seen]
    one_hot = [numpy.stack([x == c for c in classes], 1).astype(float) for x in (labels, predicted)]
    a, b = (x - x.mean(0) for x in one_hot)
    spread = numpy.sqrt((a * a).sum() * (b * b).sum())
    metrics = {"accuracy": (labels == predicted).mean(), "f1": numpy.mean(f1), "mcc": (a * b).sum() / spread if spread else 0}
    if logits.shape[1] == 2:
        scores, above = logits[:, 1] - logits[:, 0], labels == 1
        pairs = scores[above][:, None] - scores[~above]
        metrics["auc"] = (pairs > 0).mean() + (pairs == 0).mean() / 2
    return metrics


def number_metrics(predicted, measured):
    spearman = [numpy.corrcoef(ranks(p), ranks(m))[0, 1] for p, m in zip(predicted.T, measured.T)]
    r2 = 1 - ((measured - predicted) ** 2).sum(0) / ((measured - measured.mean(0)) ** 2).sum(0)
    return {"spearman": numpy.mean(spearman), "r2": numpy.mean(r2)}


def compare(name):
    folder, store = pathlib.Path(f"hf_{name}"), h5py.File(f"{name}.valid.h5", "r")
    events = [json.loads(line) for line in open(f"{name}/log.jsonl")]
    own = [event for event in events if event["event"] == "validation"][-1]
    config = json.loads((folder / "config.json").read_text())
    family = getattr(transformers, config["architectures"][0])
    model, info = family.from_pretrained(folder, output_loading_info=True)
    wrong = {name: keys for name, keys in info.items() if keys}
    esm = config["model_type"] in ("esm", "esmc")
    first, last = (CLS, EOS) if esm else (BASES_BOS, BASES_EOS)
    names = store["classes"][:].tobytes().decode().split("\n")[:-1]
    same_names = [model.config.id2label[i] for i in range(model.config.num_labels)] == names
    tokens, offsets, labels = store["tokens"][:], store["offsets"][:], store["labels"][:]
    kind = store.attrs["label_kind"]
    kind = kind.decode() if isinstance(kind, bytes) else kind
    losses, count, outputs, measured = 0.0, 0, [], []
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
        here = label >= 0 if kind == "token" else slice(None)
        outputs.append(output.logits[0][here] if kind == "token" else output.logits)
        measured.append((label[here] if kind == "token" else label).reshape(-1, 1 if kind != "number" else len(names)))
        losses += float(output.loss) * weight if weight else 0.0
        count += weight
    outputs, measured = torch.cat(outputs).double().numpy(), torch.cat(measured).double().numpy()
    theirs = {"loss": losses / count, "labels": count}
    theirs |= number_metrics(outputs, measured) if kind == "number" else class_metrics(outputs, measured[:, 0])
    far = {key: (value, own.get(key)) for key, value in theirs.items() if abs(value - own.get(key, 1e9)) > 1e-5 * abs(value)}
    verdict = "right" if not wrong and same_names and not far else "wrong"
    print(f"{verdict} {name} {family.__name__}: {theirs}, differences {far or 'none'}, keys {wrong or 'all'}, "
          f"names {same_names}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for argument in sys.argv[1:]:
        compare(argument)
