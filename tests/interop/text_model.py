"""Holds what cistron makes of a model of text against tokenizers and transformers.

    text_model.py ranks TOKENIZER.json OUT.model              a rank file of tiktoken with the same ids
    text_model.py same A.json B.json TEXT                     both make the same ids of it
    text_model.py store STORE.h5 TOKENIZER.json TEXT          the store's ids, a record a line
    text_model.py model FOLDER TEXT EVAL.json PROMPT OUT      losses, words and a greedy continuation
    text_model.py counts TRAIN.h5 VALID.h5 COUNTS            the losses of count models
    text_model.py vectors FOLDER TEXT OUT.npy                 means of the last states of each line
    text_model.py scores FOLDER TEXT SCORES.csv               likelihoods of each line; masked models: token by token

Several checks are divided by arguments ",". Ends with exit code 1 and a line per fault; 77 where a package is missing.
"""

import base64
import json
import math
import re
import sys

try:
    import h5py
    from tokenizers import Tokenizer
    if {"model", "vectors", "scores"} & set(sys.argv):
        import torch
        from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

faults = []


def check(what, found, wanted, bound=0.0):
    good = found == wanted or bound > 0 and abs(found - wanted) <= bound * abs(wanted)
    if not good:
        faults.append(f"{what}: {found!r} instead of {wanted!r}")


def read(path):
    with open(path, newline="") as file:
        return file.read()


def bytes_of_characters():
    """GPT-2's alphabet: which byte each character of a token stands for."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def make_ranks(tokenizer, out):
    byte_of = bytes_of_characters()
    vocabulary = json.loads(read(tokenizer))["model"]["vocab"]
    with open(out, "w") as file:
        for token, rank in sorted(vocabulary.items(), key=lambda item: item[1]):
            file.write(base64.b64encode(bytes(byte_of[c] for c in token)).decode() + f" {rank}\n")


def check_same(a, b, text):
    a, b, text = Tokenizer.from_file(a), Tokenizer.from_file(b), read(text)
    check("ids", a.encode(text, add_special_tokens=False).ids, b.encode(text, add_special_tokens=False).ids)
    check("text", b.decode(b.encode(text).ids), text)


def check_store(store, tokenizer, text):
    tokenizer = Tokenizer.from_file(tokenizer)
    records = [line for line in read(text).split("\n") if line]
    with h5py.File(store, "r") as file:
        tokens, offsets = file["tokens"][:].tolist(), file["offsets"][:].tolist()
    found = [tokens[a:b] for a, b in zip(offsets, offsets[1:])]
    check("records", found, [tokenizer.encode(record, add_special_tokens=False).ids for record in records])


def check_model(folder, text, result, prompt, out):
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    result = json.loads(read(result))
    loss, tokens, words, size = 0.0, 0, 0, 0
    for record in read(text).split("\n"):
        if not record:
            continue
        ids = tokenizer(record)["input_ids"]
        with torch.no_grad():
            likely = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
        loss -= sum(likely[t, ids[t + 1]].item() for t in range(len(ids) - 1))
        tokens += len(ids) - 1
        words += len(re.split(r"\s+", record))
        size += len(record.encode())
        if ids[0] != tokenizer.bos_token_id:  # without a begin token the first token is not scored
            size -= len(tokenizer.decode(ids[:1]).encode())
    own = result["cistron"]
    check("scored tokens", result["aggregate"]["total_valid_tokens"], tokens)
    check("nats a token", result["aggregate"]["token_weighted_ce_loss"], loss / tokens, 1e-6)
    check("bytes", own["text_bytes"], size)
    check("bits a byte", own["bits_per_byte"], loss / math.log(2) / size, 1e-6)
    check("words", own["words"], words)
    check("perplexity of a word", own["word_perplexity"], math.exp(loss / words), 1e-5)
    ids = torch.tensor([tokenizer(prompt)["input_ids"]])
    longer = model.generate(ids, max_new_tokens=24, do_sample=False)[0]
    check("continuation", read(out), tokenizer.decode(longer, skip_special_tokens=True) + "\n")


def check_counts(train, valid, printed):
    from collections import Counter

    def records(path):
        with h5py.File(path, "r") as file:
            tokens, offsets = file["tokens"][:].tolist(), file["offsets"][:].tolist()
            special = {int(file["tokenizer"].attrs[r]) for r in ("bos", "eos", "pad", "unk")} - {-1}
            names = json.loads(bytes(file["tokenizer/tokenizer.json"][:]))
        ids = [*names["model"]["vocab"].values(), *(t["id"] for t in names["added_tokens"])]
        special |= {t["id"] for t in names["added_tokens"] if t["special"]}
        return [tokens[a:b] for a, b in zip(offsets, offsets[1:])], len(set(ids) - special)

    (seen, symbols), (held, _) = records(train), records(valid)
    one = Counter(t for r in seen for t in r)
    two = Counter(p for r in seen for p in zip(r, r[1:]))
    first = Counter(t for r in seen for t in r[:-1])
    total, count = sum(one.values()), sum(map(len, held))

    def plain(token):
        return (one[token] + 1) / (total + symbols)

    def pair(a, b):
        return (two[a, b] + 1) / (first[a] + symbols)

    losses = {"order-0": -sum(math.log(plain(t)) for r in held for t in r),
              "order-1": -sum(math.log(plain(r[0])) + sum(math.log(pair(*p)) for p in zip(r, r[1:])) for r in held if r)}
    losses["composition"] = 0.0
    for record in held:
        for token, n in Counter(record).items():
            losses["composition"] -= n * math.log((n - 1 + 100 * plain(token)) / (len(record) - 1 + 100))
    found = dict(line.split() for line in read(printed).splitlines())
    check("count models", sorted(found), sorted(losses))
    for name, loss in losses.items():
        check(name, float(found[name]), round(loss / count, 4), 2e-5)


def check_vectors(folder, text, out):
    import numpy

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    found, records = numpy.load(out), [r for r in read(text).split("\n") if r]
    check("rows", len(found), len(records))
    for i, record in enumerate(records):
        ids = tokenizer(record)["input_ids"]
        with torch.no_grad():
            states = model(torch.tensor([ids])).last_hidden_state[0, ids[0] == tokenizer.bos_token_id :]
        wanted = states.double().mean(0).numpy()
        far = numpy.linalg.norm(found[i] - wanted) / numpy.linalg.norm(wanted)
        check(f"record {i} is {far:.1e} apart", bool(far < 1e-5), True)


def check_scores(folder, text, scores):
    import csv

    tokenizer = AutoTokenizer.from_pretrained(folder)
    masked = AutoConfig.from_pretrained(folder).architectures[0].endswith("ForMaskedLM")
    model = (AutoModelForMaskedLM if masked else AutoModelForCausalLM).from_pretrained(folder).eval()
    with open(scores, newline="") as file:
        rows = list(csv.DictReader(file))
    records = [r for r in read(text).split("\n") if r]
    check("rows", len(rows), len(records))
    kind = "pseudo_" if masked else ""
    for row, record in zip(rows, records):
        ids = torch.tensor(tokenizer(record)["input_ids"])
        if masked:  # a row for each token but the first and the last one, with this token masked
            places = torch.arange(1, len(ids) - 1)
            batch = ids.repeat(len(places), 1)
            batch[torch.arange(len(places)), places] = tokenizer.mask_token_id
        with torch.no_grad():
            if masked:
                logits = model(batch).logits[torch.arange(len(places)), places]
            else:
                places, logits = torch.arange(1, len(ids)), model(ids[None]).logits[0, :-1]
        own = torch.log_softmax(logits.double(), -1)[torch.arange(len(places)), ids[places]].sum().item()
        check(row["name"] + " tokens", int(row["tokens"]), len(places))
        check(row["name"] + " likelihood", float(row[kind + "log_likelihood"]), own, 1e-5)
        check(row["name"] + " perplexity", float(row[kind + "perplexity"]), math.exp(-own / len(places)), 1e-5)


if __name__ == "__main__":
    checks = {"ranks": make_ranks, "same": check_same, "store": check_store, "model": check_model, "counts": check_counts, "vectors": check_vectors, "scores": check_scores}
    wanted = [[]]
    for argument in sys.argv[1:]:
        if argument == ",":
            wanted.append([])
        else:
            wanted[-1].append(argument)
    for name, *arguments in wanted:
        checks[name](*arguments)
    for fault in faults:
        print(fault)
    sys.exit(bool(faults))
