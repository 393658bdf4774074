"""Takes models through Cistron and back, and compares what comes out with transformers.

    round_trip.py CISTRON LOGITS [FOLDER]

CISTRON is the program, LOGITS tests/logits of the build folder. For each case: a model with large random weights is
written as transformers writes it (AMPLIFY, which is no part of it, as published), imported, exported, and loaded again.
Checked: every tensor bit for bit; no key missing, unexpected or of another shape; configuration and logits the same as
before; the logits of Cistron itself, on sequences of several lengths in one packed row, within 1e-5 (relative L2); the
exported tokenizer's ids. Also one model that Cistron made from nothing. Ends with 77 without torch or transformers.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error.name} is not installed for {sys.executable}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))

BOUND = 1e-5
LENGTHS = (37, 5, 60, 2, 81)
faults = []


def check(what, good):
    if not good:
        faults.append(what)
        print(f"failed: {what}")


def fill(model, seed):
    """Weights large enough that a mistake shows; every bias and gain its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            gain = name.lower().endswith("norm.weight") or "layer_norm" in name and name.endswith("weight")
            p.copy_(1 + 0.2 * noise if gain or p.dim() == 1 and name.endswith("norm.weight") else 0.2 * noise)
    return model


@dataclasses.dataclass
class Case:
    name: str
    make: object  # () -> model
    load: object  # (folder) -> (model, loading info)
    tokens: range
    tokenizer: str = ""
    special: tuple = ()  # ids put here and there: the mask
    dtype: str = "fp32"


LLAMA3 = dict(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
    rope_theta=10000.0,
)


def cast(model, dtype):
    """The parameters; buffers stay as they are, as in a model that is loaded with a dtype."""
    for p in model.parameters():
        p.data = p.data.to(dtype)
    return model


def llama(dtype=torch.float32, **changes):
    settings = dict(
        vocab_size=256, hidden_size=64, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=2, eos_token_id=0,
        pad_token_id=1,
    )  # fmt: skip
    return cast(fill(transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings | changes)), 1), dtype)


def qwen(version, dtype=torch.float32, **changes):
    settings = dict(
        vocab_size=256, hidden_size=64, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=2, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    configuration = getattr(transformers, f"Qwen{version}Config")(**settings | changes)
    return cast(fill(getattr(transformers, f"Qwen{version}ForCausalLM")(configuration), 3), dtype)


def esmc(dtype=torch.float32, **changes):
    settings = dict(
        vocab_size=64, hidden_size=48, intermediate_size=96, num_hidden_layers=3, num_attention_heads=2,
    )  # fmt: skip
    return cast(fill(transformers.EsmcForMaskedLM(transformers.EsmcConfig(**settings | changes)), 4), dtype)


def mistral(dtype=torch.float32, **changes):
    settings = dict(
        vocab_size=256, hidden_size=64, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=2, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    return cast(fill(transformers.MistralForCausalLM(transformers.MistralConfig(**settings | changes)), 4), dtype)


def mixtral(dtype=torch.float32, **changes):
    settings = dict(
        vocab_size=256, hidden_size=64, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=256, bos_token_id=2,
        eos_token_id=0, pad_token_id=1, head_dim=16, experts_implementation="eager",
    )  # fmt: skip
    configuration = transformers.MixtralConfig(**settings | changes)
    return cast(fill(transformers.MixtralForCausalLM(configuration), 3), dtype)


def olmo2(dtype=torch.float32, **changes):
    settings = dict(
        vocab_size=256, hidden_size=64, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=2, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    return cast(fill(transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**settings | changes)), 5), dtype)


def esm2(dtype=torch.float32, **changes):
    settings = dict(
        vocab_size=33, hidden_size=48, intermediate_size=96, num_hidden_layers=3, num_attention_heads=2,
        max_position_embeddings=1026, position_embedding_type="rotary", token_dropout=True, mask_token_id=32,
        pad_token_id=1, layer_norm_eps=1e-5, emb_layer_norm_before=False, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return cast(fill(transformers.EsmForMaskedLM(transformers.EsmConfig(**settings | changes)), 2), dtype)


def esm2_of_16_bits():
    """Published ESM-2 models were kept in fp16, their table of frequencies too, and transformers computes with it."""
    model = esm2()
    table = model.esm.rotary_embeddings.inv_freq
    table.copy_(table.half().float())
    return model


def loader(family):
    return lambda folder: family.from_pretrained(folder, output_loading_info=True)


def run_for_output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="")
        raise SystemExit(f"failed: {' '.join(str(word) for word in command)}: exit code {done.returncode}")
    return done.stdout


def run(*command):
    run_for_output(*command)


def draw_sequences(case):
    random = numpy.random.Generator(numpy.random.PCG64(7))
    sequences = [random.choice(numpy.array(case.tokens), length) for length in LENGTHS]
    for sequence in sequences if case.special else ():
        sequence[random.random(len(sequence)) < 0.2] = case.special[0]
    return sequences


def own_logits(program, checkpoint, sequences, folder):
    (folder / "tokens").write_text("".join(" ".join(map(str, sequence)) + "\n" for sequence in sequences))
    run(program, checkpoint, folder / "tokens", folder / "logits")
    return numpy.fromfile(folder / "logits").reshape(sum(map(len, sequences)), -1)


def their_logits(model, sequences):
    model = model.float().eval()
    with torch.no_grad():
        parts = [model(torch.tensor(sequence)[None]).logits[0] for sequence in sequences]
    return torch.cat(parts).double().numpy()


def distance(a, b):
    return float(numpy.linalg.norm(a - b) / numpy.linalg.norm(b))


def compare_states(name, before, after):
    check(f"{name}: the same tensors", before.keys() == after.keys())
    for key in before.keys() & after.keys():
        same = before[key].dtype == after[key].dtype and torch.equal(before[key], after[key])
        check(f"{name}: {key} is bit-identical", same)


def compare_configurations(name, before, after):
    free = {"transformers_version", "_name_or_path", "architectures", "use_cache", "hidden_act"}
    before, after = (
        {key: value for key, value in configuration.to_dict().items() if key not in free}
        for configuration in (before, after)
    )
    for key in sorted(before.keys() | after.keys()):
        check(
            f"{name}: config {key}: {before.get(key)} became {after.get(key)}", before.get(key) == after.get(key)
        )


def check_loading(name, info):
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        check(f"{name}: {kind} {sorted(map(str, info[kind]))}", not info[kind])


def round_trip(case, programs, folder):
    cistron, logits = programs
    model = case.make()
    model.save_pretrained(folder / "in", max_shard_size="60KB")
    option = ["--tokenizer", case.tokenizer] if case.tokenizer == "nucleotide" else []
    run(cistron, "import", folder / "in", "-o", folder / "m.h5", *option)
    run(cistron, "export", "--checkpoint", folder / "m.h5", "-o", folder / "out", "--dtype", case.dtype,
        "--shard-size", "0.00007")  # fmt: skip
    again, info = case.load(folder / "out")
    check_loading(case.name, info)
    compare_states(case.name, model.state_dict(), again.state_dict())
    compare_configurations(case.name, model.config, again.config)
    if case.tokenizer == "nucleotide":
        ends = again.generation_config.eos_token_id
        check(f"{case.name}: generation stops at {ends}", ends == model.config.eos_token_id)
    sequences = draw_sequences(case)
    ours, theirs = own_logits(logits, folder / "m.h5", sequences, folder), their_logits(again, sequences)
    apart = distance(ours, theirs)
    check(f"{case.name}: logits of Cistron {apart:.1e} from transformers'", apart <= BOUND)
    shards = len(list((folder / "out").glob("*.safetensors")))
    print(f"{case.name:24} {len(model.state_dict()):3} tensors, {shards} files, logits {apart:.1e}")


TEXTS = {
    "nucleotide": (["ACGTNacgtn", "A", "R@#~\u00e9 \n\tT", "AC<EOS>GT", ""], None),
    "esm2": (["MSKGEELFTGVVPILVELDGD", "XBUZO.-", "MAlK", ""], transformers.EsmTokenizer),
    "amplify": (["MSKGEELFTGVVPILVELDGD", "MK|LV", "MXUZOlK", ""], None),
}


def expected_ids(tokenizer, text, folder):
    """What is published of each (tests/golden/README.md): BOS, an id for each character, and for masked models EOS."""
    if tokenizer == "nucleotide":
        ids, special = {chr(i): i for i in range(4, 256)}, dict(bos=2, eos=0, unk=3)
        text = "".join(c.upper() if c.isascii() else c for c in text.replace("<EOS>", "\0"))
        ids["\0"] = 0
    elif tokenizer == "esm2":
        words = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
        ids, special = {word: i for i, word in enumerate(words)}, dict(bos=0, eos=2, unk=3)
    else:
        ids, special = {word: i + 5 for i, word in enumerate("|LAGVSERTIDPKQNFYMHWCB")}, dict(bos=3, eos=4, unk=1)
    end = [] if tokenizer == "nucleotide" else [special["eos"]]
    return [special["bos"], *(ids.get(letter, special["unk"]) for letter in text), *end]


def check_tokenizer(name, folder):
    texts, kind = TEXTS[name]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    check(f"{name}: AutoTokenizer gives {type(tokenizer).__name__}", kind is None or isinstance(tokenizer, kind))
    for text in texts:
        ids, wanted = tokenizer(text)["input_ids"], expected_ids(name, text, folder)
        check(f"{name}: {text!r} is {ids}, not {wanted}", ids == wanted)
    if name == "nucleotide":
        check(f"{name}: decodes", tokenizer.decode(tokenizer("ACGTn")["input_ids"][1:]) == "ACGTN")
    print(f"tokenizer {name}: {type(tokenizer).__name__}, {len(texts)} texts")


def round_trip_amplify(programs, folder):
    """Through its published names and the reference of tests/golden, in float64 as it stands there."""
    import make_amplify

    golden = pathlib.Path(make_amplify.__file__).parent / "amplify_tiny"
    cistron, logits = programs
    run(cistron, "import", golden, "-o", folder / "m.h5")
    run(cistron, "export", "--checkpoint", folder / "m.h5", "-o", folder / "out")
    before, after = (safetensors.torch.load_file(at / "model.safetensors") for at in (golden, folder / "out"))
    compare_states("amplify", before, after)
    old, new = (json.loads((at / "config.json").read_text()) for at in (golden, folder / "out"))
    same = make_amplify.feed_forward_width(old.pop("intermediate_size"))
    check("amplify: intermediate_size", make_amplify.feed_forward_width(new.pop("intermediate_size")) == same)
    for key in old.keys() - {"auto_map", "other_special_token_ids"}:
        check(f"amplify: config {key}: {old[key]} became {new.get(key)}", old[key] == new.get(key))
    import make_bridge

    model = make_amplify.Amplify(make_bridge.AMPLIFY).double()
    model.load_state_dict({name: tensor.double() for name, tensor in after.items()})
    case = Case("amplify", None, None, range(5, 27), "amplify", (2,))
    sequences = draw_sequences(case)
    ours = own_logits(logits, folder / "m.h5", sequences, folder)
    theirs = [amplify_logits(model, torch.tensor(sequence)[None]) for sequence in sequences]
    apart = distance(ours, torch.cat(theirs).detach().numpy())
    check(f"amplify: logits of Cistron {apart:.1e} from the reference's", apart <= BOUND)
    print(f"{'amplify':24} {len(before):3} tensors, logits {apart:.1e}")


def amplify_logits(model, tokens):
    count = tokens.shape[1]
    sees = torch.ones(1, count, count, dtype=torch.bool)
    return model(tokens, torch.arange(count)[None], sees)[0]


DECK = """
model = {{ family = "{family}"; objective = "{objective}"; layers = 2; hidden = 32; ffn = 64; heads = 4; }};
data = {{ train = "{store}"; row_tokens = 64; }};
train = {{ steps = 2; global_batch = 4; }};
device = {{ threads = 1; }};
output = {{ folder = "{run}"; }};
"""


def trained_here(family, objective, tokenizer, load, programs, folder):
    """A model that no transformers has seen: from FASTA, by two steps of training."""
    cistron, logits = programs
    bases = tokenizer.startswith("nucleotide")
    case = Case(f"{objective} {family} of {tokenizer}", None, load, range(65, 68) if bases else range(4, 24))
    letters = "ACGT" if bases else "LAGVSERTIDPKQNFYMHWC"
    random = numpy.random.Generator(numpy.random.PCG64(8))
    (folder / "a.fa").write_text(">a\n" + "".join(random.choice(list(letters), 600)) + "\n")
    (folder / "a.cfg").write_text(DECK.format(family=family, objective=objective, store=folder / "a.h5", run=folder / "run"))
    run(cistron, "prepare", "--tokenizer", tokenizer, "-o", folder / "a.h5", folder / "a.fa")
    run(cistron, "train", folder / "a.cfg")
    run(cistron, "export", "--checkpoint", folder / "run", "-o", folder / "out")
    model, info = load(folder / "out")
    check_loading(case.name, info)
    sequences = draw_sequences(case)
    ours = own_logits(logits, folder / "run" / "final_model.h5", sequences, folder)
    apart = distance(ours, their_logits(model, sequences))
    check(f"{case.name}: logits of Cistron {apart:.1e} from transformers'", apart <= BOUND)
    print(f"{case.name:24} {len(model.state_dict()):3} tensors, logits {apart:.1e}")
    texts, read = (["ACGTN", "A"], {letter: ord(letter) for letter in "ACGTN"}) if bases else (
        ["MSKGE", "LAGV"], {letter: 4 + i for i, letter in enumerate("LAGVSERTIDPKQNFYMHWC")})
    begin, end = (2, 0) if bases else (0, 2)
    exported = transformers.AutoTokenizer.from_pretrained(folder / "out")
    for text in texts:
        ids = exported(text)["input_ids"]
        wanted = [begin, *(read[letter] for letter in text), *([end] if objective == "masked" else [])]
        check(f"{case.name}: {text} is {ids}, not {wanted}", ids == wanted)


def check_generation(cistron, folder):
    """Greedy text from a checkpoint of Cistron and, by transformers' own pipeline, from what was exported of it."""
    pipeline = transformers.pipeline("text-generation", model=str(folder / "out"))
    for prompt in ("", "A", "ACGTTGCA", "GATTACA" * 5 + "gattaca"):
        ours = run_for_output(cistron, "generate", "--checkpoint", folder / "run", "--prompt", prompt, "--tokens", 24,
                              "--temperature", 0)  # fmt: skip
        ids = pipeline(prompt, max_new_tokens=24, do_sample=False, return_tensors=True)[0]["generated_token_ids"]
        new = ids[1 + len(prompt) :]
        if 0 in new:
            new = new[: new.index(0)]
        read = ids[: 1 + len(prompt)]
        check(f"generation: {prompt!r} becomes {read}", read == [2, *prompt.upper().encode()])
        theirs = prompt + "".join(chr(i) if 32 <= i < 127 else "?" for i in new) + "\n"
        check(f"generation: {ours!r} here, {theirs!r} in transformers", ours == theirs)
    print("text-generation: 4 prompts")


CASES = [
    Case("llama", lambda: llama(rope_theta=500000.0), loader(transformers.LlamaForCausalLM), range(4, 256),
         "nucleotide"),
    Case("llama, three ends", lambda: llama(eos_token_id=[0, 65, 255]), loader(transformers.LlamaForCausalLM),
         range(4, 256), "nucleotide"),
    Case("llama, tied", lambda: llama(tie_word_embeddings=True), loader(transformers.LlamaForCausalLM), range(4, 256),
         "nucleotide"),
    Case("llama, scaled, bf16", lambda: llama(torch.bfloat16, rope_parameters=LLAMA3),
         loader(transformers.LlamaForCausalLM), range(4, 256), "nucleotide", dtype="bf16"),
    Case("llama, biases", lambda: llama(attention_bias=True, mlp_bias=True), loader(transformers.LlamaForCausalLM),
         range(4, 256), "nucleotide"),
    Case("qwen2", lambda: qwen(2, rope_theta=1e6), loader(transformers.Qwen2ForCausalLM), range(4, 256), "nucleotide"),
    Case("qwen2, tied, bf16", lambda: qwen(2, torch.bfloat16, tie_word_embeddings=True),
         loader(transformers.Qwen2ForCausalLM), range(4, 256), "nucleotide", dtype="bf16"),
    Case("qwen3", lambda: qwen(3, rope_theta=1e6, head_dim=32), loader(transformers.Qwen3ForCausalLM), range(4, 256),
         "nucleotide"),
    Case("qwen3, biases, tied, bf16", lambda: qwen(3, torch.bfloat16, attention_bias=True, tie_word_embeddings=True,
         head_dim=16), loader(transformers.Qwen3ForCausalLM), range(4, 256), "nucleotide", dtype="bf16"),
    Case("mixtral", mixtral, loader(transformers.MixtralForCausalLM), range(4, 256), "nucleotide"),
    Case("mixtral, bf16", lambda: mixtral(torch.bfloat16), loader(transformers.MixtralForCausalLM), range(4, 256),
         "nucleotide", dtype="bf16"),
    Case("olmo2", lambda: olmo2(rope_parameters=dict(rope_type="default", rope_theta=5e5)),
         loader(transformers.Olmo2ForCausalLM), range(4, 256), "nucleotide"),
    Case("olmo2, biases, tied, bf16", lambda: olmo2(torch.bfloat16, attention_bias=True, tie_word_embeddings=True),
         loader(transformers.Olmo2ForCausalLM), range(4, 256), "nucleotide", dtype="bf16"),
    Case("llama, linear", lambda: llama(rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=10000.0)),
         loader(transformers.LlamaForCausalLM), range(4, 256), "nucleotide"),
    Case("qwen2, yarn", lambda: qwen(2, rope_parameters=dict(rope_type="yarn", factor=4.0, rope_theta=1e4,
         original_max_position_embeddings=32, beta_fast=8.0, beta_slow=1.0)), loader(transformers.Qwen2ForCausalLM),
         range(4, 256), "nucleotide"),
    Case("esmc", esmc, loader(transformers.EsmcForMaskedLM), range(2, 32), "esm2", (32,)),
    Case("esmc, bf16", lambda: esmc(torch.bfloat16), loader(transformers.EsmcForMaskedLM), range(2, 32), "esm2", (32,),
         dtype="bf16"),
    Case("qwen2, window", lambda: qwen(2, use_sliding_window=True, sliding_window=9, max_window_layers=1),
         loader(transformers.Qwen2ForCausalLM), range(4, 256), "nucleotide"),
    Case("mistral", lambda: mistral(sliding_window=9), loader(transformers.MistralForCausalLM), range(4, 256),
         "nucleotide"),
    Case("mistral, no window, bf16", lambda: mistral(torch.bfloat16, sliding_window=None, head_dim=32),
         loader(transformers.MistralForCausalLM), range(4, 256), "nucleotide", dtype="bf16"),
    Case("esm2", esm2, loader(transformers.EsmForMaskedLM), range(2, 32), "esm2", (32,)),
    Case("esm2, no token dropout", lambda: esm2(token_dropout=False), loader(transformers.EsmForMaskedLM),
         range(2, 32), "esm2", (32,)),
    Case("esm2, hidden_act tanh", lambda: esm2(hidden_act="gelu_pytorch_tanh"),
         loader(transformers.EsmForMaskedLM), range(2, 32), "esm2", (32,)),
    Case("esm2, rounded table", esm2_of_16_bits, loader(transformers.EsmForMaskedLM), range(2, 32), "esm2", (32,)),
    Case("esm2, is_decoder", lambda: esm2(token_dropout=False, is_decoder=True),
         loader(transformers.EsmForMaskedLM), range(2, 32), "esm2", (32,)),
    Case("esm2, untied, bf16", lambda: esm2(torch.bfloat16, tie_word_embeddings=False),
         loader(transformers.EsmForMaskedLM), range(2, 32), "esm2", (32,), dtype="bf16"),
]  # fmt: skip


def main():
    programs = sys.argv[1:3]
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else scratch)
        for i, case in enumerate(CASES):
            (folder / str(i)).mkdir()
            round_trip(case, programs, folder / str(i))
        (folder / "amplify").mkdir()
        round_trip_amplify(programs, folder / "amplify")
        for name, family, objective, tokenizer, kind in (
            ("llama", "llama", "causal", "nucleotide", transformers.LlamaForCausalLM),
            ("llama_esm2", "llama", "causal", "esm2", transformers.LlamaForCausalLM),
            ("esm2", "esm2", "masked", "esm2", transformers.EsmForMaskedLM),
            ("esmc", "esmc", "masked", "esm2", transformers.EsmcForMaskedLM),
            ("esm2_bases", "esm2", "masked", "nucleotide_mask", transformers.EsmForMaskedLM),
            ("esm2_causal", "esm2", "causal", "nucleotide", transformers.EsmForMaskedLM),
        ):
            (folder / name).mkdir()
            trained_here(family, objective, tokenizer, loader(kind), programs, folder / name)
        check_generation(programs[0], folder / "llama")
        check_tokenizer("nucleotide", folder / "llama" / "out")
        check_tokenizer("esm2", folder / "esm2" / "out")
        check_tokenizer("amplify", folder / "amplify" / "out")
    print(f"transformers {transformers.__version__}: {len(faults)} faults")
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
