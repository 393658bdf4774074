"""Makes the folders of published form that `cistron import` is tested with.

    /tmp/venv/bin/python tests/golden/make_bridge.py [folder [NAME ...]]

in the environment of make_llama.py. esm2_tiny and llama_tiny are what transformers writes: ESM-2 in float32, one file,
with its contact head, the table of RoPE and the tokenizer, and in esm2_base its EsmModel, which has no head; Llama in bfloat16, in shards with an index, with llama3
scaling of RoPE, without a tokenizer; qwen2_tiny, qwen3_tiny, mistral_tiny, mixtral_tiny and olmo2_tiny in bfloat16, one file; esmc_tiny in float32.
ntv2_tiny has the names and the configuration of the published Nucleotide Transformers v2. esm2_old and llama_tiny/config_old.json are the same models as transformers 4
spelt them: LayerNorm's weight and bias (esm2_tiny has gamma and beta), a table of RoPE in each layer, the tied decoder
written out, no contact head; rope_theta and rope_scaling. amplify_tiny has the names and the configuration of the
published AMPLIFY and the reference of make_amplify.py. All weights are drawn large, as in the goldens; no gain is 1 and
no bias 0.
"""

import dataclasses
import functools
import json
import pathlib
import sys

import numpy
import safetensors.torch
import torch
import transformers

import make_amplify
import make_esm2
import make_esmc
import make_llama
import make_ntv2
import masked

# spec: the order of ESM-2's vocabulary
ESM2_TOKENS = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]

ESM2 = dataclasses.replace(
    make_esm2.CASES[0], name="tiny", seed=41, layers=2, hidden=32, ffn=128, heads=4, norm_eps=1e-5, token_dropout=True
)
AMPLIFY = dataclasses.replace(make_amplify.CASES[0], name="tiny", seed=42, norm_eps=1e-5)
AMPLIFY_INTERMEDIATE = 32
LLAMA = dataclasses.replace(
    make_llama.CASES[2], name="tiny", seed=43, hidden=32, vocab=256, heads=4, kv_heads=2, norm_eps=1e-5
)
LLAMA_SHARD = "30KB"
ESMC = dataclasses.replace(make_esmc.CASES[0], name="tiny", seed=45, norm_eps=1e-5)
RELATIVES = [
    dataclasses.replace(case, name="tiny", seed=44, vocab=256)
    for case in make_llama.CASES
    if case.family != "llama" and case.max_window_layers == 0
]


NTV2 = dataclasses.replace(make_ntv2.CASES[0], name="tiny", seed=46, norm_eps=1e-12)


def draw(model, seed):
    """Fills the model's parameters as the goldens do."""
    weights = masked.draw_weights(model, numpy.random.Generator(numpy.random.PCG64(seed)))
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()}, strict=False)
    return model


def rewrite_configuration(configuration, path, left_out, **added):
    """The configuration as transformers 4 wrote it."""
    old = {key: value for key, value in configuration.to_dict().items() if key not in ("dtype", *left_out)}
    old |= {"torch_dtype": configuration.to_dict()["dtype"], "transformers_version": "4.40.0", **added}
    path.write_text(json.dumps(old, indent=2, sort_keys=True) + "\n")


def write_old_esm2(model, folder):
    folder.mkdir(exist_ok=True)
    tensors = {name: p for name, p in model.state_dict().items() if "contact_head" not in name}
    table = tensors.pop("esm.rotary_embeddings.inv_freq")
    for layer in range(ESM2.layers):
        tensors[f"esm.encoder.layer.{layer}.attention.self.rotary_embeddings.inv_freq"] = table.clone()
    tensors["lm_head.decoder.weight"] = tensors["lm_head.decoder.weight"].clone()
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    rewrite_configuration(model.config, folder / "config.json", ("rope_theta", "tie_word_embeddings"))


def write_esm2(folder):
    model = draw(transformers.EsmForMaskedLM(make_esm2.configuration(ESM2)), ESM2.seed)
    model.save_pretrained(folder)
    base = transformers.EsmModel(model.config)
    missing, _ = base.load_state_dict(model.esm.state_dict(), strict=False)
    assert all("pooler" in name for name in missing)
    base.save_pretrained(folder.parent / "esm2_base")
    write_old_esm2(model, folder.parent / "esm2_old")
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(ESM2_TOKENS))
    transformers.EsmTokenizer(str(vocabulary), model_max_length=1024).save_pretrained(folder)


def write_llama(folder):
    model = draw(transformers.LlamaForCausalLM(make_llama.configuration(LLAMA)), LLAMA.seed)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=LLAMA_SHARD)
    rope = dict(model.config.rope_parameters)
    theta = rope.pop("rope_theta")
    path = folder / "config_old.json"
    rewrite_configuration(model.config, path, ("rope_parameters",), rope_theta=theta, rope_scaling=rope)


def write_relative(case, folder):
    family = make_llama.FAMILIES[case.family]
    model = draw(family.model(make_llama.configuration(case)), case.seed)
    model.to(torch.bfloat16).save_pretrained(folder)


def write_esmc(folder):
    draw(make_esmc.make_model(ESMC), ESMC.seed).save_pretrained(folder)


def write_ntv2(folder):
    model = draw(make_ntv2.make_model(NTV2), NTV2.seed)
    folder.mkdir(exist_ok=True)
    tensors = {name: p for name, p in model.state_dict().items() if name != "esm.rotary_embeddings.inv_freq"}
    width = NTV2.head_dim
    for layer in range(NTV2.layers):
        name = f"esm.encoder.layer.{layer}.attention.self.rotary_embeddings.inv_freq"
        tensors[name] = 1 / 10000 ** (torch.arange(0, width, 2).float() / width)
    random = torch.Generator().manual_seed(NTV2.seed)
    tensors["esm.embeddings.position_embeddings.weight"] = torch.randn((66, NTV2.hidden), generator=random)
    tensors["esm.contact_head.regression.weight"] = torch.randn((1, NTV2.layers * NTV2.heads), generator=random)
    tensors["esm.contact_head.regression.bias"] = torch.randn(1, generator=random)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    words = NTV2.vocabulary
    configuration = {
        "add_bias_fnn": False,
        "architectures": ["EsmForMaskedLM", "EsmForTokenClassification", "EsmForSequenceClassification"],
        "attention_probs_dropout_prob": 0.0,
        "auto_map": {"AutoConfig": "esm_config.EsmConfig", "AutoModelForMaskedLM": "modeling_esm.EsmForMaskedLM"},
        "emb_layer_norm_before": False,
        "esmfold_config": None,
        "hidden_dropout_prob": 0.0,
        "hidden_size": NTV2.hidden,
        "initializer_range": 0.02,
        "intermediate_size": NTV2.ffn,
        "is_folding_model": False,
        "layer_norm_eps": NTV2.norm_eps,
        "mask_token_id": words.mask,
        "max_position_embeddings": 66,
        "num_attention_heads": NTV2.heads,
        "num_hidden_layers": NTV2.layers,
        "pad_token_id": words.pad,
        "position_embedding_type": "rotary",
        "tie_word_embeddings": False,
        "token_dropout": False,
        "torch_dtype": "float32",
        "use_cache": False,
        "vocab_list": None,
        "vocab_size": words.size,
    }
    (folder / "config.json").write_text(json.dumps(configuration, indent=2) + "\n")


def write_amplify(folder):
    model = draw(make_amplify.Amplify(AMPLIFY), AMPLIFY.seed)
    folder.mkdir(exist_ok=True)
    safetensors.torch.save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    words = AMPLIFY.vocabulary
    configuration = {
        "architectures": ["AMPLIFY"],
        "att_bias": False,
        "auto_map": {"AutoConfig": "amplify.AMPLIFYConfig", "AutoModel": "amplify.AMPLIFY"},
        "bos_token_id": words.first,
        "decoder_init_range": 0.02,
        "dropout_prob": 0,
        "embedding_init_range": 0.02,
        "eos_token_id": words.last,
        "ffn_bias": False,
        "hidden_act": "SwiGLU",
        "hidden_size": AMPLIFY.hidden,
        "intermediate_size": AMPLIFY_INTERMEDIATE,
        "layer_norm_after_embedding": False,
        "layer_norm_before_last_layer": True,
        "mask_token_id": words.mask,
        "max_length": 2048,
        "model_type": "AMPLIFY",
        "norm_eps": AMPLIFY.norm_eps,
        "num_attention_heads": AMPLIFY.heads,
        "num_hidden_layers": AMPLIFY.layers,
        "other_special_token_ids": None,
        "pad_token_id": words.pad,
        "rms_norm": True,
        "torch_dtype": "float32",
        "unk_token_id": 1,
        "vocab_size": words.size,
    }
    assert make_amplify.feed_forward_width(AMPLIFY_INTERMEDIATE) == AMPLIFY.ffn
    (folder / "config.json").write_text(json.dumps(configuration, indent=2) + "\n")


def check(folder):
    """transformers reads both spellings of ESM-2 to the same tensors, misses nothing but the contact head that esm2_old
    does not have, and has no tensor left over."""
    load = transformers.EsmForMaskedLM.from_pretrained
    new, of_new = load(folder / "esm2_tiny", output_loading_info=True)
    old, of_old = load(folder / "esm2_old", output_loading_info=True)
    assert not of_new["missing_keys"] and not of_new["unexpected_keys"] and not of_old["unexpected_keys"]
    assert all("contact_head" in name for name in of_old["missing_keys"])
    for name, tensor in new.state_dict().items():
        assert "contact_head" in name or torch.equal(tensor, old.state_dict()[name]), name


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    writers = {"esm2_tiny": write_esm2, "llama_tiny": write_llama, "amplify_tiny": write_amplify}
    writers |= {"esmc_tiny": write_esmc, "ntv2_tiny": write_ntv2}
    writers |= {case.file: functools.partial(write_relative, case) for case in RELATIVES}
    torch.set_num_threads(1)
    torch.manual_seed(1)
    for name in sys.argv[2:] or writers:
        writers[name](folder / name)
    check(folder)
    for path in sorted(folder.glob("*_tiny/*")) + sorted(folder.glob("*_old/*")):
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
