"""Makes the golden files of LoRA, tests/golden/*_lora*.h5, from peft.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch==2.15.0 transformers==5.23.0 h5py==3.16.0 numpy==2.4.6 peft==0.21.0
    /tmp/venv/bin/python tests/golden/make_lora.py [folder]

Models and batches are those of make_llama.py, make_esm2.py and make_amplify.py, with peft's adapters in them: peft wraps
the modules and decides what is trained, in float64. Both matrices of an adapter are drawn at random, since a B of zeros
would hide faults. The files have the datasets of the models without adapters, the adapters among the weights under
peft's names without "base_model.model." and the adapter's name, gradients of the adapters alone, and the attributes
lora_rank, lora_alpha and lora_targets.

amplify_lora_dropout.h5 is trained with dropout, whose masks follow from dropout_keys, a number for each token, by
Cistron's rule (src/core/dropout.h), which class Dropout has in numpy; peft applies them. Its logits are of evaluation.
The attribute lora_dropout is the probability. One mask serves q, k and v.

lora_llama/ is an adapter folder that peft saved, for the model of eval_llama.h5 (make_eval.py must have made it), and
lora_llama/scores.txt has the sum of log-probabilities of each record of eval_llama.fa by the model with the adapter.
lora_esm2_head/ is one of a classifier on esm2_tiny/, whose head peft saved as modules_to_save; labels.csv has sequences
with classes, and loss.txt their mean loss.
"""

import dataclasses
import pathlib
import sys

import h5py
import numpy
import peft
import torch
import transformers

import make_amplify
import make_esm2
import make_eval
import make_llama
import masked


@dataclasses.dataclass
class Adapters:
    rank: int
    alpha: float
    targets: str
    dropout: float = 0.0

    def put(self, model, seed):
        """Puts adapters with random weights into the model."""
        targets = self.targets if self.targets == "all-linear" else self.targets.split(",")
        config = peft.LoraConfig(r=self.rank, lora_alpha=self.alpha, lora_dropout=0.0, target_modules=targets)
        dtype = next(model.parameters()).dtype
        peft.inject_adapter_in_model(config, model).to(dtype)
        random = numpy.random.Generator(numpy.random.PCG64(seed + 1000))
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        assert all("lora_" in name for name in trained)
        for name in sorted(trained):
            values = (0.15 * random.standard_normal(tuple(trained[name].shape))).astype(numpy.float32)
            trained[name].data.copy_(torch.from_numpy(values))
        return model


def mix(words):
    words = (words ^ words >> 16) * numpy.uint32(0x9E3779B1)
    words = (words ^ words >> 13) * numpy.uint32(0x5BD1E995)
    return words ^ words >> 15


class Dropout(torch.nn.Module):
    """Dropout of one linear layer of AMPLIFY, number `linear` of its block. keys: int32 [rows, tokens]."""

    def __init__(self, probability, keys, layer, linear):
        super().__init__()
        self.probability, self.keys = probability, keys.view(numpy.uint32)
        self.salt = numpy.array([(4 * layer + linear) * 3], numpy.uint32)

    def forward(self, x):
        if not self.training:
            return x
        rows = mix(mix(self.salt + numpy.uint32(0x9E3779B9)) + self.keys)
        columns = numpy.arange(x.shape[-1], dtype=numpy.uint32) * numpy.uint32(0xC2B2AE35)
        kept = mix(rows[:, :, None] ^ columns) >= numpy.uint32(self.probability * 2**32)
        return x * torch.from_numpy(kept).to(x.dtype) / (1 - self.probability)


def drop(model, probability, keys):
    """Gives peft's adapters of a model of make_amplify their dropouts."""
    linears = {"q": 0, "k": 0, "v": 0, "wo": 1, "ffn.w12": 2, "ffn.w3": 3}
    for name, module in model.named_modules():
        if isinstance(module, peft.tuners.lora.Linear):
            _, layer, linear = name.split(".", 2)
            module.lora_dropout["default"] = Dropout(probability, keys, int(layer), linears[linear])


def plain(name):
    return name.replace(".default.weight", ".weight").replace(".base_layer.", ".")


def dropout_keys(case):
    random = numpy.random.Generator(numpy.random.PCG64(case.seed + 2000))
    return random.integers(-(2**31), 2**31, (case.rows, case.row_tokens), numpy.int32)


def adapted(run, adapters):
    """The class `run` of a model without adapters, with adapters."""

    class Run(run):
        def __init__(self, case, weights, batch, dtype, mutation):
            base = {name: weight for name, weight in weights.items() if "lora_" not in name}
            super().__init__(case, base, batch, dtype, mutation)
            adapters.put(self.model, case.seed)
            if adapters.dropout > 0:
                drop(self.model, adapters.dropout, dropout_keys(case))

        def first(self):
            self.model.zero_grad()
            logits, loss = self.forward()
            loss.backward()
            if adapters.dropout > 0:
                with torch.no_grad():
                    logits = self.model.eval()(self.tokens, self.positions, self.sees)
                self.model.train()
            gradients = {plain(n): p.grad.numpy().copy() for n, p in self.model.named_parameters() if p.requires_grad}
            return (logits.detach() * self.batch.real[:, :, None]).numpy(), loss.item(), gradients

        def train(self, **rest):
            losses, norms, final = super().train(**rest)
            return losses, norms, {plain(name): weight for name, weight in final.items()}

        def adapters(self):
            named = self.model.named_parameters()
            return {plain(n): p.detach().numpy().astype(numpy.float32) for n, p in named if p.requires_grad}

    return Run


class LlamaGolden(make_llama.Golden):
    def __init__(self, case, make_run):
        self.make_run = make_run
        super().__init__(case)

    def run(self, dtype=torch.float64, mutation=make_llama.FAITHFUL):
        return self.make_run(self.case, self.weights, self.batch, dtype, mutation)


def goldens():
    every = Adapters(4, 6, "all-linear")
    some = Adapters(3, 8, "q_proj,v_proj,down_proj")
    esm2 = Adapters(2, 5, "query,key,output.dense")
    amplify = Adapters(4, 2, "q,k,v,wo,ffn.w12,ffn.w3")
    llama = [dataclasses.replace(make_llama.CASES[0], name="lora", seed=51)]
    tied = [dataclasses.replace(make_llama.CASES[1], name="lora_tied", seed=52, layers=1)]
    for adapters, case in [(every, llama[0]), (some, tied[0])]:
        yield adapters, LlamaGolden(case, adapted(make_llama.Run, adapters))
    case = dataclasses.replace(make_esm2.CASES[2], name="lora", seed=53)
    run = adapted(make_esm2.Run, esm2)
    yield esm2, masked.Golden(case, make_esm2.make_model, run, make_esm2.FAITHFUL)
    case = dataclasses.replace(make_amplify.CASES[1], name="lora", seed=54, layers=2, steps=20)
    run = adapted(make_amplify.Run, amplify)
    yield amplify, masked.Golden(case, make_amplify.Amplify, run, make_amplify.FAITHFUL)
    dropped = dataclasses.replace(amplify, dropout=0.3)
    case = dataclasses.replace(case, name="lora_dropout", seed=55)
    yield dropped, masked.Golden(case, make_amplify.Amplify, adapted(make_amplify.Run, dropped), make_amplify.FAITHFUL)


def read_records(path):
    records = []
    for line in path.read_text().splitlines():
        if line.startswith(">"):
            records.append([line[1:].split()[0], ""])
        else:
            records[-1][1] += line
    return records


def write_adapter(folder):
    """peft's folder: its two files, without the model card."""
    case = make_eval.CASE
    with h5py.File(folder / "eval_llama.h5") as file:
        weights = {name: torch.from_numpy(data[()]) for name, data in file["model"].items()}
    model = transformers.LlamaForCausalLM(make_llama.configuration(case))
    model.load_state_dict(weights)
    targets = ["q_proj", "v_proj", "o_proj", "down_proj"]
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets, task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    random = numpy.random.Generator(numpy.random.PCG64(61))
    for name, parameter in sorted(model.named_parameters()):
        if parameter.requires_grad:
            values = (0.15 * random.standard_normal(tuple(parameter.shape))).astype(numpy.float32)
            parameter.data.copy_(torch.from_numpy(values))
    model.save_pretrained(folder / "lora_llama")
    (folder / "lora_llama" / "README.md").unlink()
    exact = make_llama.exact(model.base_model.model, case, make_llama.FAITHFUL).eval()
    with open(folder / "lora_llama" / "scores.txt", "w") as file:
        for name, sequence in read_records(folder / "eval_llama.fa"):
            file.write(f"{name} {make_eval.score(exact, sequence, False, True)['sum_log_prob']:.9f}\n")


def write_head_adapter(folder):
    """peft's folder of an adapter and a trained head (modules_to_save) for esm2_tiny/, and its loss."""
    model = transformers.EsmForSequenceClassification.from_pretrained(folder / "esm2_tiny", num_labels=3)
    config = peft.LoraConfig(r=4, lora_alpha=6, lora_dropout=0.1, target_modules=["query", "value"], task_type="SEQ_CLS")
    model = peft.get_peft_model(model, config)
    random = numpy.random.Generator(numpy.random.PCG64(62))
    for name, parameter in sorted(model.named_parameters()):
        if parameter.requires_grad:
            values = (0.3 * random.standard_normal(tuple(parameter.shape))).astype(numpy.float32)
            parameter.data.copy_(torch.from_numpy(values))
    model.peft_config["default"].base_model_name_or_path = "esm2_tiny"
    model.save_pretrained(folder / "lora_esm2_head")
    (folder / "lora_esm2_head" / "README.md").unlink()
    model = model.eval().double()
    ids = {letter: 4 + i for i, letter in enumerate("LAGVSERTIDPKQNFYMHWC")}
    lines, losses = ["sequence,kind"], []
    for number in range(8):
        letters = random.choice(list(ids), 12 + 3 * number)
        lines.append(f"{''.join(letters)},{number % 3}")
        tokens = torch.tensor([[0, *(ids[letter] for letter in letters), 2]])
        losses.append(model(tokens, labels=torch.tensor([number % 3])).loss.item())
    (folder / "lora_esm2_head" / "labels.csv").write_text("\n".join(lines) + "\n")
    (folder / "lora_esm2_head" / "loss.txt").write_text(f"{numpy.mean(losses):.9f}\n")


def main(folder):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    write_adapter(folder)
    write_head_adapter(folder)
    made = list(goldens())
    for adapters, golden in made:
        golden.weights = {**golden.weights, **golden.run().adapters()}
        assert set(golden.weights) == set(golden.final)
        path = golden.write(folder)
        with h5py.File(path, "a") as file:
            file.attrs["lora_rank"] = numpy.int64(adapters.rank)
            file.attrs["lora_alpha"] = numpy.float64(adapters.alpha)
            file.attrs["lora_targets"] = numpy.bytes_(adapters.targets)
            if adapters.dropout > 0:
                file.attrs["lora_dropout"] = numpy.float64(adapters.dropout)
                file.create_dataset("dropout_keys", data=dropout_keys(golden.case), track_times=False)
        columns = " ".join(f"{name} {value:.1e}" for name, value in golden.deviation.items())
        print(f"{path}: {len(golden.gradients)} gradients, {columns}")
        bounds = {"logits": make_llama.BOUND_LOGITS, "gradient": make_llama.BOUND_GRADIENT, "loss": make_llama.BOUND_LOSS}
        if any(golden.deviation[f"float32_{what}"] > make_llama.ROOM * bound for what, bound in bounds.items()):
            sys.exit("float32 leaves too little room below a bound")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
