"""Makes the golden files of Llama and its relatives, tests/golden/llama_*.h5, qwen*.h5, mistral_*.h5, mixtral_*.h5
and olmo2_*.h5, from Hugging Face transformers.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch==2.15.0 transformers==5.23.0 h5py==3.16.0 numpy==2.4.6
    /tmp/venv/bin/python tests/golden/make_llama.py [folder] [--only NAME ...]

writes the files into the folder (default: the one of this script), prints torch's own float32 deviation of each and
the table of mutations, and fails if a deviation is above 0.6 of its bound or a mutation breaks no bound. The files
hold no time stamps: two runs on one machine and with the same versions give the same bytes. tests/golden/README.md
describes the layout.

What is computed in which precision. LlamaForCausalLM.double() alone is not a float64 computation: transformers rounds
RMSNorm, the softmax and the table of RoPE to float32 whatever the model's dtype. `exact` replaces those three by their
formulas in float64; everything else is transformers' code as it stands. The comparison run in float32 uses
transformers wholly unchanged, so that the float32 deviation is at the same time the proof that the three replacements
compute the same function. Mixtral's router also rounds its softmax to float32, and is replaced in the same way.

Mixtral's gradients and training steps contain the auxiliary loss that balances the load of the experts; the losses of
the file do not. It is transformers' load_balancing_loss_func of each layer and each row of tokens by itself, over the
tokens that have a label, weighted by the row's labels, in the mean over layers (auxiliary_loss).
"""

import argparse
import dataclasses
import math
import pathlib
import sys
import types

import h5py
import numpy
import torch
import transformers
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.mixtral import modeling_mixtral
from transformers.models.olmo2 import modeling_olmo2
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

ROWS = 4
ROW_TOKENS = 160
PAD = 1  # Also an ordinary token of the real sequences: only segments say what is padding.
IGNORED = -100
STEPS = 20
PROMPT, GREEDY = 16, 20  # tokens that are continued, and tokens that follow
LR, BETA1, BETA2, ADAM_EPS, WEIGHT_DECAY, CLIP = 1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0

BOUND_LOGITS = 1e-5  # relative L2
BOUND_GRADIENT = 1e-5  # relative L2 of each parameter's gradient
BOUND_LOSS = 1e-4  # relative, each of the 20 losses
ROOM = 0.6  # share of each bound that torch's own float32 deviation may take

ROPE_LOW, ROPE_HIGH, ROPE_ORIGINAL = 1.0, 4.0, 32


@dataclasses.dataclass
class Family:
    """Classes of transformers: the configuration, the model, and the prefix of the classes in the module."""

    prefix: str
    module: types.ModuleType

    def configuration(self, **settings):
        return getattr(transformers, f"{self.prefix}Config")(**settings)

    def model(self, configuration):
        return getattr(transformers, f"{self.prefix}ForCausalLM")(configuration)

    def part(self, name):
        return getattr(self.module, self.prefix + name)


FAMILIES = {
    "llama": Family("Llama", modeling_llama),
    "mixtral": Family("Mixtral", modeling_mixtral),
    "qwen2": Family("Qwen2", modeling_qwen2),
    "qwen3": Family("Qwen3", modeling_qwen3),
    "mistral": Family("Mistral", modeling_mistral),
    "olmo2": Family("Olmo2", modeling_olmo2),
}


@dataclasses.dataclass
class Case:
    """One golden file. segments: lengths of the segments of each row, from the row's first token on; the rest is
    padding. A case is padded if no row may have more than one segment: then transformers gets its plain mask."""

    name: str
    seed: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int
    tied: bool
    norm_eps: float
    rope_theta: float
    rope_factor: float  # 0: no scaling
    max_segments: int
    segments: list
    layers: int = 2
    family: str = "llama"
    options: dict = dataclasses.field(default_factory=dict)  # integers and booleans of the configuration and the file
    auxiliary: float = 0.0  # router_aux_loss_coef
    own_head_dim: int = 0
    rope_type: str = "llama3"  # with rope_factor > 0
    sliding_window: int = 0  # 0: none
    max_window_layers: int = 0  # layers before the first with a window
    greedy: bool = True

    @property
    def head_dim(self):
        return self.own_head_dim or self.hidden // self.heads

    @property
    def yarn(self):
        return self.rope_factor > 0 and self.rope_type == "yarn"

    @property
    def file(self):
        return f"{self.family}_{self.name}"

    @property
    def biased(self):
        return self.family == "qwen2" or any(value for name, value in self.options.items() if name.endswith("bias"))

    @property
    def padded(self):
        return self.max_segments == 1


# With head_dim 16 and theta 10000 the scaled cases have a frequency in each of the three bands of the llama3 rule
# (wavelengths 6.3, 19.9, 63, ... against the edges 8 and 32); with head_dim 8 the middle band would be empty.
CASES = [
    Case(
        name="gqa_padded",
        seed=1,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        vocab=61,
        tied=False,
        norm_eps=1e-5,
        rope_theta=500000.0,
        rope_factor=0.0,
        max_segments=1,
        segments=[[160], [117], [48], [3]],
    ),
    Case(
        name="tied_scaled_padded",
        seed=2,
        hidden=32,
        ffn=48,
        heads=2,
        kv_heads=2,
        vocab=62,
        tied=True,
        norm_eps=1e-4,
        rope_theta=10000.0,
        rope_factor=8.0,
        max_segments=1,
        segments=[[160], [159], [77], [1]],
    ),
    Case(
        name="gqa_scaled_packed",
        seed=3,
        hidden=64,
        ffn=48,
        heads=4,
        kv_heads=2,
        vocab=63,
        tied=False,
        norm_eps=1e-5,
        rope_theta=10000.0,
        rope_factor=8.0,
        max_segments=5,
        segments=[[50, 1, 76, 33], [160], [7, 90, 40], [64, 64, 31, 1]],
    ),
    Case(
        name="mha_packed",
        seed=4,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=4,
        vocab=64,
        tied=False,
        norm_eps=1e-3,
        rope_theta=10000.0,
        rope_factor=0.0,
        max_segments=6,
        segments=[[33, 31, 29, 27, 23, 17], [2, 158], [100, 37], []],
    ),
    Case(
        name="biased",
        seed=5,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        vocab=60,
        tied=True,
        norm_eps=1e-5,
        rope_theta=10000.0,
        rope_factor=0.0,
        max_segments=1,
        segments=[[160], [117], [48], [3]],
        options={"attention_bias": True, "mlp_bias": True},
    ),
    Case(
        name="packed",
        seed=6,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        vocab=59,
        tied=False,
        norm_eps=1e-4,
        rope_theta=1000000.0,
        rope_factor=0.0,
        max_segments=5,
        segments=[[50, 1, 76, 33], [160], [7, 90, 40], [64, 64, 31, 1]],
        family="qwen2",
    ),
    Case(
        name="packed",
        seed=8,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        own_head_dim=16,
        vocab=58,
        tied=True,
        norm_eps=1e-3,
        rope_theta=1000000.0,
        rope_factor=0.0,
        max_segments=6,
        segments=[[33, 31, 29, 27, 23, 17], [2, 158], [100, 37], []],
        family="qwen3",
    ),
    Case(
        name="yarn_padded",
        seed=9,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        own_head_dim=16,
        vocab=57,
        tied=False,
        norm_eps=1e-5,
        rope_theta=10000.0,
        rope_factor=4.0,
        rope_type="yarn",
        max_segments=1,
        segments=[[160], [117], [48], [3]],
        family="qwen3",
    ),
    Case(
        name="linear_packed",
        seed=10,
        hidden=32,
        ffn=48,
        heads=2,
        kv_heads=2,
        vocab=56,
        tied=False,
        norm_eps=1e-5,
        rope_theta=10000.0,
        rope_factor=2.5,
        rope_type="linear",
        max_segments=5,
        segments=[[50, 1, 76, 33], [160], [7, 90, 40], [64, 64, 31, 1]],
    ),
    Case(
        name="packed",
        seed=11,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        own_head_dim=16,
        vocab=55,
        tied=False,
        norm_eps=1e-5,
        rope_theta=10000.0,
        rope_factor=0.0,
        max_segments=5,
        segments=[[50, 1, 76, 33], [160], [7, 90, 40], [64, 64, 31, 1]],
        family="mistral",
        sliding_window=24,
    ),
    Case(
        name="window_padded",
        seed=12,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        vocab=54,
        tied=True,
        norm_eps=1e-4,
        rope_theta=10000.0,
        rope_factor=0.0,
        max_segments=1,
        segments=[[160], [117], [48], [3]],
        family="qwen2",
        sliding_window=20,
        max_window_layers=1,
    ),
]
CASES.append(
    Case(
        name="packed",
        seed=11,
        hidden=32,
        ffn=24,
        heads=4,
        kv_heads=2,
        vocab=54,
        tied=False,
        norm_eps=1e-4,
        rope_theta=1000000.0,
        rope_factor=0.0,
        max_segments=5,
        segments=[[50, 1, 76, 33], [160], [7, 90, 40], [64, 64, 31, 1]],
        family="mixtral",
        options={"num_local_experts": 5, "num_experts_per_tok": 2},
        auxiliary=0.5,
    )
)
CASES += [
    Case(
        name="biased_padded",
        seed=13,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=4,
        vocab=52,
        tied=True,
        norm_eps=1e-5,
        rope_theta=10000.0,
        rope_factor=0.0,
        max_segments=1,
        segments=[[160], [117], [48], [3]],
        family="olmo2",
        options={"attention_bias": True},
    ),
    Case(
        name="packed",
        seed=14,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        vocab=53,
        tied=False,
        norm_eps=1e-3,
        rope_theta=500000.0,
        rope_factor=0.0,
        max_segments=6,
        segments=[[33, 31, 29, 27, 23, 17], [2, 158], [100, 37], []],
        family="olmo2",
    ),
]
for case in CASES[:4]:  # made before the others, without a continuation
    case.greedy = False


@dataclasses.dataclass
class Mutation:
    """A fault of the model, planted on purpose. later_keys and earlier_keys count keys that a query must not see: after
    itself in its segment, and before its segment in the row."""

    name: str
    rope: bool = True
    scaling: bool = True
    softmax: float = 1.0
    kv_roll: int = 0
    later_keys: int = 0
    earlier_keys: int = 0
    norm_eps: float = 1.0
    bias: bool = True
    head_gain: bool = True
    magnitude: bool = True
    window: int = 0  # keys before the window that a query must not see
    auxiliary: bool = True
    chosen: int = 0  # experts of a token, in addition to the case's
    normalised: bool = True
    norms_after: bool = True
    whole: bool = True  # norms of q and k are over all heads

    def concerns(self, case):
        return (
            (self.scaling or case.rope_factor > 0)
            and (self.bias or case.biased)
            and (self.head_gain or case.family in ("qwen3", "olmo2"))
            and ((self.norms_after and self.whole) or case.family == "olmo2")
            and (self.magnitude or case.yarn)
            and (self.window == 0 or case.sliding_window > 0)
            and (case.family == "mixtral" or (self.auxiliary and self.chosen == 0 and self.normalised))
            and (self.kv_roll == 0 or case.kv_heads < case.heads)
            and (self.earlier_keys == 0 or not case.padded)
        )


FAITHFUL = Mutation("none")
MUTATIONS = [
    Mutation("RoPE left out", rope=False),
    Mutation("RoPE scaling left out", scaling=False),
    Mutation("softmax scale x 1.01", softmax=1.01),
    Mutation("kv-head map shifted", kv_roll=1),
    Mutation("causal edge off by one", later_keys=1),
    Mutation("segment edge off by one", earlier_keys=1),
    Mutation("norm eps doubled", norm_eps=2.0),
    Mutation("biases left out", bias=False),
    Mutation("gains of q and k left out", head_gain=False),
    Mutation("yarn's attention factor left out", magnitude=False),
    Mutation("sliding window left out", window=ROW_TOKENS),
    Mutation("sliding window off by one", window=1),
    Mutation("auxiliary loss left out", auxiliary=False),
    Mutation("one expert more", chosen=1),
    Mutation("weights not normalised", normalised=False),
    Mutation("norms before, not after", norms_after=False),
    Mutation("norms of q and k by head", whole=False),
]


class Batch:
    """Tokens, labels and segments of a case: numpy int32, shapes as in the file. One label in twenty is dropped at
    random, as the masking of degenerate bases does."""

    def __init__(self, case, random):
        self.tokens = numpy.full((ROWS, ROW_TOKENS), PAD, numpy.int32)
        self.labels = numpy.full((ROWS, ROW_TOKENS), IGNORED, numpy.int32)
        self.positions = numpy.zeros((ROWS, ROW_TOKENS), numpy.int32)
        self.segment_start = numpy.zeros((ROWS, case.max_segments), numpy.int32)
        self.segment_length = numpy.zeros((ROWS, case.max_segments), numpy.int32)
        self.owner = numpy.full((ROWS, ROW_TOKENS), -1, numpy.int32)  # a token's segment in its row; -1: padding
        for row, lengths in enumerate(case.segments):
            start = 0
            for segment, length in enumerate(lengths):
                span = slice(start, start + length)
                self.tokens[row, span] = random.integers(0, case.vocab, length)
                self.labels[row, start : start + length - 1] = self.tokens[row, start + 1 : start + length]
                self.positions[row, span] = numpy.arange(length)
                self.segment_start[row, segment] = row * ROW_TOKENS + start
                self.segment_length[row, segment] = length
                self.owner[row, span] = segment
                start += length
        self.labels[random.random(self.labels.shape) < 0.05] = IGNORED
        self.real = torch.from_numpy(self.owner >= 0)

    def mask(self, dtype, mutation, window=0):
        """Additive mask [ROWS, 1, query, key]: block-diagonal and causal, within the window if there is one. A padding
        token sees itself alone, so that no softmax is over nothing; nothing real sees it."""
        query = numpy.arange(ROW_TOKENS)[None, :, None]
        key = numpy.arange(ROW_TOKENS)[None, None, :]
        owner = self.owner
        first = query - self.positions[:, :, None]
        same = owner[:, :, None] == owner[:, None, :]
        later = same & (key <= query + mutation.later_keys)
        earlier = (key >= first - mutation.earlier_keys) & (key <= query)
        near = (key > query - window - mutation.window) | (window == 0)
        sees = (owner[:, :, None] >= 0) & (((key >= first) & later) | earlier) & near | (query == key)
        mask = torch.zeros((ROWS, 1, ROW_TOKENS, ROW_TOKENS), dtype=dtype)
        mask[torch.from_numpy(~sees)[:, None]] = torch.finfo(dtype).min
        return mask

    def masks(self, case, dtype, mutation):
        """The mask as the model takes it: one for all layers, or one for each type of layer."""
        windowed = self.mask(dtype, mutation, case.sliding_window)
        if case.max_window_layers == 0:
            return windowed
        return {"full_attention": self.mask(dtype, mutation), "sliding_attention": windowed}


def window_options(case):
    """Keys of the configuration that say which layers have a window. MistralConfig's default is one of 4096."""
    if case.family == "mistral":
        return {"sliding_window": case.sliding_window or None}
    if case.sliding_window == 0:
        return {}
    return {
        "use_sliding_window": True,
        "sliding_window": case.sliding_window,
        "max_window_layers": case.max_window_layers,
    }


def configuration(case):
    rope = {"rope_type": "default", "rope_theta": case.rope_theta}
    if case.rope_factor > 0:
        rope |= {"rope_type": case.rope_type, "factor": case.rope_factor}
    if case.rope_factor > 0 and case.rope_type != "linear":
        rope["original_max_position_embeddings"] = ROPE_ORIGINAL
    if case.rope_factor > 0 and case.rope_type == "llama3":
        rope |= {"low_freq_factor": ROPE_LOW, "high_freq_factor": ROPE_HIGH}
    if case.yarn:
        rope |= {"beta_slow": ROPE_LOW, "beta_fast": ROPE_HIGH}
    return FAMILIES[case.family].configuration(
        **case.options,
        **window_options(case),
        vocab_size=case.vocab,
        hidden_size=case.hidden,
        intermediate_size=case.ffn,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        num_key_value_heads=case.kv_heads,
        head_dim=case.head_dim,
        max_position_embeddings=256,
        rms_norm_eps=case.norm_eps,
        tie_word_embeddings=case.tied,
        rope_parameters=rope,
        attention_dropout=0.0,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        attn_implementation="eager",
        **({"experts_implementation": "eager"} if case.family == "mixtral" else {}),
    )


def draw_weights(case, random):
    """Matrices of standard deviation 0.2, gains off 1 and biases off 0 (small weights hide faults), as float32 numbers
    by name."""
    weights = {}
    for name, parameter in FAMILIES[case.family].model(configuration(case)).named_parameters():
        noise = random.standard_normal(tuple(parameter.shape))
        drawn = 0.2 * noise if parameter.dim() >= 2 else 0.3 * noise if name.endswith("bias") else 1 + 0.3 * noise
        weights[name] = drawn.astype(numpy.float32)
    return weights


def frequencies(case, scaling):
    """RoPE's angular frequencies [head_dim / 2] in float64, by the case's rule if the caller asks for it."""
    plain = case.rope_theta ** (-torch.arange(0, case.head_dim, 2, dtype=torch.float64) / case.head_dim)
    if case.rope_factor == 0 or not scaling:
        return plain
    if case.rope_type == "linear":
        return plain / case.rope_factor
    if case.rope_type == "yarn":
        # The pair that turns as often over the original length as the betas say, as transformers rounds it.
        pair = [
            case.head_dim * math.log(ROPE_ORIGINAL / (2 * math.pi * turns)) / (2 * math.log(case.rope_theta))
            for turns in (ROPE_HIGH, ROPE_LOW)
        ]
        first, last = max(math.floor(pair[0]), 0), min(math.ceil(pair[1]), case.head_dim - 1)
        ramp = ((torch.arange(case.head_dim // 2, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
        return plain * (1 - ramp + ramp / case.rope_factor)
    turns = ROPE_ORIGINAL * plain / (2 * math.pi)
    share = ((turns - ROPE_LOW) / (ROPE_HIGH - ROPE_LOW)).clamp(0, 1)
    return plain * (share + (1 - share) / case.rope_factor)


transformers_attention = modeling_llama.eager_attention_forward


def attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **rest):
    """transformers' eager attention, save that a float64 model's softmax is in float64 (and the planted kv_roll)."""
    if query.dtype != torch.float64:
        return transformers_attention(module, query, key, value, attention_mask, scaling, dropout, **rest)
    groups = module.num_key_value_groups
    key = modeling_llama.repeat_kv(key, groups).roll(module.kv_roll, 1)
    value = modeling_llama.repeat_kv(value, groups).roll(module.kv_roll, 1)
    scores = query @ key.transpose(2, 3) * scaling + attention_mask
    shares = torch.softmax(scores, -1)
    return (shares @ value).transpose(1, 2).contiguous(), shares


for family in FAMILIES.values():
    family.module.eager_attention_forward = attention


def exact(model, case, mutation):
    """The model in float64 throughout, with the mutation planted."""
    model = model.double()
    omega = frequencies(case, mutation.scaling)
    magnitude = 0.1 * math.log(case.rope_factor) + 1 if case.yarn and mutation.magnitude else 1

    def rope_table(_, x, position_ids):
        angle = position_ids[:, :, None] * omega * (1 if mutation.rope else 0)
        angle = torch.cat((angle, angle), -1)
        return magnitude * angle.cos(), magnitude * angle.sin()

    def norm(self, x):
        parts = x.unflatten(-1, (-1, getattr(self, "head_dim", x.shape[-1])))
        parts = parts * torch.rsqrt(parts.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * parts.flatten(-2)

    model.model.rotary_emb.forward = types.MethodType(rope_table, model.model.rotary_emb)
    for module in model.modules():
        if isinstance(module, FAMILIES[case.family].part("RMSNorm")):
            module.variance_epsilon *= mutation.norm_eps
            module.forward = types.MethodType(norm, module)
        elif isinstance(module, FAMILIES[case.family].part("Attention")):
            module.scaling *= mutation.softmax
            module.kv_roll = mutation.kv_roll
            if not mutation.head_gain:
                module.q_norm.weight.data.fill_(1)
                module.k_norm.weight.data.fill_(1)
            if not mutation.whole:
                module.q_norm.head_dim = module.k_norm.head_dim = case.head_dim
        elif isinstance(module, modeling_olmo2.Olmo2DecoderLayer) and not mutation.norms_after:
            module.forward = types.MethodType(norms_before, module)
        elif isinstance(module, torch.nn.Linear) and module.bias is not None and not mutation.bias:
            module.bias.data.zero_()
        elif isinstance(module, modeling_mixtral.MixtralTopKRouter):
            module.top_k += mutation.chosen
            module.normalised = mutation.normalised
            module.forward = types.MethodType(route, module)
    return model


def norms_before(self, x, **rest):
    """A layer of OLMo 2 whose norms are before attention and MLP: a fault."""
    x = x + self.self_attn(hidden_states=self.post_attention_layernorm(x), **rest)[0]
    return x + self.mlp(self.post_feedforward_layernorm(x))


def route(self, x):
    """The router of Mixtral in the input's type."""
    logits = torch.nn.functional.linear(x.reshape(-1, self.hidden_dim), self.weight)
    shares, experts = torch.softmax(logits, -1).topk(self.top_k, -1)
    return logits, shares / shares.sum(-1, keepdim=True) if self.normalised else shares, experts


def auxiliary_loss(case, logits, counted):
    """The auxiliary loss of the layers' router logits [ROWS * ROW_TOKENS, experts]; counted [ROWS, ROW_TOKENS]: which
    tokens have a label. A float32 model's is by transformers' function, a float64 model's by its formula."""
    experts, chosen = case.options["num_local_experts"], case.options["num_experts_per_tok"]
    total = torch.zeros((), dtype=logits[0].dtype)
    for layer in logits:
        for row, mask in zip(layer.reshape(ROWS, ROW_TOKENS, -1), counted):
            if not mask.any():
                continue
            if layer.dtype == torch.float32:
                loss = modeling_mixtral.load_balancing_loss_func((row,), experts, chosen, mask[None].long())
            else:
                shares = torch.softmax(row[mask], -1)
                load = torch.zeros_like(shares).scatter(1, shares.topk(chosen, -1).indices, 1.0).mean(0)
                loss = experts * (load * shares.mean(0)).sum()
            total = total + loss * mask.sum() / counted.sum() / len(logits)
    return case.auxiliary * total


def published(tensors):
    """Tensors by their names in published files: transformers 5 stacks the experts' matrices."""
    parts = {}
    for name, data in tensors.items():
        prefix, _, kind = name.rpartition(".mlp.")
        if kind == "gate.weight":
            parts[f"{prefix}.block_sparse_moe.gate.weight"] = data
        elif kind.startswith("experts."):
            names = ("w2",) if kind == "experts.down_proj" else ("w1", "w3")
            for expert, matrix in enumerate(data):
                for part, rows in zip(names, numpy.split(matrix, len(names))):
                    parts[f"{prefix}.block_sparse_moe.experts.{expert}.{part}.weight"] = rows
        else:
            parts[name] = data
    return parts


class Run:
    """A model of the case with the given weights, on the given batch; float32 is transformers unchanged."""

    def __init__(self, case, weights, batch, dtype, mutation=FAITHFUL):
        self.batch = batch
        self.model = FAMILIES[case.family].model(configuration(case))
        missing, surplus = self.model.load_state_dict(
            {n: torch.from_numpy(w) for n, w in weights.items()}, strict=False
        )
        assert not surplus and set(missing) <= ({"lm_head.weight"} if case.tied else set())
        # What transformers made of the configuration, against our own formula for it.
        table = self.model.model.rotary_emb.inv_freq.double()
        assert (table / frequencies(case, True) - 1).abs().max() < 1e-6
        if dtype == torch.float64:
            self.model = exact(self.model, case, mutation)
        self.case = case
        self.auxiliary = mutation.auxiliary and case.auxiliary > 0
        self.router_logits = []
        for module in self.model.modules():
            if isinstance(module, modeling_mixtral.MixtralTopKRouter):
                module.register_forward_hook(lambda _, inputs, outputs: self.router_logits.append(outputs[0]))
        self.tokens = torch.from_numpy(batch.tokens).long()
        self.labels = torch.from_numpy(batch.labels).long()
        if case.padded and mutation is FAITHFUL:
            self.inputs = {"attention_mask": batch.real.long()}
        else:
            self.inputs = {
                "attention_mask": batch.masks(case, dtype, mutation),
                "position_ids": torch.from_numpy(batch.positions).long(),
            }

    def forward(self):
        """(logits [ROWS, ROW_TOKENS, vocab], loss): the loss is the mean over all labels that are not IGNORED."""
        self.router_logits.clear()
        logits = self.model(input_ids=self.tokens, **self.inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.labels.flatten(), ignore_index=IGNORED)
        return logits, loss

    def objective(self, loss):
        """What training minimises."""
        if not self.auxiliary:
            return loss
        return loss + auxiliary_loss(self.case, self.router_logits, self.labels != IGNORED)

    def first(self):
        """(logits with padding zeroed, loss, gradients by name) of the weights as they are."""
        self.model.zero_grad()
        logits, loss = self.forward()
        self.objective(loss).backward()
        gradients = {n: p.grad.numpy().copy() for n, p in self.model.named_parameters()}
        return (logits.detach() * self.batch.real[:, :, None]).numpy(), loss.item(), gradients

    def train(self, weight_decay=WEIGHT_DECAY, decay_gains=False, clip=CLIP, beta2=BETA2, steps=STEPS):
        """(losses before each step, gradient norms before clipping, final weights by name) of `steps` steps of AdamW."""
        parameters = list(self.model.parameters())
        decayed = [p for p in parameters if p.dim() >= 2 or decay_gains]
        plain = [p for p in parameters if p.dim() < 2 and not decay_gains]
        optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}],
            lr=LR,
            betas=(BETA1, beta2),
            eps=ADAM_EPS,
        )
        losses, norms = [], []
        for _ in range(steps):
            optimizer.zero_grad()
            _, loss = self.forward()
            self.objective(loss).backward()
            norms.append(torch.nn.utils.clip_grad_norm_(parameters, clip).item())
            optimizer.step()
            losses.append(loss.item())
        return (
            numpy.array(losses),
            numpy.array(norms),
            {n: p.detach().numpy().copy() for n, p in self.model.named_parameters()},
        )


def relative(got, want):
    return float(numpy.linalg.norm(got.astype(numpy.float64) - want) / numpy.linalg.norm(want))


def worst(got, want):
    return max(relative(got[name], want[name]) for name in want)


def worst_loss(got, want):
    return float(numpy.max(numpy.abs(numpy.asarray(got) / numpy.asarray(want) - 1)))


class Golden:
    """All that one file holds, and how far float32 is from it."""

    def __init__(self, case):
        self.case = case
        random = numpy.random.Generator(numpy.random.PCG64(case.seed))
        self.batch = Batch(case, random)
        self.weights = draw_weights(case, random)
        self.logits, self.loss, self.gradients = self.run().first()
        self.losses, self.norms, self.final = self.run().train()
        assert self.losses[0] == self.loss
        assert relative(self.alone(), self.logits) < 1e-12
        logits, _, gradients = self.run(dtype=torch.float32).first()
        losses, norms, final = self.run(dtype=torch.float32).train()
        self.deviation = {
            "float32_logits": relative(logits, self.logits),
            "float32_gradient": worst(gradients, self.gradients),
            "float32_loss": worst_loss(losses, self.losses),
            "float32_grad_norm": worst_loss(norms, self.norms),
            "float32_final": worst(final, self.final),
        }

    def run(self, dtype=torch.float64, mutation=FAITHFUL):
        return Run(self.case, self.weights, self.batch, dtype, mutation)

    def alone(self):
        """The logits again, each segment by itself and no mask given: the proof that nothing leaks between segments."""
        model = self.run().model
        logits = numpy.zeros_like(self.logits)
        tokens = torch.from_numpy(self.batch.tokens.reshape(-1)).long()
        for start, length in zip(self.batch.segment_start.flat, self.batch.segment_length.flat):
            if length > 0:
                with torch.no_grad():
                    own = model(input_ids=tokens[None, start : start + length]).logits[0]
                logits.reshape(-1, self.case.vocab)[start : start + length] = own
        return logits

    def continuation(self):
        """The GREEDY tokens that follow the first PROMPT tokens of the batch, each the one of the largest logit."""
        model = self.run().model
        tokens = torch.from_numpy(self.batch.tokens[:1, :PROMPT]).long()
        for _ in range(GREEDY):
            with torch.no_grad():
                best = model(input_ids=tokens).logits[0, -1].topk(2)
            assert best.values[0] - best.values[1] > 1e-4, best.values  # no tie
            tokens = torch.cat((tokens, best.indices[None, :1]), 1)
        return tokens[0, PROMPT:].numpy().astype(numpy.int32)

    def write(self, folder):
        case, batch = self.case, self.batch
        path = folder / f"{case.file}.h5"
        with h5py.File(path, "w") as file:
            for name in ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "max_segments"):
                file.attrs[name] = numpy.int64(getattr(case, name))
            for name in ("norm_eps", "rope_theta", "rope_factor"):
                file.attrs[name] = numpy.float64(getattr(case, name))
            for name, value in (
                ("tied", case.tied),
                ("rows", ROWS),
                ("row_tokens", ROW_TOKENS),
                ("rope_original", ROPE_ORIGINAL),
            ):
                file.attrs[name] = numpy.int64(value)
            for name, value in (
                ("rope_low", ROPE_LOW),
                ("rope_high", ROPE_HIGH),
                ("lr", LR),
                ("beta1", BETA1),
                ("beta2", BETA2),
                ("adam_eps", ADAM_EPS),
                ("weight_decay", WEIGHT_DECAY),
                ("clip", CLIP),
                *self.deviation.items(),
            ):
                file.attrs[name] = numpy.float64(value)

            def put(name, data):
                file.create_dataset(name, data=data, track_times=False)

            if case.greedy:
                file.attrs["family"] = numpy.bytes_(case.family)
                file.attrs["rope_type"] = numpy.bytes_(case.rope_type)
                put("prompt", batch.tokens[0, :PROMPT])
                put("greedy", self.continuation())
            for name, value in case.options.items():
                file.attrs[name] = numpy.int64(value)
            if case.sliding_window > 0:
                file.attrs["sliding_window"] = numpy.int64(case.sliding_window)
                file.attrs["max_window_layers"] = numpy.int64(case.max_window_layers)
            if case.auxiliary > 0:
                file.attrs["router_aux_loss_coef"] = numpy.float64(case.auxiliary)

            for name in ("tokens", "labels", "positions", "segment_start", "segment_length"):
                put(name, getattr(batch, name))
            put("logits", self.logits.astype(numpy.float32) if case.greedy else self.logits)
            put("loss", numpy.float64(self.loss))
            put("losses", self.losses)
            put("grad_norms", self.norms)
            for group, tensors in (("weights", self.weights), ("gradients", self.gradients), ("final", self.final)):
                for name, data in published(tensors).items():
                    put(f"{group}/{name}", data)
        return path


def report_float32(goldens):
    """Prints the deviation of transformers in float32 from each golden; true if all leave room below the bounds."""
    bounds = {"float32_logits": BOUND_LOGITS, "float32_gradient": BOUND_GRADIENT, "float32_loss": BOUND_LOSS}
    print(
        f"\n{'torch in float32, relative deviation':49}"
        + "".join(f"{column:>10}" for column in ("logits", "gradient", "losses", "norms", "final"))
    )
    for golden in goldens:
        print(f"  {golden.case.file.removeprefix('llama_'):47}" + "".join(f"{d:10.1e}" for d in golden.deviation.values()))
    print(f"  {'bound x ' + str(ROOM):47}" + "".join(f"{ROOM * b:10.1e}" for b in bounds.values()))
    return all(golden.deviation[name] <= ROOM * bound for golden in goldens for name, bound in bounds.items())


def report_mutations(goldens, every):
    """Prints what each planted fault moves (logits, worst gradient, loss); true if each breaks a bound in some case
    (every: there are cases for all faults). The first lines plant none: they put our mask in the place of transformers' padding mask, which moves nothing."""
    print(f"\n{'mutation (* breaks a bound)':28}{'case':21}{'logits':>10}{'gradient':>10}{'loss':>10}")
    complete = True
    for mutation in [Mutation("own mask, no fault"), *MUTATIONS]:
        caught = False
        for golden in goldens:
            if not mutation.concerns(golden.case):
                continue
            logits, loss, gradients = golden.run(mutation=mutation).first()
            moved = (relative(logits, golden.logits), worst(gradients, golden.gradients), worst_loss(loss, golden.loss))
            broken = any(m > b for m, b in zip(moved, (BOUND_LOGITS, BOUND_GRADIENT, BOUND_LOSS)))
            caught |= broken
            print(
                f"{mutation.name:28}{golden.case.file.removeprefix('llama_'):21}"
                + "".join(f"{m:10.1e}" for m in moved)
                + (" *" if broken else "")
            )
        faulty = mutation in MUTATIONS
        concerned = every or any(mutation.concerns(golden.case) for golden in goldens)
        complete &= caught == faulty or not concerned
    return complete


def report_optimizer(goldens):
    """Prints what faults of the optimizer move (worst of the 20 losses, worst final weight): for information, since the
    bound on the losses was not made for them."""
    faults = {
        "weight decay left out": {"weight_decay": 0.0},
        "weight decay on gains": {"decay_gains": True},
        "clipping left out": {"clip": math.inf},
        "beta2 0.999": {"beta2": 0.999},
    }
    print(f"\n{'optimizer fault (* breaks)':28}{'case':21}{'losses':>10}{'final':>10}")
    for name, fault in faults.items():
        for golden in goldens:
            losses, _, final = golden.run().train(**fault)
            moved = worst_loss(losses, golden.losses)
            print(
                f"{name:28}{golden.case.file.removeprefix('llama_'):21}{moved:10.1e}{worst(final, golden.final):10.1e}"
                + (" *" if moved > BOUND_LOSS else "")
            )


def main():
    parser = argparse.ArgumentParser(description="Makes the Llama golden files.")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these files, without .h5")
    arguments = parser.parse_args()
    folder = arguments.folder
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, "
        f"h5py {h5py.__version__}, numpy {numpy.__version__}"
    )
    cases = [case for case in CASES if arguments.only is None or case.file in arguments.only]
    goldens = [Golden(case) for case in cases]
    for golden in goldens:
        path = golden.write(folder)
        valid = int((golden.batch.labels != IGNORED).sum())
        print(
            f"{path}: {path.stat().st_size} bytes, {int(golden.batch.real.sum())} tokens, {valid} labels, "
            f"losses {golden.losses[0]:.6f} .. {golden.losses[-1]:.6f}, "
            f"gradient norms {golden.norms.min():.3f} .. {golden.norms.max():.3f}"
        )
    room = report_float32(goldens)
    caught = report_mutations(goldens, every=arguments.only is None)
    report_optimizer(goldens)
    if not room:
        sys.exit("float32 leaves too little room below a bound")
    if not caught:
        sys.exit("a mutation breaks no bound, or the unmutated model does")


if __name__ == "__main__":
    main()
