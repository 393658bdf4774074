"""Makes the golden files of LoRA, tests/golden/*_lora*.h5, from peft.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch==2.15.0 transformers==5.23.0 h5py==3.16.0 numpy==2.4.6 peft==0.21.0
    /tmp/venv/bin/python tests/golden/make_lora.py [folder]

Models and batches are those of make_llama.py, make_esm2.py and make_amplify.py, with peft's adapters in them: peft wraps
the modules and decides what is trained, in float64. Both matrices of an adapter are drawn at random, since a B of zeros
would hide faults. The files have the datasets of the models without adapters, the adapters among the weights under
peft's names without "base_model.model." and the adapter's name, gradients of the adapters alone, and the attributes
lora_rank, lora_alpha and lora_targets.

lora_llama/ is an adapter folder that peft saved, for the model of eval_llama.h5 (make_eval.py must have made it), and
lora_llama/scores.txt has the sum of log-probabilities of each record of eval_llama.fa by the model with the adapter.
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


def plain(name):
    return name.replace(".default.weight", ".weight").replace(".base_layer.", ".")


def adapted(run, adapters):
    """The class `run` of a model without adapters, with adapters."""

    class Run(run):
        def __init__(self, case, weights, batch, dtype, mutation):
            base = {name: weight for name, weight in weights.items() if "lora_" not in name}
            super().__init__(case, base, batch, dtype, mutation)
            adapters.put(self.model, case.seed)

        def first(self):
            self.model.zero_grad()
            logits, loss = self.forward()
            loss.backward()
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


def main(folder):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    write_adapter(folder)
    made = list(goldens())
    for adapters, golden in made:
        golden.weights = {**golden.weights, **golden.run().adapters()}
        assert set(golden.weights) == set(golden.final)
        path = golden.write(folder)
        with h5py.File(path, "a") as file:
            file.attrs["lora_rank"] = numpy.int64(adapters.rank)
            file.attrs["lora_alpha"] = numpy.float64(adapters.alpha)
            file.attrs["lora_targets"] = numpy.bytes_(adapters.targets)
        columns = " ".join(f"{name} {value:.1e}" for name, value in golden.deviation.items())
        print(f"{path}: {len(golden.gradients)} gradients, {columns}")
        bounds = {"logits": make_llama.BOUND_LOGITS, "gradient": make_llama.BOUND_GRADIENT, "loss": make_llama.BOUND_LOSS}
        if any(golden.deviation[f"float32_{what}"] > make_llama.ROOM * bound for what, bound in bounds.items()):
            sys.exit("float32 leaves too little room below a bound")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
