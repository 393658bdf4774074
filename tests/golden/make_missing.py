"""Ids of texts by a byte-level BPE whose vocabulary lacks bytes, as SmolLM2's does: by Hugging Face's tokenizers.

    make_missing.py            (needs tokenizers; writes bpe_missing.json beside itself)

The tokenizer is that of bpe_tiny without the bytes of MISSING and without every token that has one of them, but for the
token "Qu" of the vocabulary alone, which ignore_merges finds. Three forms: with an unk_token, the same with fuse_unk,
and without unk_token. There tokenizers drops such bytes, and Cistron refuses the text: `refused` is the offset.
"""

import copy
import json
import pathlib
import sys

from tokenizers import Tokenizer

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "interop"))
from bpe_ids import bytes_to_characters  # noqa: E402

MISSING = bytes([0x04, 0x0B, ord("Q"), ord("z"), 0xA9, 0xC0, 0xC1, *range(0xF5, 0x100)])
TEXTS = ["", "The licence", "Q", "QQzQ", "Qu", "Quz Qu", "aQbzzQ c", "caf\u00e9 \u00e9\u00e9", "x\x04\x0b\x04y \x04", "zone, size zz",
         "<unk> <|end_of_text|> Q<unk>z", " z", "the\u00a9the", "z" * 60 + "the" + "Q" * 30, "\U0001f600\u00e9"]  # fmt: skip


def without(whole):
    """The tokenizer's file without the bytes of MISSING."""
    gone = {bytes_to_characters()[b] for b in MISSING}
    made = copy.deepcopy(whole)
    model = made["model"]
    kept = [t for t in sorted(model["vocab"], key=model["vocab"].get) if not gone & set(t)] + ["Qu", "<unk>"]
    model["vocab"] = {token: i for i, token in enumerate(kept)}
    model["merges"] = [m for m in model["merges"] if not gone & set("".join(m))]
    made["added_tokens"] = [{**t, "id": len(kept) + i} for i, t in enumerate(made["added_tokens"])]
    made["post_processor"] = None
    return made


def ids_of(made, text):
    tokenizer = Tokenizer.from_str(json.dumps(made))
    tokenizer.encode_special_tokens = True
    return tokenizer.encode(text, add_special_tokens=False).ids


def first_missing(made, text):
    """The offset of the first byte that has no token and that no whole word's token hides; -1 without any."""
    made = copy.deepcopy(made)
    made["model"]["unk_token"] = "<unk>"
    unknown = made["model"]["vocab"]["<unk>"]
    if unknown not in ids_of(made, text):
        return -1
    tokenizer = Tokenizer.from_str(json.dumps(made))
    tokenizer.encode_special_tokens = True
    for i in range(len(text.encode()) + 1):  # the shortest beginning with an unknown byte ends with it
        start = text.encode()[:i].decode(errors="ignore")
        found = tokenizer.encode(start, add_special_tokens=False)
        if unknown in found.ids:
            whole = start.encode()
            return next(k for k in range(len(start[:-1].encode()), len(whole)) if whole[k] in MISSING)
    raise ValueError(text)


def main():
    here = pathlib.Path(__file__).resolve().parent
    made = without(json.loads((here / "bpe_tiny" / "tokenizer.json").read_text()))
    forms = {name: copy.deepcopy(made) for name in ("unknown", "fused", "none")}
    forms["unknown"]["model"]["unk_token"] = forms["fused"]["model"]["unk_token"] = "<unk>"
    forms["fused"]["model"]["fuse_unk"] = True
    golden = {"tokenizer": made, "texts": []}
    for text in TEXTS:
        refused = first_missing(made, text)
        entry = {"text": text, "refused": refused, "unknown": ids_of(forms["unknown"], text),
                 "fused": ids_of(forms["fused"], text)}  # fmt: skip
        if refused < 0:
            entry["none"] = ids_of(forms["none"], text)
        golden["texts"].append(entry)
    (here / "bpe_missing.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
