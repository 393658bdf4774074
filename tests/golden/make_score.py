"""Makes the golden files of `cistron score`, tests/golden/score_*.{csv,vcf}, from Hugging Face transformers.

    /tmp/venv/bin/python tests/golden/make_score.py [folder]

in the environment of make_llama.py, after make_embed.py and make_eval.py, whose models and records it uses.
score_esm2.csv has variants of the records of embed_esm2.fa, a measured value drawn at random, and what transformers
finds by each method for masked models; score_esm2_windows.csv the same where windows have 66 tokens. score_llama.vcf has
variants of eval_llama.fa, score_llama.csv their likelihood ratios on one strand and on both, in windows of 512 tokens.
Computed in float64, one sequence at a time. Scores in nats; columns of methods have the method's name.
"""

import csv
import functools
import math
import pathlib
import sys

import h5py
import numpy
import torch
import transformers

import make_embed
import make_esm2
import make_eval
import make_llama

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


def window_start(length, size, first, last):
    """The rule of doc/score.md: starts are multiples of size // 8, the middle is nearest to the changes."""
    if length <= size:
        return 0
    step = max(size // 8, 1)
    centred = max((first + last + 1) // 2 - size // 2, 0)
    start = min((centred + step // 2) // step * step, length - size)
    return min(max(start, last + 1 - size), first)


def parse(mutation):
    """[(old letter, position from 0, new letter)]"""
    return [] if mutation == "WT" else [(m[0], int(m[1:-1]) - 1, m[-1]) for m in mutation.split(":")]


class Masked:
    """An ESM-2 and the methods for it."""

    def __init__(self, folder, context):
        model = transformers.EsmForMaskedLM.from_pretrained(folder)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.weights = {n: p.detach().numpy() for n, p in model.named_parameters() if "contact_head" not in n}
        self.plain = model.eval()
        self.size = context - 2
        self.deviation = 0.0
        self.log_probabilities = functools.lru_cache(maxsize=None)(self.compute)

    def compute(self, sequence, masked):
        """[letters, vocabulary] of a window in which some letters are masked."""
        tokens = self.tokenizer(sequence)["input_ids"]
        for at in masked:
            tokens[at + 1] = self.tokenizer.mask_token_id
        batch = make_embed.Batch(tokens)
        run = make_esm2.Run(batch.case, self.weights, batch, torch.float64, make_esm2.FAITHFUL)
        with torch.no_grad():
            exact = torch.log_softmax(run.own_logits()[0], -1)
            single = torch.log_softmax(self.plain(input_ids=torch.tensor([tokens])).logits[0], -1)
        self.deviation = max(self.deviation, (exact - single).abs().max().item())
        return exact[1:-1].numpy()

    def at(self, sequence, positions, masked):
        """Log-probabilities at the positions, in the window for all of them."""
        start = window_start(len(sequence), self.size, min(positions), max(positions))
        window = sequence[start : start + self.size]
        assert all(0 <= p - start < len(window) for p in positions)
        found = self.log_probabilities(window, tuple(p - start for p in positions) if masked else ())
        return [found[p - start] for p in positions]

    def ratio(self, row, old, new):
        ids = self.tokenizer.convert_tokens_to_ids
        return row[ids(new)] - row[ids(old)]

    def pseudo(self, sequence):
        ids = self.tokenizer.convert_tokens_to_ids
        return sum(self.at(sequence, [p], True)[0][ids(letter)] for p, letter in enumerate(sequence))

    def scores(self, sequence, changes):
        changed = list(sequence)
        for old, p, new in changes:
            assert sequence[p] == old
            changed[p] = new
        alone = [self.ratio(self.at(sequence, [p], True)[0], old, new) for old, p, new in changes]
        visible = [self.ratio(self.at(sequence, [p], False)[0], old, new) for old, p, new in changes]
        together = 0.0
        if changes:
            rows = self.at(sequence, sorted(p for _, p, _ in changes), True)
            ordered = sorted(changes, key=lambda c: c[1])
            together = sum(self.ratio(row, old, new) for row, (old, _, new) in zip(rows, ordered, strict=True))
        pseudo = self.pseudo("".join(changed))
        return {
            "masked-marginals": sum(alone),
            "masked-together": together,
            "wt-marginals": sum(visible),
            "pseudo-log-likelihood": pseudo,
            "pseudo-perplexity": math.exp(-pseudo / len(sequence)),
        }


def draw_variants(random, sequence, reach):
    """Single, double and triple changes; the changes of one variant are less than `reach` letters apart."""
    mutations = ["WT"]
    for count in (1, 1, 1, 1, 2, 2, 3):
        begin = random.integers(max(len(sequence) - reach, 0) + 1)
        places = random.choice(min(reach, len(sequence)), min(count, len(sequence)), replace=False) + begin
        parts = [f"{sequence[p]}{p + 1}{random.choice(list(LETTERS.replace(sequence[p], '')))}" for p in places]
        mutations.append(":".join(parts))
    return mutations


def write_masked(path, folder, context, records, random):
    model = Masked(folder, context)
    with open(path, "w", newline="") as file:
        writer = None
        for name, sequence in records.items():
            for mutation in draw_variants(random, sequence, context - 2):
                row = {"name": name, "mutation": mutation, "measured": f"{random.normal():.3f}"}
                row |= {m: repr(float(s)) for m, s in model.scores(sequence, parse(mutation)).items()}
                writer = writer or csv.DictWriter(file, row, lineterminator="\n")
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(row)
    print(f"{path.name}: transformers in float32 deviates by {model.deviation:.1e} nats")


COMPLEMENT = str.maketrans("ACGTN", "TGCAN")


def likelihood(model, sequence):
    tokens = torch.tensor([[make_eval.BOS] + [ord(base) for base in sequence]])
    with torch.no_grad():
        shares = torch.log_softmax(model(tokens).logits[0], -1)
    return sum(shares[at - 1, tokens[0, at]].item() for at in range(1, tokens.shape[1]))


def ratio(model, sequence, position, old, new, both):
    assert sequence[position : position + len(old)] == old
    same = 0
    if len(old) == len(new):
        places = [i for i in range(len(old)) if old[i] != new[i]]
        first, last = position + places[0], position + places[-1]
    else:
        while same < min(len(old), len(new)) and old[same] == new[same]:
            same += 1
        first = position + same
        last = max(position + len(old) - 1, first)
    size = min(len(sequence), make_eval.CONTEXT - 1 - max(len(new) - len(old), 0))
    start = window_start(len(sequence), size, first, min(last, len(sequence) - 1))
    window = sequence[start : start + size]
    changed = sequence[start:position] + new + sequence[position + len(old) : start + size]
    total = likelihood(model, changed) - likelihood(model, window)
    if both:
        changed, window = changed.translate(COMPLEMENT)[::-1], window.translate(COMPLEMENT)[::-1]
        total = (total + likelihood(model, changed) - likelihood(model, window)) / 2
    return total


def write_causal(folder, random):
    with h5py.File(folder / "eval_llama.h5") as file:
        weights = {}
        file["model"].visititems(lambda n, o: weights.update({n: o[()]}) if isinstance(o, h5py.Dataset) else None)
    model = transformers.LlamaForCausalLM(make_llama.configuration(make_eval.CASE))
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    model = make_llama.exact(model, make_eval.CASE, make_llama.FAITHFUL).eval()
    records = {}
    for line in open(folder / "eval_llama.fa"):
        if line.startswith(">"):
            name = line[1:].split()[0]
        else:
            records[name] = records.get(name, "") + line.strip().upper()
    rows = []
    for name in ("short", "one", "equal", "next", "two", "long"):
        sequence = records[name]
        for old, new in ((1, 1), (1, 1), (2, 2), (1, 4), (3, 1)):
            if old > len(sequence) or (name == "one" and new > 1):
                continue
            position = int(random.integers(len(sequence) - old + 1))
            ref = sequence[position : position + old]
            alt = "".join(random.choice(list("ACGT"), new))
            if old == new:
                alt = "".join("ACGT"[("ACGTN".index(r) + 1 + i) % 4] for i, r in enumerate(ref))
            else:
                alt = ref[0] + alt[1:]
            rows.append((name, position, ref, alt))
    with open(folder / "score_llama.vcf", "w") as vcf, open(folder / "score_llama.csv", "w") as table:
        vcf.write("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
        table.write("chrom,pos,id,ref,alt,one,both\n")
        for i, (name, position, ref, alt) in enumerate(rows):
            one, both = (ratio(model, records[name], position, ref, alt, b) for b in (False, True))
            vcf.write(f"{name}\t{position + 1}\tv{i}\t{ref}\t{alt}\t.\tPASS\t.\n")
            table.write(f"{name},{position + 1},v{i},{ref},{alt},{one!r},{both!r}\n")


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    torch.set_num_threads(1)
    random = numpy.random.default_rng(17)
    records = dict(make_embed.RECORDS)
    write_masked(folder / "score_esm2.csv", folder / "esm2_tiny", 1026, records, random)
    write_masked(folder / "score_esm2_windows.csv", folder / "esm2_tiny", 66, records, random)
    write_causal(folder, random)


if __name__ == "__main__":
    main()
