#!/usr/bin/env python3
"""Reads the files of tests/t_python.sh with the package of contrib/python, and again with h5py, json, csv and the FASTA
input alone: python_reader.py FOLDER. The package is the one that Python finds."""
import csv
import json
import os
import sys

import h5py
import numpy

import cistron


def fasta(path):
    """Lists of the names and sequences of a FASTA file."""
    records = [record.split("\n", 1) for record in open(path).read().split(">")[1:]]
    return [head.split()[0] for head, _ in records], [body.replace("\n", "") for _, body in records]


def raises(kind, words, call, *arguments):
    """Requires that call(*arguments) raises kind with words in its message."""
    try:
        call(*arguments)
    except kind as error:
        assert words in str(error), f"{error} does not say {words}"
        return
    raise AssertionError(f"{call} {arguments}: no {kind.__name__}")


def test_run():
    run = cistron.Run("run")
    lines = [json.loads(line) for line in open("run/log.jsonl")]
    assert run.log() == lines
    steps = [line["step"] for line in lines if line["event"] == "step"]
    assert steps == list(range(1, 13)) == [line["step"] for line in run.log("step")]
    assert run.steps() == [6, 12] and "ffn = 64" in run.deck
    with open("live.jsonl", "w") as file:
        file.write(json.dumps(lines[0]) + "\n" + json.dumps(lines[1])[:20])
    assert cistron.read_log("live.jsonl") == lines[:1]
    with open("damaged.jsonl", "w") as file:
        file.write(json.dumps(lines[0]) + "\n{\n")
    raises(ValueError, "damaged.jsonl:2: ", cistron.read_log, "damaged.jsonl")
    raises(FileNotFoundError, "log.jsonl is missing", cistron.Run, ".")
    try:
        import pandas  # noqa: F401
    except ImportError:
        print("left out: data frames (this Python has no pandas)")
        return
    frame = run.frame()
    assert frame["step"].tolist() == steps
    assert frame["loss"].tolist() == [line["loss"] for line in lines if line["event"] == "step"]


def test_checkpoint():
    run = cistron.Run("run")
    digests = {line["step"]: line["digest"] for line in run.log("checkpoint")}
    for step in 6, 12:
        with run.checkpoint(step) as checkpoint, h5py.File(f"run/step_{step:08d}.h5") as file:
            assert checkpoint.step == step and checkpoint.digest == digests[step]
            assert checkpoint.meta["tokenizer"] == "nucleotide" and "ffn = 64" in checkpoint.deck
            assert set(checkpoint) == set(file["model"]) and len(checkpoint) == 2 * 9 + 3
            assert checkpoint["model.layers.1.mlp.gate_proj.weight"].shape == (64, 32)
            for name, tensor in checkpoint.items():
                assert tensor.dtype == numpy.float32 and tensor.shape == checkpoint.shape(name)
                assert (tensor == file["model/" + name][...]).all()
                first, second = checkpoint.moments(name)
                assert (first == file["optim/m/" + name][...]).all() and (second == file["optim/v/" + name][...]).all()
                assert second.min() >= 0 and second.max() > 0
    assert run.checkpoint().step == 12
    with run.final_model() as model, run.checkpoint() as checkpoint:
        assert model.moments("model.norm.weight") is None
        assert all((model[name] == checkpoint[name]).all() for name in checkpoint)
        raises(KeyError, "model.none", model.__getitem__, "model.none")
        # The same model as bf16 in HDF5: sign, 8 bits of exponent, 7 of mantissa
        bf16 = h5py.h5t.IEEE_F32LE.copy()
        bf16.set_fields(15, 7, 8, 0, 7)
        bf16.set_size(2)
        bf16.set_ebias(127)
        with h5py.File("bf16.h5", "w") as file:
            for group in "/", "meta":
                for key, value in model.file[group].attrs.items():
                    file.require_group(group).attrs[key] = value
            group = file.create_group("model")
            for name, tensor in model.items():
                space = h5py.h5s.create_simple(tensor.shape)
                dataset = h5py.h5d.create(group.id, name.encode(), bf16, space)
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.ascontiguousarray(tensor))
        with cistron.Checkpoint("bf16.h5") as rounded:
            for name, tensor in model.items():
                values = rounded[name]
                assert values.dtype == numpy.float32 and not (values.view("u4") & 0xffff).any()
                assert (abs(values - tensor) <= abs(tensor) * 2.0**-8).all() and values.any()
    raises(ValueError, "not a checkpoint or model", cistron.Checkpoint, "mean.h5")
    with h5py.File("later.h5", "w") as file:
        file.attrs["cistron_checkpoint"] = 2
    raises(ValueError, "format version 2", cistron.Checkpoint, "later.h5")


def test_carried():
    # carried tensors of the imported ESM-2 against the safetensors file that it came from
    data = open(os.environ["ESM2_SAFETENSORS"], "rb").read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    with cistron.Checkpoint("esm.h5") as model:
        assert model.carried()
        for name in model.carried():
            begin, end = header[name]["data_offsets"]
            tensor = model.carried_tensor(name)
            assert list(tensor.shape) == header[name]["shape"]
            assert tensor.tobytes() == data[8 + size + begin:8 + size + end]
    # A copy whose carried tensor is bf16
    with h5py.File("esm.h5") as source, h5py.File("carried.h5", "w") as file:
        for key in "meta", "model":
            source.copy(key, file)
        file.attrs["cistron_checkpoint"] = 1
        item = file.create_dataset("carried/x", data=numpy.array([0x80, 0x3f, 0x20, 0xc1, 0, 0, 0x80, 0x7f], "u1"))
        item.attrs["dtype"], item.attrs["shape"] = "BF16", numpy.array([2, 2])
    with cistron.Checkpoint("carried.h5") as model:
        assert model.carried_tensor("x").tolist() == [[1, -10], [0, float("inf")]]


def test_embeddings():
    names, sequences = fasta("p.fa")
    lengths = [len(sequence) for sequence in sequences]
    with cistron.Embeddings("mean.h5") as mean, cistron.Embeddings("tokens.h5") as tokens, h5py.File("mean.h5") as file:
        assert mean.names == names and mean.lengths.tolist() == lengths and len(mean) == len(names)
        assert mean.offsets is None and mean.attributes["pool"] == "mean" and mean.layers is None
        for number, name in enumerate(names):
            assert (mean[name] == file["vectors"][number]).all() and (mean[number] == mean[name]).all()
            assert tokens[name].shape == (lengths[number] + 2, mean[name].size)
            assert abs(tokens.residues(name).mean(0) - mean[name]).max() < 1e-5
            contacts = mean.contacts(name)
            first = sum(length**2 for length in lengths[:number])
            assert contacts.shape == (lengths[number],) * 2 and abs(contacts - contacts.T).max() < 1e-6
            assert (contacts.ravel() == file["contacts"][first:first + contacts.size]).all()
        assert (mean[-1] == mean[names[-1]]).all()
        raises(KeyError, "no record has this name", mean.__getitem__, "nobody")
        raises(IndexError, f"record {len(names)} of", mean.__getitem__, len(names))
        raises(ValueError, "--pool none", mean.residues, 0)
        raises(ValueError, "no contacts", tokens.contacts, 0)
        # NumPy's format has the same vectors
        for path, same in ("mean.npy", mean), ("tokens.npy", tokens):
            array = cistron.Embeddings(path)
            assert array.names == names and array.lengths.tolist() == lengths
            assert (array.vectors[:] == same.vectors[:]).all()
            assert all((array[name] == same[name]).all() for name in names)
        assert (array.residues(1) == tokens.residues(1)).all() and (array.offsets == tokens.offsets).all()
    with cistron.Embeddings("layers.h5") as layers:
        assert layers.layers.tolist() == [0, 2] and layers[0].shape[0] == 2
        assert layers.vectors.dtype == numpy.float16
    with cistron.Embeddings("twins.h5") as twins:
        raises(KeyError, "2 records have this name", twins.__getitem__, "twin")
        assert (twins[0] != twins[1]).any()


def test_scores():
    with open("scores.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    table = cistron.Scores("scores.csv", measured="measured")
    binary = cistron.Scores("scores.h5")
    for scores in table, binary:
        assert scores.methods == ["masked-marginals", "wt-marginals"] and len(scores) == len(rows) > 3
        assert scores.names == [row["name"] for row in rows]
        ordered = (lambda text: text) if scores is table else (lambda text: sorted(text.split(":")))
        assert list(map(ordered, scores.mutations)) == [ordered(row["mutation"]) for row in rows]
        for method in scores.methods:
            assert numpy.allclose(scores[method], [float(row[method]) for row in rows], rtol=1e-5, atol=1e-6)
        assert numpy.allclose(scores.measured, [float(row["measured"]) for row in rows])
    assert (table["masked-marginals"] != table["wt-marginals"]).any()
    assert table.columns["measured"][0] == rows[0]["measured"] and binary.attributes["method"] == "masked-marginals"
    raises(KeyError, "its methods are", table.__getitem__, "none")
    one = cistron.Scores("one.tsv")
    assert one.methods == ["score"] and one.names is None and one.mutations == ["F1A", "WT"]
    assert one["score"][0] != 0 and one["score"][1] == 0 and one.measured.tolist() == [0.5, 1.5]
    text, binary = cistron.Scores("vcf.csv"), cistron.Scores("vcf.h5")
    assert text.names == binary.names and text.methods == ["score"]
    assert numpy.allclose(text.scores, binary.scores, rtol=1e-5, atol=1e-6) and len(text) > 3
    raises(ValueError, "no column of cistron score", cistron.Scores, "m.csv")
    raises(ValueError, "use Positions", cistron.Scores, "positions.h5")
    raises(ValueError, "use Scores", cistron.Positions, "scores.h5")
    names, sequences = fasta("p.fa")
    with cistron.Positions("positions.h5") as positions:
        assert positions.names == names and positions.lengths.tolist() == [len(sequence) for sequence in sequences]
        for name, sequence in zip(names, sequences):
            assert positions.wild_type(name) == sequence
            logs = positions.log_probabilities(name)
            assert logs.shape == positions.logits(name).shape == (len(sequence), len(positions.tokens))
            assert numpy.allclose(numpy.exp(logs.astype(float)).sum(1), 1, atol=1e-4)
        for number, mutation in enumerate(table.mutations):
            parts = [] if mutation == "WT" else mutation.split(":")
            total = 0
            for part in parts:
                row = positions.log_probabilities(table.names[number])[int(part[1:-1]) - 1]
                total += row[positions.tokens.index(part[-1])] - row[positions.tokens.index(part[0])]
            assert abs(total - table["masked-marginals"][number]) < 1e-4


def test_store():
    for path, source in ("g.h5", "g.fa"), ("p.h5", "p.fa"), ("a.h5", "p.fa"):
        names, sequences = fasta(source)
        with cistron.Store(path) as store:
            assert store.names == names and store.lengths.tolist() == [len(sequence) for sequence in sequences]
            for number, name in enumerate(names):
                expected = sequences[number]
                if path == "a.h5":  # AMPLIFY's vocabulary lacks some residues
                    expected = "".join("<unk>" if letter in "XUZO" else letter for letter in expected)
                assert store.text(name) == expected and len(store[number]) == len(sequences[number])
    with cistron.Store("g.h5") as store:
        assert store.tokenizer == "nucleotide" and store[0].tolist() == list(fasta("g.fa")[1][0].encode())


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    for test in [test_run, test_checkpoint, test_carried, test_embeddings, test_scores, test_store]:
        test()
        print(test.__name__, "passed")
