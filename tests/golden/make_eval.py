"""Makes the golden files of `cistron eval`, tests/golden/eval_llama.{h5,fa,json}, from Hugging Face transformers.

    /tmp/venv/bin/python tests/golden/make_eval.py [folder]

in the environment of make_llama.py, whose float64 model it uses. eval_llama.h5 is a checkpoint as Cistron reads them
(without a side file, so it warns): a nucleotide Llama of vocabulary 256 and context 512. eval_llama.fa holds records
shorter than the context, as long, one longer, and much longer, with N and lower case. eval_llama.json holds, for
each of three ways of scoring, what transformers finds: each window is given to the model by itself.
"""

import json
import pathlib
import sys

import h5py
import numpy
import torch
import transformers

import make_llama

CONTEXT, OVERLAP = 512, 200
BOS = 2
CASE = make_llama.Case(
    name="eval",
    seed=11,
    hidden=32,
    ffn=48,
    heads=4,
    kv_heads=2,
    vocab=256,
    tied=False,
    norm_eps=1e-5,
    rope_theta=10000.0,
    rope_factor=0.0,
    max_segments=1,
    segments=[],
)
DECK = f"""model = {{ layers = {CASE.layers}; hidden = {CASE.hidden}; ffn = {CASE.ffn}; heads = {CASE.heads};
kv_heads = {CASE.kv_heads}; vocabulary = {CASE.vocab}; norm_eps = 1e-5; rope_theta = 10000.0; }};
data = {{ row_tokens = {CONTEXT}; }};
"""


def draw_records(random):
    def bases(length):
        return "".join(random.choice(list("ACGTACGTACGTacgtN"), length))

    lengths = {"short": 37, "one": 1, "equal": 512, "next": 513, "two": 824, "beyond": 825, "long": 1999}
    records = [(name, bases(length)) for name, length in lengths.items()]
    records.insert(3, ("empty", ""))
    records.append(("unknown", "N" * 20))
    records.append(("runs", bases(300) + "N" * 300 + bases(300).lower()))
    return records


def windows(count):
    """(first, end, scored): tokens first .. end - 1, of which those from `scored` on count."""
    first, done = 0, 1
    while done < count:
        end = min(first + CONTEXT, count)
        yield first, end, done
        done, first = end, end - OVERLAP


def score(model, sequence, bos, mask):
    tokens = ([BOS] if bos else []) + [ord(base) for base in sequence]
    total, valid = 0.0, 0
    for first, end, done in windows(len(tokens)):
        window = torch.tensor([tokens[first:end]])
        with torch.no_grad():
            shares = torch.log_softmax(model(window).logits[0], -1)
        for at in range(done, end):
            if not mask or chr(tokens[at]) in "ACGTacgt":
                total += shares[at - first - 1, tokens[at]].item()
                valid += 1
    return {"seq_length": len(tokens), "num_valid_tokens": valid, "sum_log_prob": total}


def write_checkpoint(path, weights):
    with h5py.File(path, "w", libver=("v108", "v108")) as file:
        file.attrs["cistron_checkpoint"] = numpy.int64(1)
        meta, data = file.create_group("meta"), file.create_group("data")
        meta.attrs["deck"] = numpy.bytes_(DECK)
        meta.attrs["version"] = numpy.bytes_("make_eval.py")
        for name, value in {"step": 0, "tokens": 0, "seed": CASE.seed, "ranks": 1}.items():
            meta.attrs[name] = numpy.int64(value)
        for name in ("epoch", "window", "offset", "store"):
            data.attrs[name] = numpy.int64(0)
        for name, weight in weights.items():
            file.create_dataset(f"model/{name}", data=weight, track_times=False)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__)
    folder = folder if folder.is_dir() else folder.parent
    random = numpy.random.default_rng(CASE.seed)
    weights = make_llama.draw_weights(CASE, random)
    records = draw_records(random)
    model = transformers.LlamaForCausalLM(make_llama.configuration(CASE))
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    model = make_llama.exact(model, CASE, make_llama.FAITHFUL).eval()
    write_checkpoint(folder / "eval_llama.h5", weights)
    with open(folder / "eval_llama.fa", "w") as file:
        for name, sequence in records:
            file.write(f">{name} drawn at random\n")
            for at in range(0, len(sequence), 70):
                file.write(sequence[at : at + 70] + "\n")
    ways = {"plain": (False, True), "bos": (True, True), "no_mask": (False, False)}
    result = {"context": CONTEXT, "overlap": OVERLAP}
    for way, (bos, mask) in ways.items():
        result[way] = [{"seq_name": n, **score(model, s, bos, mask)} for n, s in records]
    with open(folder / "eval_llama.json", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
