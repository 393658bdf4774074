"""Makes the folders te_* that `cistron import` is tested with: models as BioNeMo's recipes leave them, made of
TransformerEngine's layers, and the logits that such a model has.

    /tmp/venv/bin/python tests/golden/make_te.py [folder]

in the environment of make_llama.py (numpy, torch and safetensors are used). TransformerEngine itself needs a GPU. The
computation is written here in numpy in float64, from the description of its layers and of the recipes alone
(TransformerEngine's documentation; BioNeMo's recipes llama3_native_te, esm2_native_te and its model AMPLIFY), on the
tensors as they are stored: nothing here takes them apart into Hugging Face's. Weights are drawn large, no gain is 1 and
no bias 0; rows beyond the vocabulary are filled with what would show if it were read.

Each folder has config.json, the tensors, and logits.txt: a line for each token of a few sequences, with the number of
its sequence, its id and its first 33 logits (or all, of fewer). The checks at the end assert that the faults a reader could make (order and
interleaving of q, k and v, order of gate and up, norms exchanged, the form of GELU or of rope) move them by 1e-2 at least.
"""

import json
import pathlib
import sys

import numpy
import safetensors.torch
import torch

LENGTHS = (9, 2, 14)
STORED = 33  # logits of a token


def rms_norm(x, gain, eps):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def layer_norm(x, gain, bias, eps):
    centered = x - x.mean(-1, keepdims=True)
    return centered / numpy.sqrt((centered * centered).mean(-1, keepdims=True) + eps) * gain + bias


def gelu_tanh(x):
    return 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return x * 0.5 * (1 + torch.erf(torch.from_numpy(x / numpy.sqrt(2))).numpy())


def silu(x):
    return x / (1 + numpy.exp(-x))


def inverse_frequencies(head_dim, rope):
    frequencies = rope["theta"] ** (-2 * numpy.arange(head_dim // 2) / head_dim)
    if "factor" not in rope:
        return frequencies
    blended = []
    for f in frequencies:
        wavelength = 2 * numpy.pi / f
        if wavelength > rope["original"] / rope["low"]:
            f = f / rope["factor"]
        elif wavelength >= rope["original"] / rope["high"]:
            s = (rope["original"] / wavelength - rope["low"]) / (rope["high"] - rope["low"])
            f = (1 - s) * f / rope["factor"] + s * f
        blended.append(f)
    return numpy.array(blended)


def rotate(x, rope, interleaved):
    """x: [tokens, heads, head_dim]."""
    angles = numpy.arange(len(x))[:, None] * inverse_frequencies(x.shape[-1], rope)
    cosine, sine = numpy.cos(angles)[:, None], numpy.sin(angles)[:, None]
    half = x.shape[-1] // 2
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = numpy.empty_like(x)
    first, second = a * cosine - b * sine, b * cosine + a * sine
    if interleaved:
        turned[..., 0::2], turned[..., 1::2] = first, second
    else:
        turned[..., :half], turned[..., half:] = first, second
    return turned


def attend(q, k, v, causal):
    """q: [tokens, heads, head_dim]; k, v: [tokens, groups, head_dim]."""
    out = numpy.empty_like(q)
    each = q.shape[1] // k.shape[1]
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head // each].T / numpy.sqrt(q.shape[-1])
        if causal:
            scores = numpy.where(numpy.tril(numpy.ones(scores.shape, bool)), scores, -numpy.inf)
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        out[:, head] = weights / weights.sum(-1, keepdims=True) @ v[:, head // each]
    return out


class Model:
    """A stack of TransformerEngine's layers. t: its tensors in float64."""

    def __init__(self, case, tensors):
        self.case, self.t = case, tensors

    def norm(self, x, prefix, weight="weight", bias="bias"):
        gain = self.t[prefix + weight]
        if self.case["norm"] == "rms":
            return rms_norm(x, gain, self.case["eps"])
        return layer_norm(x, gain, self.t[prefix + bias], self.case["eps"])

    def linear(self, x, prefix):
        return x @ self.t[prefix + "weight"].T + self.t.get(prefix + "bias", 0)

    def attention(self, x, prefix):
        case = self.case
        heads, groups = case["heads"], case["groups"]
        head_dim, each = case["hidden"] // heads, heads // groups
        x = self.norm(x, prefix + "layernorm_qkv.", "layer_norm_weight", "layer_norm_bias")
        mixed = self.linear(x, prefix + "layernorm_qkv.").reshape(len(x), groups, each + 2, head_dim)
        q = mixed[:, :, :each].reshape(len(x), heads, head_dim)
        k, v = mixed[:, :, each], mixed[:, :, each + 1]
        q, k = (rotate(part, case["rope"], case["interleaved"]) for part in (q, k))
        return self.linear(attend(q, k, v, case["causal"]).reshape(len(x), -1), prefix + "proj.")

    def mlp(self, x, prefix):
        x = self.norm(x, prefix, "layer_norm_weight", "layer_norm_bias")
        x = self.linear(x, prefix + "fc1_")
        if self.case["activation"] == "gelu":
            x = self.case.get("gelu", gelu_tanh)(x)
        else:
            gate, up = numpy.split(x, 2, -1)
            x = silu(gate) * up
        return self.linear(x, prefix + "fc2_")

    def scale(self, ids):
        """Of the embeddings: a masked one is left out, the others are scaled by how many are."""
        if not self.case.get("token_dropout"):
            return numpy.ones((len(ids), 1))
        masked = ids == 32
        return numpy.where(masked, 0, (1 - 0.15 * 0.8) / (1 - masked.mean()))[:, None]

    def logits(self, ids):
        case = self.case
        x = self.t[case["embedding"]][ids] * self.scale(ids)
        for layer in range(case["layers"]):
            prefix = f"{case['prefix']}{layer}."
            x = x + self.attention(x, prefix + "self_attention.")
            x = x + self.mlp(x, prefix + "layernorm_mlp.")
        if case["family"] == "llama":
            x = self.norm(x, "model.norm.")
            return x @ self.t[case["embedding"] if case["tied"] else "lm_head.weight"].T
        if case["family"] == "esm2":
            x = self.norm(x, case["root"] + "encoder.emb_layer_norm_after.")
            x = gelu_erf(self.linear(x, "lm_head.dense."))
            x = self.norm(x, "lm_head.decoder.", "layer_norm_weight", "layer_norm_bias")
            return (x @ self.t[case["embedding"]].T + self.t["lm_head.decoder.bias"])[:, : case["vocabulary"]]
        x = self.norm(x, "decoder.", "layer_norm_weight")
        return self.linear(x, "decoder.")[:, : case["vocabulary"]]


def shapes(case):
    """Of all parameters: name -> shape."""
    hidden, ffn, rows = case["hidden"], case["ffn"], case["rows"]
    head_dim = hidden // case["heads"]
    qkv = (case["heads"] + 2 * case["groups"]) * head_dim
    inner = ffn if case["activation"] == "gelu" else 2 * ffn
    biased = case["norm"] == "layer"
    out = {case["embedding"]: (rows, hidden)}
    for layer in range(case["layers"]):
        attention, mlp = (f"{case['prefix']}{layer}.{part}." for part in ("self_attention", "layernorm_mlp"))
        for name, shape in (
            (attention + "layernorm_qkv.layer_norm_weight", (hidden,)),
            (attention + "layernorm_qkv.weight", (qkv, hidden)),
            (attention + "proj.weight", (hidden, hidden)),
            (mlp + "layer_norm_weight", (hidden,)),
            (mlp + "fc1_weight", (inner, hidden)),
            (mlp + "fc2_weight", (hidden, ffn)),
        ):
            out[name] = shape
            if biased:
                out[name.removesuffix("weight") + "bias"] = shape[:1]
    if case["family"] == "llama":
        out["model.norm.weight"] = (hidden,)
        if not case["tied"]:
            out["lm_head.weight"] = (rows, hidden)
    elif case["family"] == "esm2":
        for name in (case["root"] + "encoder.emb_layer_norm_after.", "lm_head.decoder.layer_norm_"):
            out |= {name + "weight": (hidden,), name + "bias": (hidden,)}
        out |= {"lm_head.dense.weight": (hidden, hidden), "lm_head.dense.bias": (hidden,)}
        out["lm_head.decoder.bias"] = (rows,)
    else:
        out |= {"decoder.layer_norm_weight": (hidden,), "decoder.weight": (rows, hidden), "decoder.bias": (rows,)}
    return out


def draw(case):
    random = numpy.random.Generator(numpy.random.PCG64(case["seed"]))
    tensors = {}
    for name, shape in shapes(case).items():
        gain = len(shape) == 1 and (name.endswith("norm_weight") or name.endswith("norm.weight") or "norm_after.w" in name)
        values = random.standard_normal(shape) * (0.3 if len(shape) == 1 else 0.25) + gain
        if name == "decoder.bias" or name == "lm_head.decoder.bias":
            values[case["vocabulary"] :] = torch.finfo(case["dtype"]).min
        tensors[name] = torch.from_numpy(values).to(case["dtype"])
    return tensors


def exact(tensors):
    return {name: tensor.double().numpy() for name, tensor in tensors.items()}


def sequences(case):
    random = numpy.random.Generator(numpy.random.PCG64(100 + case["seed"]))
    out = [random.integers(4, 24, length) for length in LENGTHS]
    for ids in out if case.get("token_dropout") else ():
        ids[random.random(len(ids)) < 0.2] = 32
    return out


def relative(a, b):
    return numpy.linalg.norm(a - b) / numpy.linalg.norm(b)


def all_logits(case, tensors):
    return numpy.concatenate([Model(case, tensors).logits(ids) for ids in sequences(case)])


def check_faults(case, tensors, logits):
    """Each fault of a reader shows."""
    first = case["prefix"] + "0."
    groups, each = case["groups"], case["heads"] // case["groups"]
    head_dim = case["hidden"] // case["heads"]
    qkv = first + "self_attention.layernorm_qkv.weight"
    blocks = tensors[qkv].reshape(groups, each + 2, head_dim, -1)
    stacked = [blocks[:, :each].reshape(-1, case["hidden"])]
    stacked += [blocks[:, each + i].reshape(-1, case["hidden"]) for i in (0, 1)]
    order = [*range(each), each + 1, each]
    fc1, mlp_norm = first + "layernorm_mlp.fc1_weight", first + "layernorm_mlp.layer_norm_weight"
    own_norm = first + "self_attention.layernorm_qkv.layer_norm_weight"
    faults = {
        "k and v exchanged": {qkv: blocks[:, order].reshape(-1, case["hidden"])},
        "not interleaved": {qkv: numpy.concatenate(stacked)},
        "groups exchanged": {qkv: blocks[::-1].reshape(-1, case["hidden"])},
        "norms exchanged": {own_norm: tensors[mlp_norm], mlp_norm: tensors[own_norm]},
    }
    if case["activation"] != "gelu":
        faults["gate and up exchanged"] = {fc1: numpy.roll(tensors[fc1], case["ffn"], 0)}
    moved = {name: relative(all_logits(case, tensors | change), logits) for name, change in faults.items()}
    moved["the other rope"] = relative(all_logits(case | {"interleaved": not case["interleaved"]}, tensors), logits)
    for name, distance in moved.items():
        print(f"  {name:24} {distance:.1e}")
        assert distance > 1e-2, name
    if case["activation"] == "gelu":
        distance = relative(all_logits(case | {"gelu": gelu_erf}, tensors), logits)
        print(f"  {'GELU by erf':24} {distance:.1e}")
        assert distance > 1e-4


LLAMA = dict(
    family="llama", norm="rms", eps=1e-5, activation="swiglu", causal=True, interleaved=False, layers=2,
    embedding="model.embed_tokens.weight", prefix="model.layers.",
)  # fmt: skip
ESM2 = dict(
    family="esm2", norm="layer", eps=1e-5, activation="gelu", causal=False, interleaved=False, tied=True,
    vocabulary=33, rope={"theta": 10000.0},
)  # fmt: skip
CASES = {
    "te_llama_gqa": LLAMA | dict(
        seed=61, hidden=32, ffn=40, heads=4, groups=2, vocabulary=256, rows=256, tied=False, dtype=torch.bfloat16,
        rope={"theta": 10000.0, "factor": 8.0, "low": 1.0, "high": 4.0, "original": 32},
    ),
    "te_llama_mha": LLAMA | dict(
        seed=62, hidden=16, ffn=24, heads=4, groups=4, vocabulary=256, rows=256, tied=True, dtype=torch.float32,
        rope={"theta": 500000.0},
    ),
    "te_esm2": ESM2 | dict(
        seed=63, layers=2, hidden=32, ffn=48, heads=4, groups=4, rows=64, dtype=torch.bfloat16, token_dropout=True,
        root="model.", embedding="model.embeddings.word_embeddings.weight", prefix="model.encoder.layers.",
    ),
    "te_esm2_old": ESM2 | dict(
        seed=64, layers=1, hidden=16, ffn=24, heads=2, groups=2, rows=33, dtype=torch.float32,
        root="esm.", embedding="esm.embeddings.word_embeddings.weight", prefix="esm.encoder.layers.",
    ),
    "te_amplify": dict(
        family="amplify", norm="rms", eps=1e-5, activation="swiglu", causal=False, interleaved=True, tied=False, seed=65,
        layers=2, hidden=32, ffn=24, heads=4, groups=4, vocabulary=27, rows=32, dtype=torch.bfloat16,
        rope={"theta": 10000.0}, embedding="amplify.encoder.weight", prefix="amplify.transformer_encoder.",
    ),
}  # fmt: skip


def configuration(name, case):
    dtype = str(case["dtype"]).removeprefix("torch.")
    sizes = {
        "hidden_size": case["hidden"],
        "num_attention_heads": case["heads"],
        "num_hidden_layers": case["layers"],
        "vocab_size": case["vocabulary"],
        "dtype": dtype,
    }
    if case["family"] == "llama":
        rope = case["rope"]
        parameters = {"rope_type": "default", "rope_theta": rope["theta"]}
        if "factor" in rope:
            parameters |= {
                "rope_type": "llama3",
                "factor": rope["factor"],
                "low_freq_factor": rope["low"],
                "high_freq_factor": rope["high"],
                "original_max_position_embeddings": rope["original"],
            }
        out = sizes | {
            "architectures": ["NVLlamaForCausalLM"],
            "attention_bias": False,
            "attn_input_format": "thd",
            "bos_token_id": 2,
            "embedding_init_std": None,
            "eos_token_id": 0,
            "head_dim": case["hidden"] // case["heads"],
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "intermediate_size": case["ffn"],
            "layer_precision": None,
            "max_position_embeddings": 256,
            "mlp_bias": False,
            "model_type": "llama",
            "num_key_value_heads": case["groups"],
            "pad_token_id": None,
            "rms_norm_eps": case["eps"],
            "rope_parameters": parameters,
            "self_attn_mask_type": "padding_causal",
            "tie_word_embeddings": case["tied"],
            "use_quantized_model_init": False,
        }
        if name == "te_llama_mha":  # what the recipe's sharded save leaves: the class of the configuration it began with
            out |= {"architectures": ["LlamaForCausalLM"], "self_attn_mask_type": "causal"}
        else:
            classes = {"AutoConfig": "NVLlamaConfig", "AutoModelForCausalLM": "NVLlamaForCausalLM"}
            out["auto_map"] = {key: f"modeling_llama_te.{value}" for key, value in classes.items()}
        return out
    if case["family"] == "esm2":
        out = sizes | {
            "add_pooling_layer": False,
            "architectures": ["NVEsmForMaskedLM"],
            "attn_input_format": "bshd",
            "attn_mask_type": "padding",
            "auto_map": {"AutoConfig": "esm_nv.NVEsmConfig", "AutoModelForMaskedLM": "esm_nv.NVEsmForMaskedLM"},
            "emb_layer_norm_before": False,
            "encoder_activation": "gelu",
            "fuse_qkv_params": True,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.0,
            "initializer_range": 0.02,
            "intermediate_size": case["ffn"],
            "is_folding_model": False,
            "layer_norm_eps": case["eps"],
            "mask_token_id": 32,
            "max_position_embeddings": 1026,
            "max_seq_length": None,
            "micro_batch_size": None,
            "model_type": "nv_esm",
            "pad_token_id": 1,
            "padded_vocab_size": case["rows"],
            "position_embedding_type": "rotary",
            "qkv_weight_interleaved": True,
            "token_dropout": case.get("token_dropout", False),
        }
        if name == "te_esm2_old":
            del out["padded_vocab_size"], out["add_pooling_layer"]
        return out
    return sizes | {
        "architectures": ["AMPLIFYForMaskedLM"],
        "att_bias": False,
        "auto_map": {"AutoConfig": "amplify_te.AMPLIFYConfig", "AutoModelForMaskedLM": "amplify_te.AMPLIFYForMaskedLM"},
        "decoder_init_range": 0.02,
        "dropout_prob": 0,
        "embedding_init_range": 0.02,
        "ffn_bias": False,
        "hidden_act": "SwiGLU",
        "intermediate_size": 32,  # 2/3 of it, up to a multiple of 8, is ffn
        "layer_norm_after_embedding": False,
        "layer_norm_before_last_layer": True,
        "max_length": 2048,
        "model_type": "AMPLIFY",
        "norm_eps": case["eps"],
        "pad_token_id": 0,
        "padded_vocab_size": case["rows"],
        "rms_norm": True,
    }


def save(name, case, tensors, folder):
    """With what the classes' versions have left beside the parameters."""
    tensors = dict(tensors)
    state = torch.arange(7, dtype=torch.uint8)
    parts = [tensors]
    if name == "te_llama_gqa":
        table = inverse_frequencies(case["hidden"] // case["heads"], case["rope"])
        tensors["model.rotary_emb.inv_freq"] = torch.from_numpy(table).float()
        for layer in range(case["layers"]):
            tensors[f"{case['prefix']}{layer}.self_attention.layernorm_qkv._extra_state"] = state.clone()
        half = len(tensors) // 2
        names = list(tensors)
        parts = [{key: tensors[key] for key in group} for group in (names[:half], names[half:])]
    if name == "te_esm2":
        tensors["lm_head.decoder.weight"] = tensors[case["embedding"]].clone()
    if name == "te_esm2_old":
        tensors["esm.pooler.dense.weight"] = torch.zeros(case["hidden"], case["hidden"])
        tensors["lm_head.decoder._extra_state"] = state.clone()
    if len(parts) == 1:
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    files = [f"model-0000{i + 1}-of-0000{len(parts)}.safetensors" for i in range(len(parts))]
    for file, part in zip(files, parts):
        safetensors.torch.save_file(part, folder / file, metadata={"format": "pt"})
    index = {
        "metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
        "weight_map": {key: file for file, part in zip(files, parts) for key in part},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for name, case in CASES.items():
        print(name)
        folder = root / name
        folder.mkdir(exist_ok=True)
        tensors = draw(case)
        logits = all_logits(case, exact(tensors))
        check_faults(case, exact(tensors), logits)
        save(name, case, tensors, folder)
        (folder / "config.json").write_text(json.dumps(configuration(name, case), indent=2, sort_keys=True) + "\n")
        ids = [(number, token) for number, sequence in enumerate(sequences(case)) for token in sequence]
        lines = (f"{n} {token} " + " ".join(f"{x:.9g}" for x in row[:STORED]) for (n, token), row in zip(ids, logits))
        (folder / "logits.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
