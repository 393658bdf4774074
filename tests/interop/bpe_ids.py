"""Ids of texts by Cistron, by Hugging Face's tokenizers and by tiktoken: they must be equal.

    bpe_ids.py TOKENIZE [LLAMA3]

TOKENIZE is tests/tokenize of the build folder; LLAMA3 is Llama 3's tokenizer.model, where it can be had (the package
llama-models holds it as llama_models/llama3/tokenizer.model). A BPE is trained on English and code of this machine.
Its vocabulary is then put under the pre-tokenizers, normalizers and added tokens of known models and of others. Texts:
the same English and code, every character of Unicode among others, random mixtures, spaces and newlines, CJK, emoji,
combining marks, and bytes that are no UTF-8, which Cistron defines for itself: what is before and behind such a byte is
a text of its own. Ends with 77 without the package tokenizers; without tiktoken its part is left out.
"""

import base64
import copy
import json
import pathlib
import random
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import unicodedata

try:
    import tokenizers
except ImportError as error:
    print(f"skipped: {error.name} is not installed for {sys.executable}")
    sys.exit(77)
try:
    import tiktoken
except ImportError:
    tiktoken = None

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
NEMO = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def stages(*parts):
    return {"type": "Sequence", "pretokenizers": [*parts, byte_level()]}


def added(id_, content, **more):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"id": id_, "content": content, **flags, **more}


# -- Texts


def english_and_code(most):
    """Licences, and Python's own modules."""
    texts = [p.read_text("utf-8", "ignore") for p in sorted(pathlib.Path("/usr/share/common-licenses").glob("*"))]
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        texts.append(path.read_text("utf-8", "ignore"))
    total, chosen = 0, []
    for text in texts:
        chosen.append(text)
        total += len(text)
        if total > most:
            break
    return chosen


def every_character():
    """Each assigned character beside letters, digits, spaces, newlines, apostrophes and itself."""
    texts, parts = [], []
    for code in range(sys.maxunicode + 1):
        c = chr(code)
        if unicodedata.category(c) in ("Cn", "Cs", "Co") and code % 4099:
            continue
        if 0xD800 <= code < 0xE000:
            continue
        parts.append(f"{c}a {c}1{c}'{c}\n  {c}")
        if len(parts) == 200:
            texts.append("".join(parts))
            parts = []
    return texts + ["".join(parts)]


def mixtures(count, generator):
    """Short random strings of what pre-tokenizers look at."""
    atoms = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u180e", "\u2028", "a", "Z", "the", "don't", "'S", "'ll",
             "'\u017f", "'", "1", "23", "4567", "\u00b2", "\u0663", "\u4e2d\u6587", "\u304b\u304d", "\u0e44\u0e17\u0e22",
             "\u0915\u094d\u0937", "e\u0301", "\u00e9", "\u0323\u0301", "A\u030a", "\u212b", "\u1100\u1161\u11a8", "\uac00",
             "\U0001f600", "\U0001f469\u200d\U0001f4bb", "\U0001f1e9\U0001f1ea", "!", "...", "_", "/", "//", "<|", "|>",
             "\x00", "\x7f", "\ufeff", "\ue000", "\U0010ffff", "x" * 70, " " * 60, "=" * 50, "0" * 40]  # fmt: skip
    texts = []
    for _ in range(count):
        few = generator.sample(atoms, 12)
        texts.append("".join(generator.choice(few) for _ in range(generator.randrange(1, 120))))
    return texts


def marked(generator):
    """Texts with the added tokens of the variants in them."""
    atoms = [*SPECIALS, "  ", "     ", "<sep>", "<strip>", "lexeme", "caf\u00e9", "cafe\u0301", " ", "\n", "a", "b1", "<", "|",
             "<|eot", "\u3000", "text"]  # fmt: skip
    return ["".join(generator.choice(atoms) for _ in range(generator.randrange(1, 30))) for _ in range(600)]


def broken(generator):
    """Valid text with random bytes put in and characters cut in two."""
    texts = []
    for text in mixtures(200, generator):
        data = bytearray(text.encode())
        for _ in range(generator.randrange(1, 6)):
            at = generator.randrange(len(data) + 1)
            data[at : at + generator.randrange(3)] = bytes(generator.choices(range(0x80, 0x100), k=generator.randrange(4)))
        texts.append(bytes(data))
    return texts


def valid_runs(data):
    """[(text or one byte)]: the valid stretches of bytes, and between them single bytes."""
    at, runs = 0, []
    while at < len(data):
        try:
            runs.append(data[at:].decode())
            break
        except UnicodeDecodeError as error:
            if error.start:
                runs.append(data[at : at + error.start].decode())
            runs.append(data[at + error.start])
            at += error.start + 1
    return runs


# -- Both sides


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, pathlib.Path(folder)

    def ids(self, tokenizer, texts, specials=False):
        data = [t if isinstance(t, bytes) else t.encode() for t in texts]
        (self.folder / "texts").write_bytes(b"".join(struct.pack("i", len(d)) + d for d in data))
        command = [self.path, tokenizer, self.folder / "texts", self.folder / "ids", "specials" if specials else "text"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{tokenizer}: {done.stderr}")
        found, at, out = (self.folder / "ids").read_bytes(), 0, []
        for _ in data:
            (count,) = struct.unpack_from("i", found, at)
            out.append(list(struct.unpack_from(f"{count}i", found, at + 4)))
            at += 4 + 4 * count
        self.said = done.stdout.strip()
        return out


def compare(name, texts, found, wanted):
    """Prints a line; the number of texts whose ids differ."""
    wrong = [i for i in range(len(texts)) if found[i] != wanted[i]]
    sizes = sum(len(t if isinstance(t, bytes) else t.encode()) for t in texts)
    print(f"{name:34} {len(texts):6} texts {sizes:9} bytes {sum(map(len, wanted)):9} ids {len(wrong):6} differ", flush=True)
    for i in wrong[:3]:
        a, b = found[i], wanted[i]
        k = next((k for k in range(min(len(a), len(b))) if a[k] != b[k]), min(len(a), len(b)))
        print(f"  text {i}, id {k}: {a[k:k + 6]} instead of {b[k:k + 6]} in {texts[i][:80]!r}")
    return len(wrong)


def trained(texts):
    """tokenizer.json of a small BPE without merges over what GPT-2's pattern cuts."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=4000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())


def known_to_both(texts):
    """Those that Hugging Face's NFC, whose Unicode is older, normalizes as Python does: it knows no marks from Unicode
    10 on, of which there are some hundred."""
    nfc = tokenizers.normalizers.NFC()
    return [t for t in texts if nfc.normalize_str(t) == unicodedata.normalize("NFC", t)]


def lacking(model, **more):
    """A model without some bytes and what is made of them, as SmolLM2's; `<unk>` stands for them."""
    characters = bytes_to_characters()
    gone = {characters[b] for b in (0x04, 0x0B, ord("q"), ord("Z"), 0xA9, 0xE4, 0xC0, 0xC1, *range(0xF5, 0x100))}
    kept = [t for t in sorted(model["vocab"], key=model["vocab"].get) if not gone & set(t)]
    kept += [characters[ord("q")] + "x", "<unk>"] + [f"filler{i}" for i in range(len(model["vocab"]) - len(kept) - 2)]
    merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    made = {"vocab": {t: i for i, t in enumerate(kept)}, "merges": [m for m in merges if not gone & set("".join(m))]}
    return {**model, **made, "unk_token": "<unk>", **more}


def variants(base):
    """{name: tokenizer.json}"""
    count = len(base["model"]["vocab"])
    specials = [added(count + i, s, special=True) for i, s in enumerate(SPECIALS)]
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": SPECIALS[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {SPECIALS[0]: {"id": SPECIALS[0], "ids": [count], "tokens": [SPECIALS[0]]}},
    }
    nfc = {"type": "NFC"}
    more = [
        added(count + 3, "  ", normalized=True),
        added(count + 4, "     ", normalized=True),
        added(count + 5, "<sep>", lstrip=True),
        added(count + 6, "<strip>", rstrip=True, lstrip=True, special=True),
        added(count + 7, "lexeme", single_word=True),
        added(count + 8, "cafe\u0301", normalized=True),
    ]
    old_merges = {**base["model"], "merges": [m if isinstance(m, str) else " ".join(m) for m in base["model"]["merges"]]}
    table = {
        "llama3": {"pre_tokenizer": stages(split(LLAMA3)), "post_processor": template},
        "gpt2": {"pre_tokenizer": byte_level(regex=True), "model": old_merges},
        "qwen2": {"pre_tokenizer": stages(split(QWEN2)), "normalizer": nfc},
        "nemo": {"pre_tokenizer": stages(split(NEMO))},
        "o200k": {"pre_tokenizer": stages(split(O200K))},
        "lines": {"pre_tokenizer": stages(split(r"\s+$"), split(r"^(?:\p{L}+|[^a]\s)"), split(r".\n$"))},
        "deepseek": {
            "pre_tokenizer": stages(split(r"\p{N}{1,3}"), split(r"[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK)),
            "normalizer": {"type": "Sequence", "normalizers": []},
        },
        "neox": {"pre_tokenizer": byte_level(regex=True), "normalizer": nfc, "added_tokens": specials + more},
        "prefix": {"pre_tokenizer": byte_level(prefix=True, regex=True), "added_tokens": specials + more},
        "llama3 removed": {"pre_tokenizer": stages(split(LLAMA3, "Removed", True)), "whole": True},
        "digits": {"pre_tokenizer": stages({"type": "Digits", "individual_digits": True}, split(" ", kind="String"))},
        "lacking": {"pre_tokenizer": byte_level(regex=True), "model": lacking(base["model"])},
        "lacking, fused": {"pre_tokenizer": byte_level(regex=True), "model": lacking(base["model"], fuse_unk=True)},
        "lacking, fused, NFC": {
            "pre_tokenizer": stages(split(QWEN2)),
            "normalizer": nfc,
            "model": lacking(base["model"], fuse_unk=True),
        },
        "lacking, whole": {"pre_tokenizer": stages(split(LLAMA3)), "model": lacking(base["model"]), "whole": True},
        "numbers": {"pre_tokenizer": stages({"type": "Digits", "individual_digits": False}, split(r"\S+|\s+"))},
    }
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            part = split(r"\p{N}|[aeiou]", behavior, invert)
            table[f"{behavior} {invert}"] = {"pre_tokenizer": stages(part, split(r"t|\s", "MergedWithNext"))}
    for name, changes in table.items():
        made = copy.deepcopy({**base, "added_tokens": specials, **changes})
        made["model"]["ignore_merges"] = made.pop("whole", False) or name == "llama3"
        yield name, made


ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def compare_pairs(base, folder, program, texts):
    """vocab.json and merges.txt, by the classes of transformers that read them."""
    try:
        import transformers
    except ImportError as error:
        print(f"{error.name} is not installed: vocab.json and merges.txt are left out")
        return 0
    folder.mkdir()
    vocabulary = {**base["model"]["vocab"]}
    for special in [*ROBERTA, "<|endoftext|>"]:
        vocabulary[special] = len(vocabulary)
    merges = [m if isinstance(m, str) else " ".join(m) for m in base["model"]["merges"]]
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    texts = [t.replace("caf\u00e9", "cafe") for t in texts] + ["a<mask> b <s>", "x <mask>y", "<|endoftext|> <sep>", ""]
    wrong = 0
    for name, kind, more in (
        ("GPT-2", transformers.GPT2Tokenizer, {}),
        ("GPT-2, prefix", transformers.GPT2Tokenizer, {"add_prefix_space": True}),
        ("RoBERTa", transformers.RobertaTokenizer, {}),
        ("Qwen 2", transformers.Qwen2Tokenizer, {}),
    ):
        for path in folder.glob("*token*.json"):
            path.unlink()
        theirs = kind.from_pretrained(folder, **more)
        theirs.add_tokens(["<sep>", "lexeme"])
        theirs.save_pretrained(folder / "saved")
        (folder / "tokenizer_config.json").write_bytes((folder / "saved" / "tokenizer_config.json").read_bytes())
        # versions before 5 write added tokens to files of their own
        more = {t: i for t, i in theirs.get_added_vocab().items() if t in ("<sep>", "lexeme")}
        (folder / "added_tokens.json").write_text(json.dumps(more))
        cases = known_to_both(texts) if name == "Qwen 2" else texts
        for specials in (False, True):
            theirs.backend_tokenizer.encode_special_tokens = not specials
            wanted = [e.ids for e in theirs.backend_tokenizer.encode_batch(cases, add_special_tokens=False)]
            wrong += compare(f"pair, {name}" + ", specials" * specials, cases, program.ids(folder, cases, specials), wanted)
        ends = theirs("a")["input_ids"]
        said = dict(zip(program.said.split()[::2], program.said.split()[1::2]))
        begins, stops = ends[0] == theirs.bos_token_id, ends[-1] == theirs.eos_token_id
        good = said["begins"] == str(int(begins)) and said["ends"] == str(int(stops))
        print(f"pair, {name}: begins {said['begins']}, ends {said['ends']}" + "" if good else ", which is wrong")
        wrong += not good
    return wrong


def tiktoken_of(ranks, names):
    specials = {n: len(ranks) + i for i, n in enumerate(names)}
    return tiktoken.Encoding("test", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens=specials)


def compare_tiktoken(name, path, program, texts):
    """Against tiktoken with the special tokens of llama_models' tokenizer.py."""
    ranks = {}
    for line in path.read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    names = [*SPECIALS[:2], "<|reserved_special_token_0|>", "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>",
             "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
             "<|image|>"]  # fmt: skip
    names += [f"<|reserved_special_token_{2 + i}|>" for i in range(256 - len(names))]
    encoding = tiktoken_of(ranks, names)
    wrong = compare(name, texts, program.ids(path, texts), encoding.encode_ordinary_batch(texts, num_threads=2))
    prompts = ["<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>", *names, "<|eot_id", "a<|image|>b"]
    wanted = [encoding.encode(p, allowed_special="all") for p in prompts]
    return wrong + compare(f"{name}, specials", prompts, program.ids(path, prompts, specials=True), wanted)


def main():
    generator = random.Random(1)
    begin = time.time()
    with tempfile.TemporaryDirectory() as folder:
        program = Program(sys.argv[1], folder)
        plain = english_and_code(1_500_000)
        base = trained(plain[:40])
        all_characters, mixed, marks = every_character(), mixtures(1500, generator), marked(generator)
        damaged = broken(generator)
        large = plain + all_characters + mixed + ["a" * 5000, " " * 5000, "\n " * 3000, "-" * 5000, ""]
        print(f"trained, texts made in {time.time() - begin:.1f} s")
        wrong = 0
        for name, made in variants(base):
            path = pathlib.Path(folder) / "tokenizer.json"
            path.write_text(json.dumps(made))
            theirs = tokenizers.Tokenizer.from_file(str(path))
            cases = large if name == "llama3" else plain[::60] + all_characters[::30] + mixed[:150] + large[-5:]
            if "NFC" in json.dumps(made["normalizer"]):
                cases = known_to_both(cases)
            for specials in (False, True):
                theirs.encode_special_tokens = not specials
                texts = marks if specials else cases + marks
                wanted = [e.ids for e in theirs.encode_batch_fast(texts, add_special_tokens=False)]
                label = f"{name}, specials" if specials else name
                wrong += compare(label, texts, program.ids(path, texts, specials), wanted)
            if name in ("llama3", "nemo", "prefix"):
                theirs.encode_special_tokens = True
                single = [program.ids(path, [bytes([b])])[0][-1:] if b >= 0x80 else None for b in range(256)]
                wanted = []
                for data in damaged:
                    ids = []
                    for run in valid_runs(data):
                        ids += single[run] if isinstance(run, int) else theirs.encode(run, add_special_tokens=False).ids
                    wanted.append(ids)
                wrong += compare(f"{name}, broken UTF-8", damaged, program.ids(path, damaged), wanted)
        wrong += compare_pairs(base, pathlib.Path(folder) / "pair", program, plain[::60] + mixed[:150] + marks)
        if tiktoken is not None:
            path = pathlib.Path(folder) / "tokenizer.model"
            tokens = {v: k for k, v in base["model"]["vocab"].items()}
            to_byte = {c: b for b, c in bytes_to_characters().items()}
            path.write_text(
                "".join(
                    f"{base64.b64encode(bytes(to_byte[c] for c in tokens[i])).decode()} {i}\n" for i in range(len(tokens))
                )
            )
            wrong += compare_tiktoken("tiktoken", path, program, large)
            if len(sys.argv) > 2:
                wrong += compare_tiktoken("Llama 3, tiktoken", pathlib.Path(sys.argv[2]), program, large)
        else:
            print("tiktoken is not installed: its part is left out")
        print(f"{wrong} texts differ, {time.time() - begin:.1f} s")
    sys.exit(1 if wrong else 0)


def bytes_to_characters():
    """How tokenizer.json writes bytes (encoder.py of GPT-2)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {b: chr(b) for b in printable}
    for b in range(256):
        if b not in table:
            table[b] = chr(0x100 + len(table) - len(printable))
    return table


if __name__ == "__main__":
    main()
