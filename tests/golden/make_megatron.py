"""Writes Megatron data sets and what megatron-core makes of them to a folder, for tests/t_megatron.

    make_megatron.py FOLDER [large]

Needs megatron-core 0.16 (its folder megatron on PYTHONPATH is enough), torch and numpy. Exit status 77: not there.
Made with megatron-core 0.16.1: FOLDER = tests/golden/megatron. With `large`: sets and runs too big to be kept.

Tokens are numbered through each set, so that no two samples are equal. Lines of expected.txt:
    order SET PARTS USE SAMPLES LENGTH SEED HASH HASH HASH   of the document, sample and shuffle index; SAMPLES 0: all
    rows SETS WEIGHTS PARTS SEED LENGTH GLOBAL STEPS HASH    of tokens, then labels, of each row of each step, in int32
    blend SIZE WEIGHTS HASH HASH HASH                        of the weights as shares, in f64, of dataset_index and
                                                             dataset_sample_index
    size SHARE SAMPLES SIZE                                  samples that a data set of that share is made to hold
HASH is zlib's crc32 of the bytes; "-" stands for an empty text.
"""

import logging
import random
import shutil
import sys
import tempfile
import warnings
import zlib

warnings.filterwarnings("ignore")
try:
    import numpy as np
    import torch
    from megatron.core.datasets import helpers
    from megatron.core.datasets.blended_megatron_dataset_builder import (
        BlendedMegatronDatasetBuilder,
        _get_size_per_split_per_dataset,
    )
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    from megatron.core.datasets.utils import normalize
except ImportError as error:
    print("skipped: no megatron-core:", error)
    sys.exit(77)
logging.disable(logging.CRITICAL)

folder, large = sys.argv[1], len(sys.argv) > 2
lines = []


class Tokenizer:
    """What GPTDataset asks of one: no id of the sets is special."""

    vocab_size, eod, eos, pad = 1 << 22, 1 << 21, 1 << 21, -1
    unique_identifiers = {}


def text(items):
    return ",".join(str(item) for item in items) if items else "-"


def digest(array):
    return "%08x" % zlib.crc32(np.ascontiguousarray(array).tobytes())


def write(name, lengths, dtype, per_document=1):
    builder = IndexedDatasetBuilder(f"{folder}/{name}.bin", dtype=dtype)
    begin = 0
    for i, length in enumerate(lengths):
        builder.add_item(torch.arange(begin, begin + length))
        begin += length
        if i % per_document == per_document - 1 or i == len(lengths) - 1:
            builder.end_document()
    builder.finalize(f"{folder}/{name}.idx")


def config(length, seed, parts, blend):
    return GPTDatasetConfig(random_seed=seed, sequence_length=length, blend=blend, split=parts or "1",
                            tokenizer=Tokenizer(), reset_position_ids=False, reset_attention_mask=False,
                            eod_mask_loss=False, create_attention_mask=False, path_to_cache=cache)


def build(sets, weights, sizes, length, seed, parts):
    blend = ([f"{folder}/{name}" for name in sets], weights)
    return BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config(length, seed, parts, blend)).build()


def order(name, parts, use, samples, length, seed):
    sizes = [0, 0, 0]
    sizes[use] = samples or None
    data = build([name], None, sizes, length, seed, parts)[use]
    assert data.document_index.dtype == np.int32 and data.sample_index.dtype == np.int32
    assert data.shuffle_index.dtype == np.uint32
    hashes = [digest(index) for index in (data.document_index, data.sample_index, data.shuffle_index)]
    lines.append(f"order {name} {parts or '-'} {use} {samples} {length} {seed} {' '.join(hashes)}")


def rows(sets, weights, parts, seed, length, batch, steps):
    data = build(sets, weights, [batch * steps, 0, 0], length, seed, parts)[0]
    crc = 0
    for i in range(batch * steps):
        sample = data[i]
        for key in ("tokens", "labels"):
            crc = zlib.crc32(sample[key].numpy().astype(np.int32).tobytes(), crc)
    lines.append(f"rows {text(sets)} {text(weights)} {parts or '-'} {seed} {length} {batch} {steps} {crc:08x}")


def blend(weights, size):
    index, sample = np.zeros(size, dtype=np.int16), np.zeros(size, dtype=np.int64)
    shares = normalize(normalize(weights))
    helpers.build_blending_indices(index, sample, shares, len(weights), size, False)
    lines.append(f"blend {size} {text(weights)} {digest(np.array(shares))} {digest(index)} {digest(sample)}")


torch.distributed.get_rank = lambda: 0  # no other rank is there
cache = tempfile.mkdtemp()
draw = random.Random(7)
scale = 200 if large else 1
write("wood", [draw.choice([0, 1, 2, 5, 17, 30, 63, 64, 65, 90]) for _ in range(41 * scale)], np.int32)
write("stone", [draw.randint(1, 40) for _ in range(60 * scale)], np.int32 if large else np.uint16, 3)
write("iron", [500 * scale], np.int32 if large else np.uint16)

for seed in (0, 1234, 4294967295):
    for samples in (0, 1, 20, 36, 37, 39, 41, 60, 130 * scale):  # one epoch, several, the last apart or not
        order("wood", "", 0, samples, 64 if seed else 33, seed)
order("wood", "90,10", 0, 100, 48, 5)
order("wood", "60,30,10", 1, 50, 16, 5)
order("stone", ".5,.25,.25", 2, 0, 16, 5)
order("iron", "", 0, 44, 48, 9)
rows(["wood"], None, "", 1234, 64, 6, 9 * scale)
rows(["wood"], [3.0], "80,20", 1234, 64, 6, 9)
rows(["wood", "stone"], [0.3, 0.7], "", 42, 32, 8, 11 * scale)
rows(["stone", "wood"], [1.0, 2.0], "70,20,10", 7, 16, 5, 40)
rows(["stone", "wood", "iron"], [1.0, 2.0, 0.125], "", 7, 16, 5, 40)
rows(["stone", "wood", "iron"], None, "", 7, 16, 5, 12)
for count in (2, 3, 8, 13, 129, 150, 182, 230, 270, 300, 390):
    blend([round(draw.uniform(0.01, 3), 3) for _ in range(count)], 1000)
blend([0.5, 0.3, 0.2], 10)
blend([1.0] * 9, 100)
for share, samples in ((0.3, 1000), (0.125, 100), (0.999, 12345), (1.0, 77), (0.1, 30)):
    sizes = _get_size_per_split_per_dataset([share, 1 - share], [samples], surplus=GPTDatasetConfig.mid_level_dataset_surplus)
    lines.append(f"size {share} {samples} {sizes[0][0]}")
with open(f"{folder}/expected.txt", "w") as out:
    out.write("\n".join(lines) + "\n")
shutil.rmtree(cache)
