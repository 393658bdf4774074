"""Holds what `cistron prepare --tokenizer esm2` writes against transformers' EsmTokenizer, character by character.

    esm2_tokens.py CISTRON [PROTEINS.fasta]

Makes the vocabulary file from the published order, so it needs no network; h5py and transformers it needs. Each
character from '!' to '~' stands between two alanines; the proteins, if given, are compared whole. Ends with exit code 1
and a line per fault.
"""

import pathlib
import subprocess
import sys
import tempfile

import h5py
from transformers import EsmTokenizer

VOCABULARY = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>".split()


def prepare(cistron, folder, fasta):
    """Records of a FASTA file as prepare stores them: lists of ids."""
    store = folder / "store.h5"
    subprocess.run([cistron, "prepare", "--tokenizer", "esm2", "--force", "-o", store, fasta], check=True, capture_output=True)
    with h5py.File(store, "r") as file:
        tokens, offsets = file["tokens"][:].tolist(), file["offsets"][:].tolist()
    return [tokens[a:b] for a, b in zip(offsets, offsets[1:])]


def read_fasta(path):
    records = []
    for line in open(path):
        if line.startswith(">"):
            records.append("")
        else:
            records[-1] += line.strip()
    return [record for record in records if record]


def main():
    cistron, *files = sys.argv[1:]
    faults = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
        tokenizer = EsmTokenizer(str(folder / "vocab.txt"))
        specials = {tokenizer.cls_token_id: 0, tokenizer.pad_token_id: 1, tokenizer.eos_token_id: 2,
                    tokenizer.unk_token_id: 3, tokenizer.mask_token_id: 32}
        if any(is_id != wanted for is_id, wanted in specials.items()):
            print(f"special ids: {specials}")
            faults += 1
        characters = [chr(c) for c in range(ord("!"), ord("~") + 1)]
        fasta = folder / "characters.fasta"
        fasta.write_text("".join(f">c{ord(c)}\nA{c}A\n" for c in characters))
        records = [(f"A{c}A", ids) for c, ids in zip(characters, prepare(cistron, folder, fasta))]
        for path in files:
            records += zip(read_fasta(path), prepare(cistron, folder, path))
        for text, ids in records:
            wanted = tokenizer(text)["input_ids"]
            if [0, *ids, 2] != wanted:
                print(f"{text[:60]}: {ids[:60]}, but transformers has {wanted[:62]}")
                faults += 1
    print(f"{len(records)} records, {faults} faults")
    sys.exit(faults > 0)


main()
