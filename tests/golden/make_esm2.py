"""Makes the golden files of the ESM-2 family, tests/golden/esm2_*.h5, from Hugging Face transformers.

    /tmp/venv/bin/python tests/golden/make_esm2.py [folder]

in the environment of make_llama.py. tests/golden/README.md describes the layout.

Each segment of the packed rows is a row of its own in transformers (masked.SegmentRun), which thus also decides what the
share of its masks is. EsmForMaskedLM.double() alone is not a float64
computation: transformers rounds RoPE and the share of masks to float32 whatever the model's dtype. `exact` replaces
these two by their formulas in float64; everything else is transformers' code as it stands. The comparison run in
float32 uses transformers wholly unchanged, so that the float32 deviation is at the same time the proof that the
replacements compute the same function. The exception is the tanh form of GELU, which transformers has not (it uses the
erf form whatever the configuration says): it is put in in float32 too, in the layers and not in the head, as
TransformerEngine's implementation of the model has it.
"""

import contextlib
import dataclasses
import types
from unittest import mock

import torch
import transformers
from transformers.models.esm import modeling_esm

import masked

CASES = [
    masked.Case(
        name="padded",
        family="esm2",
        seed=31,
        layers=2,
        hidden=32,
        ffn=48,
        heads=4,
        norm_eps=1e-3,
        vocabulary=masked.ESM2,
        tied=True,
        row_tokens=160,
        segments=[[(160, 0.15)], [(117, 0.3)], [(30, 0.7)]],
        gelu="erf",
        token_dropout=True,
    ),
    masked.Case(
        name="packed",
        family="esm2",
        seed=32,
        layers=1,
        hidden=48,  # head_dim 24, as esm2_t12_35M has
        ffn=40,
        heads=2,
        norm_eps=1e-4,
        vocabulary=masked.ESM2,
        tied=True,
        row_tokens=136,
        segments=[[(40, 0.15), (2, 0.0), (61, 0.5), (33, 0.1)], [(136, 0.3)], [(9, 0.8), (90, 0.2)], []],
        gelu="erf",
        token_dropout=True,
    ),
    masked.Case(
        name="tanh",
        family="esm2",
        seed=33,
        layers=2,
        hidden=16,
        ffn=24,
        heads=2,
        norm_eps=1e-5,
        vocabulary=masked.ESM2,
        tied=True,
        row_tokens=64,
        segments=[[(64, 0.2)], [(23, 0.2), (31, 0.4)]],
        gelu="tanh",
        token_dropout=False,
    ),
    masked.Case(
        name="pad",
        family="esm2",
        seed=34,
        layers=1,
        hidden=16,
        ffn=24,
        heads=2,
        norm_eps=1e-5,
        vocabulary=masked.ESM2,
        tied=True,
        row_tokens=64,
        segments=[[(64, 0.6)], [(23, 0.6), (31, 0.5)]],
        gelu="erf",
        token_dropout=True,
        replacements=(masked.ESM2.pad, masked.ESM2.pad, 5, 9),
        steps=100,
    ),
]


@dataclasses.dataclass
class Mutation:
    """A fault of the model, planted on purpose. silent: parameters whose names end so are zero in the computation."""

    rope: bool = True
    interleaved: bool = False
    causal: bool = False
    softmax: float = 1.0
    norm_eps: float = 1.0
    mean: bool = True
    gelu: str = ""  # instead of the case's, in the layers
    head_gelu: str = "erf"
    dropout: bool = True
    pad_trained: bool = False
    share_of: str = "segment"
    silent: tuple = ()


FAITHFUL = Mutation()


def always(_):
    return True


def drops(case):
    return case.token_dropout


def packed(case):
    return case.max_segments > 1


MUTATIONS = {
    "pad trained": (Mutation(pad_trained=True), lambda case: case.vocabulary.pad in case.replacements),
    "token dropout left out": (Mutation(dropout=False), drops),
    "share of masks over padded row": (Mutation(share_of="padded row"), drops),
    "share of masks over packed row": (Mutation(share_of="packed row"), lambda case: drops(case) and packed(case)),
    "GELU tanh for erf": (Mutation(gelu="tanh"), lambda case: case.gelu == "erf"),
    "GELU erf for tanh": (Mutation(gelu="erf"), lambda case: case.gelu == "tanh"),
    "GELU tanh in the head": (Mutation(head_gelu="tanh"), always),
    "RoPE left out": (Mutation(rope=False), always),
    "interleaved instead of half-split": (Mutation(interleaved=True), always),
    "causal": (Mutation(causal=True), always),
    "softmax scale x 1.01": (Mutation(softmax=1.01), always),
    "norm eps doubled": (Mutation(norm_eps=2.0), always),
    "norm without the mean": (Mutation(mean=False), always),
    "norm biases left out": (Mutation(silent=("LayerNorm.bias", "after.bias", "layer_norm.bias")), always),
    "query bias left out": (Mutation(silent=("query.bias",)), always),
    "value bias left out": (Mutation(silent=("value.bias",)), always),
    "projection bias left out": (Mutation(silent=("attention.output.dense.bias",)), always),
    "feed-forward biases left out": (Mutation(silent=("intermediate.dense.bias",)), always),
    "head's dense bias left out": (Mutation(silent=("lm_head.dense.bias",)), always),
    "decoder bias left out": (Mutation(silent=("lm_head.bias",)), always),
}


def configuration(case):
    return transformers.EsmConfig(
        vocab_size=case.vocabulary.size,
        mask_token_id=case.vocabulary.mask,
        pad_token_id=case.vocabulary.pad,
        hidden_size=case.hidden,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        intermediate_size=case.ffn,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=1026,
        rope_theta=case.rope_theta,
        layer_norm_eps=case.norm_eps,
        position_embedding_type="rotary",
        emb_layer_norm_before=False,
        token_dropout=case.token_dropout,
        tie_word_embeddings=case.tied,
        attn_implementation="eager",
    )


def make_model(case):
    """transformers' model without the contact head, which the masked language model neither uses nor trains."""
    model = transformers.EsmForMaskedLM(configuration(case))
    model.esm.contact_head = None
    return model


def activation(form):
    return lambda x: torch.nn.functional.gelu(x, approximate="none" if form == "erf" else form)


def put_gelu(model, form):
    for layer in model.esm.encoder.layer:
        layer.intermediate.forward = types.MethodType(
            lambda self, x, gelu=activation(form): gelu(self.dense(x)), layer.intermediate
        )


def exact(model, case, mutation):
    """The model in float64 throughout, with what of the mutation is a matter of its modules."""
    model = model.double()
    width = case.head_dim
    omega = case.rope_theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)

    def rope_table(_, x, position_ids):
        angle = position_ids[:, :, None] * omega * (1 if mutation.rope else 0)
        angle = angle.repeat_interleave(2, -1) if mutation.interleaved else torch.cat((angle, angle), -1)
        return angle.cos(), angle.sin()

    def norm(self, x):
        x = x - x.mean(-1, keepdim=True) * (1 if mutation.mean else 0)
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)) + self.bias

    def head(self, x):
        return self.decoder(self.layer_norm(activation(mutation.head_gelu)(self.dense(x)))) + self.bias

    model.esm.rotary_embeddings.forward = types.MethodType(rope_table, model.esm.rotary_embeddings)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps *= mutation.norm_eps
            if not mutation.mean:
                module.forward = types.MethodType(norm, module)
        elif isinstance(module, modeling_esm.EsmSelfAttention):
            module.scaling *= mutation.softmax
    if mutation.pad_trained:
        model.esm.embeddings.word_embeddings.padding_idx = None
    if mutation.gelu:
        put_gelu(model, mutation.gelu)
    if mutation.head_gelu != "erf":
        model.lm_head.forward = types.MethodType(head, model.lm_head)
    return model


def turned(x, interleaved):
    """Each pair (a, b) of x as (-b, a)."""
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    low, high = x.chunk(2, -1)
    return torch.cat((-high, low), -1)


class Run(masked.SegmentRun):
    make = staticmethod(make_model)

    def __init__(self, case, weights, batch, dtype, mutation):
        super().__init__(self.make(case), case, weights, batch, mutation)
        tied = self.model.lm_head.decoder.weight is self.model.esm.embeddings.word_embeddings.weight
        assert tied == case.tied
        if case.gelu == "tanh":
            put_gelu(self.model, "tanh")
        self.replacements = {}
        if dtype == torch.float64:
            self.model = exact(self.model, case, mutation)
            self.replace()
        self.scale = torch.zeros(self.inputs.shape, dtype=torch.float64)
        scale = torch.from_numpy(batch.scale(mutation.dropout, mutation.share_of)).flatten()
        for row, span in enumerate(self.spans):
            self.scale[row, : span.stop - span.start] = scale[span]

    def replace(self):
        """What of the float64 computation and of the mutation is a matter of transformers' functions."""
        mutation, words = self.mutation, self.model.esm.embeddings.word_embeddings
        attend = modeling_esm.eager_attention_forward

        def embed(_, input_ids, **rest):
            return words(input_ids) * self.scale[:, :, None]

        def rotate(query, key, cosine, sine, unsqueeze_dim):
            return [
                x * cosine.unsqueeze(unsqueeze_dim) + turned(x, mutation.interleaved) * sine.unsqueeze(unsqueeze_dim)
                for x in (query, key)
            ]

        def attend_causal(module, query, key, value, attention_mask, **rest):
            later = torch.ones(query.shape[2], query.shape[2], dtype=torch.bool).triu(1)
            attention_mask = attention_mask.masked_fill(later, torch.finfo(query.dtype).min)
            return attend(module, query, key, value, attention_mask, **rest)

        self.model.esm.embeddings.forward = types.MethodType(embed, self.model.esm.embeddings)
        self.replacements["apply_rotary_pos_emb"] = rotate
        if mutation.causal:
            self.replacements["eager_attention_forward"] = attend_causal

    def own_logits(self):
        with contextlib.ExitStack() as stack:
            for name, function in self.replacements.items():
                stack.enter_context(mock.patch.object(modeling_esm, name, function))
            return self.call(self.mask)


def check_parameter_counts():
    """The published sizes without their contact head (spec: 7,512,353 with 33 tokens, six layers and so on)."""
    sizes = ((6, 320, 20, 7512353), (12, 480, 20, 33501153), (36, 2560, 40, 2839004193), (48, 5120, 40, 15129098273))
    for layers, hidden, heads, count in sizes:
        case = dataclasses.replace(CASES[0], layers=layers, hidden=hidden, ffn=4 * hidden, heads=heads)
        with torch.device("meta"):
            model = make_model(case)
        model.tie_weights()
        assert sum(parameter.numel() for parameter in model.parameters()) == count


def goldens():
    return [masked.Golden(case, make_model, Run, FAITHFUL) for case in CASES]


if __name__ == "__main__":
    check_parameter_counts()
    masked.main("Makes the ESM-2 golden files.", goldens, MUTATIONS)
