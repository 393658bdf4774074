"""Makes the golden files of the AMPLIFY family, tests/golden/amplify_*.h5, from a reference of its own.

    /tmp/venv/bin/python tests/golden/make_amplify.py [folder]

in the environment of make_llama.py (transformers has no AMPLIFY). The reference below was written from the description
of the model in the specification of the recipes (1.3, 2.3) by someone who had not looked at Cistron's own model; after
it was committed, its facts were compared with the published code (chandar-lab/AMPLIFY: rotary pairs as complex numbers,
SwiGLU's width, initial values, order of the norms, padding_idx) and stood. tests/golden/README.md describes the layout.
"""

import dataclasses

import numpy
import torch

import make_llama
import masked


def feed_forward_width(intermediate):
    """SwiGLU has three matrices for two, so two thirds of the width that the configuration names, rounded down to a
    whole number and then up to a multiple of 8."""
    return (int(2 * intermediate / 3) + 7) // 8 * 8


CASES = [
    masked.Case(
        name="packed",
        family="amplify",
        seed=21,
        layers=2,
        hidden=32,
        ffn=feed_forward_width(32),
        heads=4,
        norm_eps=1e-3,
        vocabulary=masked.AMPLIFY,
        tied=False,
        row_tokens=160,
        segments=[
            [(50, 0.15), (2, 0.0), (75, 0.3), (33, 0.15)],
            [(160, 0.15)],
            [(117, 0.2)],
            [(7, 0.6), (90, 0.1)],
        ],
    ),
    masked.Case(
        name="pad",
        family="amplify",
        seed=28,
        layers=1,
        hidden=16,
        ffn=feed_forward_width(24),
        heads=2,
        norm_eps=1e-3,
        vocabulary=masked.AMPLIFY,
        tied=False,
        row_tokens=64,
        segments=[[(64, 0.6)], [(23, 0.6), (31, 0.5)]],
        replacements=(masked.AMPLIFY.pad, masked.AMPLIFY.pad, 6, 9),
        steps=100,
    ),
]


@dataclasses.dataclass
class Mutation:
    """A fault of the model, planted on purpose."""

    rope: bool = True
    halves: bool = False
    causal: bool = False
    neighbour: int = 0  # a query also sees so many keys of the segment before its own
    softmax: float = 1.0
    norm_eps: float = 1.0
    gate_first: bool = True
    mask_zeroed: bool = False
    pad_trained: bool = False
    decoder_bias: bool = True


FAITHFUL = Mutation()


def always(_):
    return True


MUTATIONS = {
    "RoPE left out": (Mutation(rope=False), always),
    "half-split instead of interleaved": (Mutation(halves=True), always),
    "causal": (Mutation(causal=True), always),
    "segment edge off by one": (Mutation(neighbour=1), always),
    "softmax scale x 1.01": (Mutation(softmax=1.01), always),
    "norm eps doubled": (Mutation(norm_eps=2.0), always),
    "W1 and W2 exchanged": (Mutation(gate_first=False), always),
    "embedding of the mask left out": (Mutation(mask_zeroed=True), always),
    "pad trained": (Mutation(pad_trained=True), lambda case: case.vocabulary.pad in case.replacements),
    "decoder bias left out": (Mutation(decoder_bias=False), always),
}


class RootMeanSquareNorm(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return self.weight * x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps)


class FeedForward(torch.nn.Module):
    """w12 holds the gate's rows W1 and then those of W2; W3 (silu(W1 x) * (W2 x))."""

    def __init__(self, width, inner, mutation):
        super().__init__()
        self.w12 = torch.nn.Linear(width, 2 * inner, bias=False)
        self.w3 = torch.nn.Linear(inner, width, bias=False)
        self.gate_first = mutation.gate_first

    def forward(self, x):
        one, two = self.w12(x).chunk(2, -1)
        gate, value = (one, two) if self.gate_first else (two, one)
        return self.w3(gate * torch.sigmoid(gate) * value)


def rotate(x, positions, theta, mutation):
    """x [rows, tokens, heads, head_dim]: each pair of neighbours is a complex number, turned by its position times
    theta^(-2i / head_dim), i the number of the pair."""
    if not mutation.rope:
        return x
    width = x.shape[-1]
    angle = positions[:, :, None, None] * theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    if mutation.halves:
        real, imaginary = x.chunk(2, -1)
    else:
        real, imaginary = x[..., 0::2], x[..., 1::2]
    pair = (real * cosine - imaginary * sine, real * sine + imaginary * cosine)
    return torch.cat(pair, -1) if mutation.halves else torch.stack(pair, -1).flatten(-2)


class Block(torch.nn.Module):
    def __init__(self, case, mutation):
        super().__init__()
        self.heads, self.theta, self.mutation = case.heads, case.rope_theta, mutation
        for name in ("q", "k", "v", "wo"):
            setattr(self, name, torch.nn.Linear(case.hidden, case.hidden, bias=False))
        self.ffn = FeedForward(case.hidden, case.ffn, mutation)
        self.attention_norm = RootMeanSquareNorm(case.hidden, case.norm_eps * mutation.norm_eps)
        self.ffn_norm = RootMeanSquareNorm(case.hidden, case.norm_eps * mutation.norm_eps)

    def attention(self, x, positions, sees):
        shape = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        q, k, v = (matrix(x).view(shape) for matrix in (self.q, self.k, self.v))
        q, k = (rotate(part, positions, self.theta, self.mutation) for part in (q, k))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * (self.mutation.softmax * shape[-1] ** -0.5)
        shares = torch.softmax(scores.masked_fill(~sees[:, None], -torch.inf), -1)
        return self.wo(torch.einsum("bhij,bjhd->bihd", shares, v).flatten(2))

    def forward(self, x, positions, sees):
        x = x + self.attention(self.attention_norm(x), positions, sees)
        return x + self.ffn(self.ffn_norm(x))


class Amplify(torch.nn.Module):
    """tokens, positions [rows, tokens], sees [rows, query, key] -> logits [rows, tokens, vocabulary]. Parameters carry
    the names of the published checkpoints."""

    def __init__(self, case, mutation=FAITHFUL, init_range=0.02):
        super().__init__()
        self.mutation, self.mask = mutation, case.vocabulary.mask
        pad = None if mutation.pad_trained else case.vocabulary.pad
        self.encoder = torch.nn.Embedding(case.vocabulary.size, case.hidden, padding_idx=pad)
        self.transformer_encoder = torch.nn.ModuleList(Block(case, mutation) for _ in range(case.layers))
        self.layer_norm_2 = RootMeanSquareNorm(case.hidden, case.norm_eps * mutation.norm_eps)
        self.decoder = torch.nn.Linear(case.hidden, case.vocabulary.size)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                torch.nn.init.uniform_(parameter, -init_range, init_range)
        torch.nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, positions, sees):
        x = self.encoder(tokens)
        if self.mutation.mask_zeroed:
            x = x * (tokens != self.mask)[:, :, None]
        for block in self.transformer_encoder:
            x = block(x, positions, sees)
        return self.layer_norm_2(x) @ self.decoder.weight.T + self.decoder.bias * self.mutation.decoder_bias


class Run(masked.Run):
    def __init__(self, case, weights, batch, dtype, mutation):
        super().__init__(Amplify(case, mutation).to(dtype), weights, batch)
        self.positions = torch.from_numpy(batch.positions)
        owner = torch.from_numpy(batch.owner)
        at = torch.arange(case.row_tokens)
        first = at - self.positions  # of the token's segment
        self.sees = (owner[:, :, None] == owner[:, None, :]) & (owner >= 0)[:, :, None]
        before = (at[None, None, :] < first[:, :, None]) & (at[None, None, :] >= first[:, :, None] - mutation.neighbour)
        self.sees = self.sees | (before & (owner >= 0)[:, :, None])
        if mutation.causal:
            self.sees = self.sees & (at[:, None] >= at[None, :])
        self.sees = self.sees | torch.eye(case.row_tokens, dtype=torch.bool)  # padding sees itself: no empty softmax

    def forward(self):
        logits = self.model(self.tokens, self.positions, self.sees)
        return logits, self.loss(logits)

    def alone(self):
        """The logits again, each segment by itself: the proof that nothing leaks between segments."""
        logits = torch.zeros((self.tokens.numel(), self.model.decoder.out_features), dtype=torch.float64)
        for span in self.batch.spans():
            tokens = self.tokens.flatten()[None, span]
            count = tokens.shape[1]
            with torch.no_grad():
                everything = torch.ones((1, count, count), dtype=torch.bool)
                logits[span] = self.model(tokens, torch.arange(count)[None], everything)[0]
        return logits.view(*self.tokens.shape, -1).numpy()


def goldens():
    made = [masked.Golden(case, Amplify, Run, FAITHFUL) for case in CASES]
    for golden in made:
        assert make_llama.relative(golden.run().alone(), golden.logits) < 1e-12
    return made


def check_initial_weights():
    """Two facts that the description fixes and the drawn weights of the golden do not show: the published sizes have
    118,276,507 and 354,008,667 parameters, and the reference's initial matrices are uniform in +- 0.02."""
    for layers, hidden, intermediate, heads, count in ((24, 640, 2560, 10, 118276507), (32, 960, 3840, 15, 354008667)):
        case = dataclasses.replace(
            CASES[0], layers=layers, hidden=hidden, ffn=feed_forward_width(intermediate), heads=heads
        )
        with torch.device("meta"):
            assert sum(parameter.numel() for parameter in Amplify(case).parameters()) == count
    torch.manual_seed(1)
    draws = torch.cat([p.detach().flatten() for p in Amplify(CASES[0]).parameters() if p.dim() == 2]).numpy()
    assert numpy.abs(draws).max() <= 0.02 < 1.01 * numpy.abs(draws).max()
    assert abs(draws.mean()) < 5e-4 and abs(draws.std() * numpy.sqrt(3) / 0.02 - 1) < 0.02


if __name__ == "__main__":
    check_initial_weights()
    masked.main("Makes the AMPLIFY golden files.", goldens, MUTATIONS)
