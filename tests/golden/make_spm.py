"""Makes the models of SentencePiece in spm_tiny, trained on this project's licence, conversions of them to tokenizer.json,
and their ids of texts, by sentencepiece and by tokenizers.

    make_spm.py            (needs sentencepiece and tokenizers; writes spm_tiny/ beside itself)
"""

import io
import json
import pathlib
import sys
import tempfile

import sentencepiece
import tokenizers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))
from spm_ids import MARK, bpe_json, metaspace, replace, sequence, unigram_json  # noqa: E402

RULES = {"\ufb01": "fi", "\u3000": " ", "\t": " ", "\n": " ", "\uff21": "A", "e\u0301": "\u00e9", "\u00ad": ""}
TEXTS = ["", " ", "hello", "hell hel he", "aaa aab", "123 x123", "a\nb", "  two  blanks  ", "License", "the License, and ",
         "<s>he</s>", "<sep>he<sep", "caf\u00e9 e\u0301", "\ufb01nd\u3000\uff21 so\u00adft", "\u2581x\u2581\u2581y",
         "\u4e2d\u6587\U0001f600", "x\u2603\u2603y \u2603", "0x41 <0x41>", "\tTab\r\n", "a" * 60, "\u0000\u0001",
         "Work means the work of authorship.  " * 8, "\u1e69\u0323 \u212b", "qZ;~", "=" * 20,
         "of this License, " + "=" * 19]  # fmt: skip


def trained(**settings):
    out = io.BytesIO()
    lines = [line for line in (HERE.parents[1] / "COPYING").read_text().split("\n") if line.strip()]
    lines += ["=" * (3 + i % 18) for i in range(60)]  # pieces of one character, whose divisions have equal scores
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, num_threads=1, minloglevel=2,
                                             hard_vocab_limit=False, **settings)  # fmt: skip
    return out.getvalue()


def by_rules(**settings):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        for old, new in RULES.items():
            print(*(" ".join(f"{ord(c):X}" for c in text) for text in (old, new)), sep="\t", file=file)
        file.flush()
        return trained(normalization_rule_tsv=file.name, **settings)


def main():
    folder = HERE / "spm_tiny"
    folder.mkdir(exist_ok=True)
    plain = {"byte_fallback": True, "normalization_rule_name": "identity"}
    unigram = by_rules(model_type="unigram", vocab_size=180, user_defined_symbols=["<sep>", "so"])
    bpe = trained(model_type="bpe", vocab_size=400, user_defined_symbols=["<sep>"], remove_extra_whitespaces=False,
                  **plain)  # fmt: skip
    scored = trained(model_type="unigram", vocab_size=400, **plain)
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, t in enumerate(["<unk>", "<s>", "</s>"])]  # fmt: skip
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                         {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}  # fmt: skip
    common = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    made = {
        "llama.json": {
            **common, "pre_tokenizer": None, "post_processor": template,
            "normalizer": sequence("normalizers", {"type": "Prepend", "prepend": MARK}, replace(" ", MARK)),
            "decoder": sequence("decoders", replace(MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                                {"type": "Strip", "content": " ", "start": 1, "stop": 0}),
            "model": bpe_json(bpe)},
        "unigram.json": {
            **common, "normalizer": None, "pre_tokenizer": metaspace("first"), "post_processor": None,
            "decoder": metaspace("first"), "model": unigram_json(scored, byte_fallback=True)},
    }  # fmt: skip
    ids = {}
    for name, model in {"unigram.model": unigram, "bpe.model": bpe}.items():
        (folder / name).write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids[name] = [processor.encode(t) for t in TEXTS]
    for name, content in made.items():
        (folder / name).write_text(json.dumps(content, separators=(",", ":")) + "\n")
        theirs = tokenizers.Tokenizer.from_file(str(folder / name))
        theirs.encode_special_tokens = True
        ids[name] = [theirs.encode(t, add_special_tokens=False).ids for t in TEXTS]
    # tokenizers finds names of special tokens and bytes in a text by Unigram; sentencepiece does not
    processor = sentencepiece.SentencePieceProcessor(model_proto=scored)
    for i, text in enumerate(TEXTS):
        if "<s>" in text or "<0x" in text:
            ids["unigram.json"][i] = processor.encode(text)
    with (folder / "ids.json").open("w") as out:
        rows = ",\n".join(json.dumps({"text": t, **{n: ids[n][i] for n in ids}}) for i, t in enumerate(TEXTS))
        print(f"[\n{rows}\n]", file=out)


if __name__ == "__main__":
    main()
