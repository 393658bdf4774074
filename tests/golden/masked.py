"""What the golden files of the masked language models share: cases, batches, layout and reports.

make_esm2.py, make_esmc.py and make_amplify.py bring the models; the optimizer, the bounds and the float32 report are make_llama's.
A subclass of Run gives `forward`, and so all of make_llama's Run that comes after the first loss.
"""

import argparse
import dataclasses
import pathlib
import sys

import h5py
import numpy
import torch

import make_llama
from make_llama import BOUND_GRADIENT, BOUND_LOGITS, BOUND_LOSS, IGNORED, relative, worst, worst_loss

TRAINED_SHARE = 0.15 * 0.8  # share of mask tokens that token dropout takes for the usual one in training


@dataclasses.dataclass
class Vocabulary:
    size: int
    mask: int
    first: int  # in front of each sequence
    last: int  # behind it
    residues: range
    pad: int  # transformers leaves it out of the embedding's gradient


ESM2 = Vocabulary(size=33, mask=32, first=0, last=2, residues=range(4, 29), pad=1)
AMPLIFY = Vocabulary(size=27, mask=2, first=3, last=4, residues=range(6, 27), pad=0)


@dataclasses.dataclass
class Case:
    """One golden file. segments: for each row the segments (length, share of its tokens that is selected), from the
    row's first token on; the rest is padding."""

    name: str
    family: str
    seed: int
    layers: int
    hidden: int
    ffn: int
    heads: int
    norm_eps: float
    vocabulary: Vocabulary
    tied: bool
    row_tokens: int
    segments: list
    gelu: str = ""
    token_dropout: bool = False
    replacements: tuple = ()  # what a selected token may become; none: any token but padding
    steps: int = make_llama.STEPS
    rope_theta: float = 10000.0

    @property
    def head_dim(self):
        return self.hidden // self.heads

    @property
    def file(self):
        return f"{self.family}_{self.name}"

    @property
    def rows(self):
        return len(self.segments)

    @property
    def max_segments(self):
        return max(len(row) for row in self.segments)


class Batch:
    """Tokens, labels and segments of a case: numpy, shapes as in the file. Of the selected tokens 80 % become the mask,
    10 % one of the case's replacements, 10 % stay; a label stands at the selected token itself."""

    def __init__(self, case, random):
        shape = (case.rows, case.row_tokens)
        words = case.vocabulary
        self.case = case
        self.tokens = numpy.full(shape, words.pad, numpy.int32)
        self.labels = numpy.full(shape, IGNORED, numpy.int32)
        self.positions = numpy.zeros(shape, numpy.int32)
        self.owner = numpy.full(shape, -1, numpy.int32)  # a token's segment in its row; -1: padding
        self.segment_start = numpy.zeros((case.rows, case.max_segments), numpy.int32)
        self.segment_length = numpy.zeros((case.rows, case.max_segments), numpy.int32)
        for row, segments in enumerate(case.segments):
            start = 0
            for segment, (length, share) in enumerate(segments):
                span = slice(start, start + length)
                self.tokens[row, span], self.labels[row, span] = self.sequence(length, share, random)
                self.positions[row, span] = numpy.arange(length)
                self.segment_start[row, segment] = row * case.row_tokens + start
                self.segment_length[row, segment] = length
                self.owner[row, span] = segment
                start += length
        self.real = torch.from_numpy(self.owner >= 0)
        self.inputs_scale = self.scale()

    def sequence(self, length, share, random):
        words = self.case.vocabulary
        tokens = random.choice(words.residues, length).astype(numpy.int32)
        tokens[0], tokens[-1] = words.first, words.last
        selected = random.permutation(numpy.arange(1, length - 1))[: round(share * length)]
        labels = numpy.full(length, IGNORED, numpy.int32)
        labels[selected] = tokens[selected]
        fate = random.random(selected.size)
        replacements = self.case.replacements or [token for token in range(words.size) if token != words.pad]
        tokens[selected[fate < 0.9]] = random.choice(replacements, int((fate < 0.9).sum()))
        tokens[selected[fate < 0.8]] = words.mask
        return tokens, labels

    def spans(self):
        """The segments as slices of the flattened rows, in their order."""
        pairs = zip(self.segment_start.flat, self.segment_length.flat)
        return [slice(start, start + length) for start, length in pairs if length > 0]

    def scale(self, dropout=True, over="segment"):
        """Token dropout's factor of each token's embedding [rows, row_tokens]: 0 on masks, in the rest of the sequence
        what makes up for them; 1 in models without it. 0 on padding. `over` says what the share of masks is of: the
        segment, or, as faults, the masks of the segment over the row's whole length, or the row as if it were one."""
        real = self.owner >= 0
        factor = real.astype(numpy.float64)
        if not self.case.token_dropout or not dropout:
            return factor
        masks = (self.tokens == self.case.vocabulary.mask) & real
        factor[masks] = 0
        for span in self.spans():
            count, length = masks.flat[span].sum(), span.stop - span.start
            row = span.start // self.case.row_tokens
            if over == "padded row":
                length = self.case.row_tokens
            elif over == "packed row":
                count, length = masks[row].sum(), real[row].sum()
            factor.flat[span] *= (1 - TRAINED_SHARE) / (1 - count / length)
        return factor


class Run(make_llama.Run):
    """A model on a batch. Subclasses set `model` and give forward()."""

    auxiliary = False  # no experts

    def __init__(self, model, weights, batch):
        self.batch, self.model = batch, model
        self.model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()}, strict=False)
        self.tokens = torch.from_numpy(batch.tokens).long()
        self.labels = torch.from_numpy(batch.labels).long()

    def loss(self, logits):
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.labels.flatten(), ignore_index=IGNORED)


class SegmentRun(Run):
    """A model of transformers on a batch, each segment in a row of its own, right-padded to the longest, so that
    transformers decides what a sequence sees. Subclasses give `own_logits`, of those rows, from `inputs` and `mask`.
    mutation.silent: parameters whose names end so are zero in the computation."""

    def __init__(self, model, case, weights, batch, mutation):
        super().__init__(model, weights, batch)
        assert set(weights) == {name for name, _ in self.model.named_parameters()}
        self.case, self.mutation, self.spans = case, mutation, batch.spans()
        longest = max(span.stop - span.start for span in self.spans)
        self.inputs = torch.full((len(self.spans), longest), case.vocabulary.pad)
        self.mask = torch.zeros((len(self.spans), longest), dtype=torch.long)
        for row, span in enumerate(self.spans):
            self.inputs[row, : span.stop - span.start] = self.tokens.flatten()[span]
            self.mask[row, : span.stop - span.start] = 1

    def call(self, mask):
        """transformers' logits [segments, longest, vocabulary]."""
        silent = {n: 0 * p for n, p in self.model.named_parameters() if n.endswith(self.mutation.silent)}
        return torch.func.functional_call(self.model, silent, (), {"input_ids": self.inputs, "attention_mask": mask}).logits

    def forward(self):
        logits = torch.zeros((self.tokens.numel(), self.case.vocabulary.size), dtype=self.model.dtype)
        logits[self.batch.real.flatten()] = self.own_logits()[self.mask.bool()]
        logits = logits.view(*self.tokens.shape, -1)
        return logits, self.loss(logits)


def draw_weights(model, random):
    """Matrices of standard deviation 0.2, gains off 1 and biases off 0, as float32 numbers by name."""
    weights = {}
    for name, parameter in model.named_parameters():
        noise = random.standard_normal(tuple(parameter.shape))
        if parameter.dim() >= 2:
            weights[name] = 0.2 * noise
        else:
            weights[name] = 0.3 * noise + (0 if name.endswith("bias") else 1)
    return {name: weight.astype(numpy.float32) for name, weight in weights.items()}


class Golden:
    """All that one file holds, and how far float32 is from it. make_run(case, weights, batch, dtype, mutation)."""

    def __init__(self, case, make_model, make_run, faithful):
        self.case, self.make_run, self.faithful = case, make_run, faithful
        random = numpy.random.Generator(numpy.random.PCG64(case.seed))
        self.batch = Batch(case, random)
        self.weights = draw_weights(make_model(case), random)
        self.logits, self.loss, self.gradients = self.run().first()
        self.losses, self.norms, self.final = self.run().train(steps=case.steps)
        assert self.losses[0] == self.loss
        logits, _, gradients = self.run(dtype=torch.float32).first()
        losses, norms, final = self.run(dtype=torch.float32).train(steps=case.steps)
        self.deviation = {
            "float32_logits": relative(logits, self.logits),
            "float32_gradient": worst(gradients, self.gradients),
            "float32_loss": worst_loss(losses, self.losses),
            "float32_grad_norm": worst_loss(norms, self.norms),
            "float32_final": worst(final, self.final),
        }

    def run(self, dtype=torch.float64, mutation=None):
        return self.make_run(self.case, self.weights, self.batch, dtype, mutation or self.faithful)

    def moved(self, mutation):
        """How far (logits, worst gradient, loss) a planted fault is from the golden."""
        logits, loss, gradients = self.run(mutation=mutation).first()
        return relative(logits, self.logits), worst(gradients, self.gradients), worst_loss(loss, self.loss)

    def write(self, folder):
        case, batch = self.case, self.batch
        path = folder / f"{case.file}.h5"
        with h5py.File(path, "w") as file:
            file.attrs["family"] = numpy.bytes_(case.family)
            if case.gelu:
                file.attrs["gelu"] = numpy.bytes_(case.gelu)
            for name in ("layers", "hidden", "ffn", "heads", "head_dim", "tied", "rows", "row_tokens", "max_segments"):
                file.attrs[name] = numpy.int64(getattr(case, name))
            for name, value in (
                ("kv_heads", case.heads),
                ("vocab", case.vocabulary.size),
                ("mask_token", case.vocabulary.mask),
                ("token_dropout", case.token_dropout),
                ("rope_original", 0),
            ):
                file.attrs[name] = numpy.int64(value)
            for name, value in (
                ("norm_eps", case.norm_eps),
                ("rope_theta", case.rope_theta),
                ("rope_factor", 0),
                ("rope_low", 0),
                ("rope_high", 0),
                ("lr", make_llama.LR),
                ("beta1", make_llama.BETA1),
                ("beta2", make_llama.BETA2),
                ("adam_eps", make_llama.ADAM_EPS),
                ("weight_decay", make_llama.WEIGHT_DECAY),
                ("clip", make_llama.CLIP),
                *self.deviation.items(),
            ):
                file.attrs[name] = numpy.float64(value)

            def put(name, data):
                file.create_dataset(name, data=data, track_times=False)

            for name in ("tokens", "labels", "positions", "segment_start", "segment_length", "inputs_scale"):
                put(name, getattr(batch, name))
            put("logits", self.logits.astype(numpy.float32))
            put("loss", numpy.float64(self.loss))
            put("losses", self.losses)
            put("grad_norms", self.norms)
            for group, tensors in (("weights", self.weights), ("gradients", self.gradients), ("final", self.final)):
                for name, data in tensors.items():
                    put(f"{group}/{name}", data.astype(numpy.float32))
        return path


def report_mutations(goldens, mutations):
    """Prints what each planted fault moves; true if each breaks a bound in every case that it concerns. mutations: by
    name, (the mutation, whether it concerns a case)."""
    print(f"\n{'mutation (* breaks a bound)':34}{'case':16}{'logits':>10}{'gradient':>10}{'loss':>10}")
    complete = True
    for name, (mutation, concerns) in mutations.items():
        chosen = [golden for golden in goldens if concerns(golden.case)]
        complete &= bool(chosen)
        for golden in chosen:
            moved = golden.moved(mutation)
            broken = any(m > b for m, b in zip(moved, (BOUND_LOGITS, BOUND_GRADIENT, BOUND_LOSS)))
            complete &= broken
            columns = "".join(f"{m:10.1e}" for m in moved)
            print(f"{name:34}{golden.case.name:16}{columns}{' *' if broken else ''}")
    return complete


def main(description, goldens, mutations):
    """goldens: a function that makes them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    goldens = goldens()
    for golden in goldens:
        path = golden.write(folder)
        valid = int((golden.batch.labels != IGNORED).sum())
        print(
            f"{path}: {path.stat().st_size} bytes, {int(golden.batch.real.sum())} tokens, {valid} labels, "
            f"losses {golden.losses[0]:.6f} .. {golden.losses[-1]:.6f}, "
            f"gradient norms {golden.norms.min():.3f} .. {golden.norms.max():.3f}"
        )
    if not make_llama.report_float32(goldens):
        sys.exit("float32 leaves too little room below a bound")
    if not report_mutations(goldens, mutations):
        sys.exit("a mutation breaks no bound")
