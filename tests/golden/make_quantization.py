"""Writes quantization.txt: casts by ml_dtypes, scales by TransformerEngine's rule in numpy, block copies by torchao.

    make_quantization.py >quantization.txt

Needs numpy, ml_dtypes 0.6.0, torch 2.15.0 and torchao 0.18.0. Lines:
    cast FORMAT INPUT CODE            f32 bits, and the code that they round to; no input is beyond the largest number
    code FORMAT CODE VALUE            every code that is no NaN, and its value's f32 bits
    scale LARGEST POWERS AMAX SCALE   f32 bits of an amax and of the scale that it makes; largest number; powers of two?
    copy NAME ROWS COLS HASH          64-bit FNV-1a of a copy's bytes, row by row; of the matrix x() below
    scales NAME HASH                  of the bytes of its scales, f32 or e4m3, in the order of torchao's own

Where torchao differs by choice: MXFP8 with its option RCEIL (its default rounds the exponent down); NVFP4 with blocks
whose scale is above torchao's least, and with an amax that makes the tensor's scale a power of two, since torchao
divides by that scale's reciprocal; blocks of 128 without zero blocks, where torchao takes an amax of 1e-12.
"""

import sys

import ml_dtypes
import numpy as np
import torch
from torchao.prototype.blockwise_fp8_training import kernels as blocks
from torchao.prototype.mx_formats import kernels as four_bits
from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

FORMATS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m1": ml_dtypes.float4_e2m1fn}


def bits(x):
    return "%08x" % np.float32(x).view(np.uint32)


def codes(name):
    """Codes of the finite numbers from 0 up, with their values."""
    dtype = FORMATS[name]
    count = 8 if name == "e2m1" else 128
    values = [float(np.uint8(code).view(dtype)) if name != "e2m1" else float(e2m1(code)) for code in range(count)]
    return [(code, value) for code, value in enumerate(values) if np.isfinite(value)]


def e2m1(code):
    return np.array([code], np.uint8).view(FORMATS["e2m1"])[0]


def cast(name, x):
    return int(np.float32(x).astype(FORMATS[name]).view(np.uint8))


def casts(name):
    numbers = codes(name)
    for code, value in numbers:
        print("code", name, "%02x" % code, bits(value))
    for (_, low), (_, high) in zip(numbers, numbers[1:]):
        middle = np.float32((low + high) / 2)
        for x in (low, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9))):
            print("cast", name, bits(x), "%02x" % cast(name, x))
    for x in (1e-45, 1e-30, numbers[-1][1]):
        print("cast", name, bits(x), "%02x" % cast(name, x))


def scale(largest, powers, amax):
    one, most = np.float32(1), np.finfo(np.float32).max
    multiplier = one
    if np.isfinite(amax) and amax != 0:
        multiplier = min(np.float32(largest) / amax, most)
        if powers:
            multiplier = (multiplier.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32)
    return one / multiplier


def scales():
    edges = ["0", "inf", "nan", "1e-45", "5e-41", "1.1754944e-38", "1e-36", "1.3e-36", "0.001", "0.1", "1", "3", "448"]
    for amax in edges + ["447.99997", "448.00003", "57344", "70000", "1e30", "3.4028235e38"]:
        for largest in (448, 57344):
            for powers in (0, 1):
                x = np.float32(amax)
                print("scale", largest, powers, bits(x), bits(scale(largest, powers, x)))


def x(rows, cols):
    """16-bit whole numbers times powers of two that differ from 16 columns to 16 columns; 5.25 is the largest."""
    i, j = np.arange(rows, dtype=np.uint64)[:, None], np.arange(cols, dtype=np.uint64)[None, :]
    word = np.uint64(0xFFFFFFFF)

    def mixed(h):
        h = (h ^ (h >> np.uint64(15))) * np.uint64(739982445) & word
        return h ^ (h >> np.uint64(12))

    number = (mixed(i * np.uint64(2654435761) + j * np.uint64(40503) + np.uint64(12345) & word) & np.uint64(0xFFFF)).astype(np.int64)
    power = (mixed(i * np.uint64(69069) + (j // np.uint64(16)) * np.uint64(362437) & word) & np.uint64(7)).astype(np.int64)
    values = np.ldexp((number - 32768).astype(np.float64), (power - 20).astype(np.int32)).astype(np.float32)
    values[0, 0] = 5.25
    return torch.from_numpy(values)


def fnv(raw):
    h = 0xCBF29CE484222325
    for byte in raw:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return "%016x" % h


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def copies():
    source = x(128, 256)
    data, scale = blocks.torch_blockwise_scale_act_quant_lhs(source)
    print("copy 1x128 128 256", fnv(raw(data)))
    print("scales 1x128", fnv(raw(scale.t())))
    data, scale = blocks.torch_blockwise_scale_act_quant_rhs(source)
    print("copy 1x128_column 128 256", fnv(raw(data.t())))
    print("scales 1x128_column", fnv(raw(scale)))
    data, scale = blocks.torch_blockwise_scale_weight_quant(source)
    print("copy 128x128 128 256", fnv(raw(data)))
    print("scales 128x128", fnv(raw(scale)))
    source[3] = 0
    for name, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        exponents, data = to_mx(source, dtype, 32, ScaleCalculationMode.RCEIL)
        powers = torch.ldexp(torch.ones(128, 8), exponents.view(torch.uint8).int().reshape(128, 8) - 127)
        values = data.float().reshape(128, 8, 32) * powers[:, :, None]
        assert torch.equal(values.bfloat16().float(), values)
        print("copy 1x32_%s 128 256" % name, fnv(raw(values.bfloat16().reshape(128, 256))))
    source = x(128, 256)
    scale, packed = nvfp4_quantize(source, 16, torch.tensor(5.25 / 2688))
    numbers = four_bits.f4_unpacked_to_f32(four_bits.unpack_uint4(packed)).reshape(128, 16, 16)
    assert scale.float().min() > 2.0**-6
    values = (numbers * scale.float().reshape(128, 16, 1)).bfloat16()
    print("copy 1x16 128 256", fnv(raw(values.reshape(128, 256))))


if __name__ == "__main__":
    for name in FORMATS:
        casts(name)
    scales()
    copies()
    sys.stdout.flush()
