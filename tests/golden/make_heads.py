"""Makes the golden files of fine-tuning heads, tests/golden/heads_*.h5, from Hugging Face transformers.

    /tmp/venv/bin/python tests/golden/make_heads.py [folder]

in the environment of make_llama.py. tests/golden/README.md describes the layout. transformers itself pools, applies the
head and computes the loss. As in make_esm2.py and make_llama.py, only RoPE, norms, softmax and the embedding's scale,
which transformers computes in float32 whatever the model's dtype, are replaced by their formulas in float64; float32 is
transformers unchanged. Before a file is written, float32 must agree with it, and each fault of MUTATIONS must not.
"""

import contextlib
import dataclasses
import pathlib
import sys
import types
from unittest import mock

import h5py
import numpy
import torch
import transformers
from transformers.models.esm import modeling_esm

import make_bridge
import make_esm2
import make_llama
import masked
from make_llama import relative

LENGTHS = (19, 7, 12, 3)  # of the rows, which are padded on the right
AGREES = 2e-5  # relative deviation of float32, at most: of the logits, and of all gradients together
DIFFERS = 1e-3  # and of each planted fault, at least
NO_MASKS = 1 - 0.15 * 0.8  # token dropout's factor of rows without masks
LLAMA_PAD = 0


@dataclasses.dataclass
class Head:
    name: str
    architecture: type
    problem: str  # problem_type of config.json
    outputs: int
    seed: int
    mean: bool = False  # the classifier reads the mean over residues instead of the first token

    @property
    def esm(self):
        return self.architecture.config_class is transformers.EsmConfig

    @property
    def of_tokens(self):
        return self.architecture is transformers.EsmForTokenClassification


SEQUENCE, TOKEN = transformers.EsmForSequenceClassification, transformers.EsmForTokenClassification
LLAMA = transformers.LlamaForSequenceClassification
HEADS = [
    Head("esm2_sequence", SEQUENCE, "single_label_classification", 3, 71),
    Head("esm2_regression", SEQUENCE, "regression", 2, 72),
    Head("esm2_token", TOKEN, "single_label_classification", 4, 73),
    Head("llama_sequence", LLAMA, "single_label_classification", 3, 74),
    Head("llama_regression", LLAMA, "regression", 1, 75),
    Head("esm2_mean", SEQUENCE, "single_label_classification", 3, 76, mean=True),
]


def make_model(head):
    if head.esm:
        config = make_esm2.configuration(make_bridge.ESM2)
    else:
        config = make_llama.configuration(make_bridge.LLAMA)
        config.pad_token_id = LLAMA_PAD
    config.num_labels, config.problem_type = head.outputs, head.problem
    model = head.architecture(config)
    if head.esm:
        model.esm.contact_head = None
    return model


def make_batch(head, random):
    """tokens, mask [rows, longest], and labels: [rows], [rows, outputs] of a regression, or [rows, longest]."""
    shape = (len(LENGTHS), max(LENGTHS))
    mask = (numpy.arange(shape[1]) < numpy.array(LENGTHS)[:, None]).astype(numpy.int32)
    tokens = random.integers(4, 24 if head.esm else make_bridge.LLAMA.vocab, shape)
    if head.esm:
        tokens[:, 0] = make_bridge.ESM2_TOKENS.index("<cls>")
        tokens[numpy.arange(shape[0]), numpy.array(LENGTHS) - 1] = make_bridge.ESM2_TOKENS.index("<eos>")
    tokens = numpy.where(mask == 1, tokens, masked.ESM2.pad if head.esm else LLAMA_PAD).astype(numpy.int32)
    if head.problem == "regression":
        return tokens, mask, random.standard_normal((shape[0], head.outputs)).astype(numpy.float32)
    if not head.of_tokens:
        return tokens, mask, random.integers(0, head.outputs, shape[0]).astype(numpy.int32)
    labels = random.integers(0, head.outputs, shape)
    unlabelled = (mask == 0) | (tokens < 4) | (random.random(shape) < 0.2)
    return tokens, mask, numpy.where(unlabelled, masked.IGNORED, labels).astype(numpy.int32)


def exact(model, head, stack):
    """The model in float64 throughout."""
    if not head.esm:
        return make_llama.exact(model, make_bridge.LLAMA, make_llama.FAITHFUL)
    # EsmForMaskedLM's replacements, of which those of the trunk hold for all heads
    model = make_esm2.exact(model, make_bridge.ESM2, make_esm2.FAITHFUL)
    embeddings = model.esm.embeddings

    def embed(self, input_ids, attention_mask, **rest):
        return self.word_embeddings(input_ids) * NO_MASKS * attention_mask[:, :, None]

    def rotate(query, key, cosine, sine, unsqueeze_dim):
        cosine, sine = cosine.unsqueeze(unsqueeze_dim), sine.unsqueeze(unsqueeze_dim)
        return [x * cosine + make_esm2.turned(x, False) * sine for x in (query, key)]

    embeddings.forward = types.MethodType(embed, embeddings)
    stack.enter_context(mock.patch.object(modeling_esm, "apply_rotary_pos_emb", rotate))
    return model


def pool_last(model):
    model.classifier.register_forward_pre_hook(lambda module, x: (x[0].flip(1),))


def pool_mean(model):
    model.classifier.register_forward_pre_hook(lambda module, x: (x[0].mean(1, keepdim=True),))


def without_tanh(model):
    def forward(self, features, **rest):
        return self.out_proj(self.dense(features[:, 0]))

    model.classifier.forward = types.MethodType(forward, model.classifier)


def without_biases(model):
    for name, parameter in model.named_parameters():
        if name.startswith("classifier") and name.endswith("bias"):
            parameter.data.zero_()


def last_of_row(model):
    """Logits of the last token of the padded row, instead of the last one that is not padding."""
    model.config.pad_token_id = make_bridge.LLAMA.vocab - 1
    model.model.padding_idx = None


def pool_residues(model, tokens):
    """Replaces the state of the first token, which the classifier reads, by the mean over tokens that are not special."""
    real = ((tokens >= 4) & (tokens < 29)).to(next(model.parameters()).dtype)[:, :, None]
    model.classifier.register_forward_pre_hook(
        lambda module, x: ((x[0] * real).sum(1, keepdim=True) / real.sum(1, keepdim=True),)
    )


MUTATIONS = {
    "pooled at the row's end": (pool_last, lambda head: head.architecture is SEQUENCE and not head.mean),
    "mean over the row": (pool_mean, lambda head: head.architecture is SEQUENCE),
    "tanh left out": (without_tanh, lambda head: head.architecture is SEQUENCE),
    "biases of the head left out": (without_biases, lambda head: head.esm),
    "last token of the padded row": (last_of_row, lambda head: not head.esm),
}


def compute(head, weights, batch, dtype, mutate=None):
    """(logits, loss, gradients by name) as numpy arrays."""
    model = make_model(head)
    missing, surplus = model.load_state_dict({n: torch.from_numpy(w) for n, w in weights.items()}, strict=False)
    assert not surplus and set(missing) <= {"esm.rotary_embeddings.inv_freq"}
    tokens, mask, labels = (torch.from_numpy(array) for array in batch)
    labels = labels.to(dtype) if labels.is_floating_point() else labels.long()
    if head.problem == "regression" and head.outputs == 1:
        labels = labels[:, 0]
    with contextlib.ExitStack() as stack:
        if dtype == torch.float64:
            model = exact(model, head, stack)
        if mutate:
            mutate(model)
        if head.mean:
            pool_residues(model, tokens)
        output = model(input_ids=tokens.long(), attention_mask=mask.long(), labels=labels)
        output.loss.backward()
    gradients = {n: (torch.zeros_like(p) if p.grad is None else p.grad).numpy() for n, p in model.named_parameters()}
    return output.logits.detach().numpy(), output.loss.item(), gradients


def deviation(head, batch, got, want):
    """The larger of the relative deviations of the logits of real tokens, and of all gradients together."""
    real = batch[1] == 1 if head.of_tokens else slice(None)
    gradients = [numpy.concatenate([result[2][name].ravel() for name in sorted(want[2])]) for result in (got, want)]
    return max(relative(got[0][real], want[0][real]), relative(*gradients))


def make(head, folder):
    random = numpy.random.Generator(numpy.random.PCG64(head.seed))
    weights, batch = masked.draw_weights(make_model(head), random), make_batch(head, random)
    want = compute(head, weights, batch, torch.float64)
    single = deviation(head, batch, compute(head, weights, batch, torch.float32), want)
    print(f"{head.name:18} float32 {single:.1e}, loss {want[1]:.6f}")
    assert single < AGREES
    for title, (mutate, concerns) in MUTATIONS.items():
        if concerns(head):
            found = deviation(head, batch, compute(head, weights, batch, torch.float64, mutate), want)
            print(f"    {title:30} {found:.1e}")
            assert found > DIFFERS
    with h5py.File(folder / f"heads_{head.name}.h5", "w") as file:
        file.attrs["architecture"] = head.architecture.__name__
        file.attrs["problem_type"] = head.problem
        file.attrs["num_labels"] = head.outputs
        file["tokens"], file["mask"], file["labels"] = batch
        file["logits"], file["loss"] = want[0], want[1]
        for name, weight in weights.items():
            file[f"weights/{name}"] = weight
            file[f"gradients/{name}"] = want[2][name].astype(numpy.float32)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    torch.set_num_threads(1)
    for head in HEADS:
        make(head, folder)


if __name__ == "__main__":
    main()
