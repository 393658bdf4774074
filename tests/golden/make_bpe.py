"""Trains the tiny byte-level BPE tokenizer of bpe_tiny on this project's licence, in the form of Llama 3's.

    make_bpe.py            (needs tokenizers; writes bpe_tiny/tokenizer.json and tokenizer_config.json beside itself)
"""

import json
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
VOCABULARY = 400


def main():
    here = pathlib.Path(__file__).resolve().parent
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - 2, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train([str(here.parents[1] / "COPYING")], trainer)
    tokenizer.add_special_tokens([BOS, EOS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B:1", special_tokens=[(BOS, tokenizer.token_to_id(BOS))])
    folder = here / "bpe_tiny"
    folder.mkdir(exist_ok=True)
    whole = json.loads(tokenizer.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False) + "\n")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS,
              "clean_up_tokenization_spaces": False, "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
