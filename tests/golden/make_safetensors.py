#!/usr/bin/env python3
"""make_safetensors.py FOLDER: writes safetensors.safetensors (one file) and safetensors_shards/ (a folder with an index)
there, with the Python package safetensors and torch. tests/t_safetensors.c knows what must be in them: element i
of most tensors is (7 i + dims) % 100, of BOOL % 2, of F8_* the byte i; `wide.*` are what torch makes of the bits of
`narrow.*`, and `rounded.bf16` what it makes of `random.f32`."""
import json
import os
import sys

import torch
from safetensors.torch import save_file

folder = sys.argv[1]
torch.manual_seed(1)


def counting(dtype, *shape):
    count = torch.Size(shape).numel()
    values = (7 * torch.arange(count) + len(shape)) % (2 if dtype == torch.bool else 100)
    return values.reshape(shape).to(dtype)


# every 129th pattern of 16 bits: both signs, denormals, infinities and NaNs are among them
patterns = torch.cat([torch.arange(0, 65536, 129), torch.tensor([0x7C00, 0xFC00, 0x7F80, 0xFF80, 0x8000, 0x8001, 0x7BFF])])
half = patterns.to(torch.uint16).view(torch.float16)
brain = patterns.to(torch.uint16).view(torch.bfloat16)
random = torch.randint(-2**31, 2**31, (300,), dtype=torch.int64).to(torch.int32)
ties = torch.tensor([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7FFFFF, 0x7F800000, 0x00008000, -0x00800000],
                    dtype=torch.int64).to(torch.int32)
random = torch.cat([random, ties]).view(torch.float32)
tensors = {
    "bool": counting(torch.bool, 3, 5),
    "u8": counting(torch.uint8, 7),
    "i8": counting(torch.int8, 2, 3),
    "f8_e4m3": torch.arange(9, dtype=torch.uint8).view(torch.float8_e4m3fn),
    "f8_e5m2": torch.arange(9, dtype=torch.uint8).view(torch.float8_e5m2),
    "i16": counting(torch.int16, 2, 2, 2),
    "u16": counting(torch.uint16, 5),
    "f16": counting(torch.float16, 3, 3),
    "bf16": counting(torch.bfloat16, 3, 5),
    "i32": counting(torch.int32, 4),
    "u32": counting(torch.uint32, 4),
    "f32": counting(torch.float32, 4, 3),
    "f64": counting(torch.float64, 3),
    "i64": counting(torch.int64, 2, 1, 3),
    "u64": counting(torch.uint64, 3),
    "scalar": counting(torch.float32),
    "scalar.i64": counting(torch.int64),
    "empty": torch.zeros(3, 0, 2),
    "empty.bf16": torch.zeros(0, dtype=torch.bfloat16),
    "eight": counting(torch.uint8, 1, 2, 1, 3, 1, 2, 1, 2),
    "näme \" with \\ signs": counting(torch.float32, 2),
    "narrow.f16": half, "wide.f16": half.float(),
    "narrow.bf16": brain, "wide.bf16": brain.float(),
    "random.f32": random, "rounded.bf16": random.to(torch.bfloat16),
}
save_file(tensors, os.path.join(folder, "safetensors.safetensors"), metadata={"made by": "make_safetensors"})

shards = os.path.join(folder, "safetensors_shards")
os.makedirs(shards, exist_ok=True)
parts = [{"z": counting(torch.float32, 2, 3), "a": counting(torch.bfloat16, 5)}, {"m": counting(torch.float16, 4)}]
index = {"metadata": {"total_size": sum(t.numel() * t.element_size() for p in parts for t in p.values())},
         "weight_map": {}}
for i, part in enumerate(parts):
    name = f"model-{i + 1:05d}-of-{len(parts):05d}.safetensors"
    save_file(part, os.path.join(shards, name), metadata={"format": "pt"})
    index["weight_map"].update({tensor: name for tensor in part})
with open(os.path.join(shards, "model.safetensors.index.json"), "w") as file:
    json.dump(index, file, indent=2, sort_keys=True)
    file.write("\n")
