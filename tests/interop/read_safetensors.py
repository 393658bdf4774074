#!/usr/bin/env python3
"""read_safetensors.py FOLDER: do the models of `t_safetensors_writer FOLDER` hold what they should, as the Python package
safetensors reads them? Where torch is installed too, it must load them. Exit status 77: the package is not installed."""
import json
import os
import sys

try:
    import safetensors
except ImportError:
    print("skipped: the Python package safetensors is not installed")
    sys.exit(77)
try:
    from safetensors.torch import load_file
except ImportError:
    load_file = None

# tests/t_safetensors_writer.c: name, type, its bytes, shape; byte k of tensor i
WRITTEN = [("b.weight", "BF16", 2, [3, 5]), ("a.weight", "F32", 4, [4, 6]), ("mask", "BOOL", 1, [3]),
           ("half", "F16", 2, [7]), ("none", "F32", 4, [0, 4]), ("position", "I64", 8, []), ("näme \"x\\", "F64", 8, [2]),
           ("e4m3", "F8_E4M3", 1, [1, 3, 3])]


def content(i, count):
    return bytes(k % 2 if WRITTEN[i][1] == "BOOL" else (37 * i + 11 * k + 5) % 251 for k in range(count))


expected = {}
for i, (name, dtype, size, shape) in enumerate(WRITTEN):
    count = size
    for side in shape:
        count *= side
    expected[name] = (dtype, shape, content(i, count))


def read_file(path):
    """name -> (dtype, shape, bytes), by the package's own parser."""
    read = {}
    for name, view in safetensors.deserialize(open(path, "rb").read()):
        read[name] = (view["dtype"], list(view["shape"]), bytes(view["data"]))
    if load_file is not None:
        import torch
        for name, tensor in load_file(path).items():
            assert list(tensor.shape) == read[name][1], name
            raw = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else torch.zeros(0, dtype=torch.uint8)
            assert bytes(raw.tolist()) == read[name][2], name
        with safetensors.safe_open(path, framework="pt") as file:
            assert file.metadata() == {"format": "pt"}, file.metadata()
    return read


for folder, files in (("one", 1), ("three", 3), ("each", 7)):
    folder = os.path.join(sys.argv[1], folder)
    if files == 1:
        read = read_file(os.path.join(folder, "model.safetensors"))
    else:
        index = json.load(open(os.path.join(folder, "model.safetensors.index.json")))
        assert sorted(index) == ["metadata", "weight_map"], index
        names = sorted(set(index["weight_map"].values()))
        assert names == [f"model-{i + 1:05d}-of-{files:05d}.safetensors" for i in range(files)], names
        assert index["metadata"]["total_size"] == sum(len(data) for _, _, data in expected.values()), index
        read = {}
        for name in names:
            part = read_file(os.path.join(folder, name))
            assert all(index["weight_map"][tensor] == name for tensor in part), name
            read.update(part)
        assert sorted(index["weight_map"]) == sorted(read)
    assert read == expected, folder
print("3 models read" + ("" if load_file else "; torch is not installed: its loading is not tried"))
