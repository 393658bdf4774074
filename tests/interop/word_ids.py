"""Ids of texts by Cistron and by Hugging Face's tokenizers, for WordPiece and tables of words: they must be equal.

    word_ids.py TOKENIZE

TOKENIZE is tests/tokenize of the build folder. A WordPiece is trained on English and code of this machine, and put under
each setting of BertNormalizer; tables have words, and k-mers of bases. Folders with a vocab.txt are compared with
BertTokenizer and EsmTokenizer of transformers. Texts are those of bpe_ids.py. Characters on which the two sides' versions
of Unicode differ are left out, and counted. Ends with 77 without the package tokenizers.
"""

import itertools
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

from bpe_ids import Program, added, compare, english_and_code, every_character, marked, mixtures, split, tokenizers

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert(**more):
    flags = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    return {"type": "BertNormalizer", **flags, **more}


def trained(texts):
    """tokenizer.json of a small WordPiece."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    tokenizer.train_from_iterator(
        texts, tokenizers.trainers.WordPieceTrainer(vocab_size=3000, special_tokens=SPECIALS, show_progress=False)
    )
    return json.loads(tokenizer.to_str())


def same_unicode(program, path, theirs, texts):
    """(Texts without the characters on which the two differ, the number of such characters of Unicode 3.2: a fault)"""
    characters = sorted(set("".join(texts)))
    alone = [f"a{c}b {c}" for c in characters]
    ours, wanted = program.ids(path, alone), [e.ids for e in theirs.encode_batch(alone, add_special_tokens=False)]
    odd = {c for c, a, b in zip(characters, ours, wanted) if a != b}
    old = sorted(c for c in odd if unicodedata.ucd_3_2_0.category(c) != "Cn")
    print(f"{len(odd)} of {len(characters)} characters differ by Unicode's version{f', old ones: {old[:9]}' if old else ''}")
    return [t for t in texts if not odd & set(t)], len(old)


def variants(base, kmers):
    words = {t: i for i, t in enumerate([*SPECIALS, "the", "a", "of", "License", "def", "=", "(", "is", "1"])}
    table = {t: i for i, t in enumerate([*SPECIALS, *kmers, *"ACGTN"])}
    level = {"type": "WordLevel", "unk_token": "[UNK]"}
    specials = [added(i, t, special=True) for i, t in enumerate(SPECIALS)]
    plain = {**base, "added_tokens": specials}
    blanks = {"type": "WhitespaceSplit"}
    yield "wordpiece", plain
    yield "wordpiece, cased", {**plain, "normalizer": bert(lowercase=False)}
    yield "wordpiece, accents", {**plain, "normalizer": bert(strip_accents=False)}
    yield "wordpiece, stripped", {**plain, "normalizer": bert(lowercase=False, strip_accents=True)}
    yield "wordpiece, raw", {**plain, "normalizer": bert(clean_text=False, handle_chinese_chars=False)}
    yield "wordpiece, no normalizer", {**plain, "normalizer": None, "pre_tokenizer": blanks}
    short = {**base["model"], "max_input_chars_per_word": 5, "continuing_subword_prefix": "##"}
    yield "wordpiece, short words", {**plain, "model": short}
    yield "words", {**plain, "normalizer": None, "pre_tokenizer": blanks, "model": {**level, "vocab": words}}
    yield "words, lower case", {
        **plain,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": blanks,
        "model": {**level, "vocab": words},
    }
    yield "k-mers", {
        **plain,
        "normalizer": None,
        "pre_tokenizer": split(r"[ACGT]{4}|[^\n]|\n"),
        "model": {**level, "vocab": table},
        "decoder": {"type": "Fuse"},
    }


def genomes(generator):
    texts = ["", "A", "ACGT", "ACGTNACGTAC", "acgt", "ACGTRYACGT\n"]
    return texts + ["".join(generator.choices("ACGTN", (30, 30, 30, 30, 1), k=generator.randrange(400))) for _ in range(300)]


def compare_folders(folder, program, base, kmers, texts, dna):
    try:
        import transformers
    except ImportError as error:
        print(f"{error.name} is not installed: vocab.txt is left out")
        return 0
    wrong = 0
    cases = (
        ("BERT", transformers.BertTokenizer, sorted(base["model"]["vocab"], key=base["model"]["vocab"].get), texts,
         {"do_lower_case": True}),
        ("BERT, cased", transformers.BertTokenizer, sorted(base["model"]["vocab"], key=base["model"]["vocab"].get), texts,
         {"do_lower_case": False}),
        ("k-mers of ESM", transformers.EsmTokenizer,
         ["<unk>", "<pad>", "<mask>", "<cls>", *kmers, *"ACGTN", "<eos>"], dna, {}),
    )  # fmt: skip
    for i, (name, kind, vocabulary, cases, settings) in enumerate(cases):
        at = folder / f"vocabulary{i}"
        at.mkdir()
        (at / "vocab.txt").write_text("".join(f"{t}\n" for t in vocabulary))
        (at / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind.__name__, **settings}))
        theirs = kind.from_pretrained(at)
        if kind is transformers.BertTokenizer:
            theirs.backend_tokenizer.encode_special_tokens = True
        wanted = [theirs(t, add_special_tokens=False)["input_ids"] for t in cases]
        wrong += compare(f"vocab.txt, {name}", cases, program.ids(at, cases), wanted)
        said = dict(zip(program.said.split()[::2], program.said.split()[1::2]))
        roles = {"bos": theirs.cls_token_id, "pad": theirs.pad_token_id, "unk": theirs.unk_token_id}
        roles["eos"] = theirs.eos_token_id if kind is transformers.EsmTokenizer else theirs.sep_token_id
        for role, id_ in roles.items():
            if said[role] != str(id_):
                print(f"vocab.txt, {name}: {role} is {said[role]}, not {id_}")
                wrong += 1
    return wrong


def main():
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = Program(sys.argv[1], folder)
        english = english_and_code(600_000)
        base = trained(english[:30])
        kmers = ["".join(k) for k in itertools.product("ACGT", repeat=4)][::2]
        texts = english[::20] + mixtures(300, generator) + marked(generator) + ["x" * 101, "x" * 100, "", " ", "\u0130I"]
        texts += ["\u00c9T\u00c9 \u4e2d\u6587 [MASK] na\u00efve", "\x00a\ufffdb\x7f", "Stra\u00dfe \u1e9e \u03a3\u03a3"]
        characters, dna = every_character(), genomes(generator)
        path = folder / "tokenizer.json"
        wrong = 0
        for name, made in variants(base, kmers):
            path.write_text(json.dumps(made))
            theirs = tokenizers.Tokenizer.from_file(str(path))
            theirs.encode_special_tokens = True
            cases = dna if name == "k-mers" else texts + characters[::10]
            odd = 0
            if made["normalizer"] is not None or "Bert" in json.dumps(made["pre_tokenizer"]):
                known, odd = same_unicode(program, path, theirs, cases)
                cases = known
            wanted = [e.ids for e in theirs.encode_batch(cases, add_special_tokens=False)]
            wrong += compare(name, cases, program.ids(path, cases), wanted) + odd
            theirs.encode_special_tokens = False
            prompts = ["[CLS] the [MASK]", "[MASK][MASK]x", "[cls]"]
            wanted = [e.ids for e in theirs.encode_batch(prompts, add_special_tokens=False)]
            wrong += compare(f"{name}, specials", prompts, program.ids(path, prompts, specials=True), wanted)
        wrong += compare_folders(folder, program, base, kmers, texts[:-3], dna)
        print(f"{wrong} texts differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
