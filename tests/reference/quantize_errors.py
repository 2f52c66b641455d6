"""The errors of ggml's quantization, type by type, for core/quantize/tests/errors.rs.

    python quantize_errors.py /path/to/libggml-base.so

Weights are sums of four 16-bit parts of a hash (about normal), times their magnitude in the second half (heavy tails);
importance is a power of two per column. Printed: root of the weighted mean square error over that of the weights, without
and with importance.
"""

import ctypes
import sys

import numpy as np

ROWS, COLS = 8, 1024
TYPES = {
    "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14,
    "IQ2_XXS": 16, "IQ2_XS": 17, "IQ3_XXS": 18, "IQ1_S": 19, "IQ4_NL": 20, "IQ3_S": 21, "IQ2_S": 22, "IQ4_XS": 23,
    "IQ1_M": 29, "TQ1_0": 34, "TQ2_0": 35, "MXFP4": 39, "NVFP4": 40,
}
NEED_IMPORTANCE = {"IQ2_XXS", "IQ2_XS", "IQ1_S"}


class Traits(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("block", ctypes.c_int64), ("interleave", ctypes.c_int64), ("size", ctypes.c_size_t),
        ("quantized", ctypes.c_bool), ("to_float", ctypes.c_void_p), ("from_float", ctypes.c_void_p),
    ]


def splitmix(i):
    mask = (1 << 64) - 1
    z = (i * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def weights():
    out = np.empty(ROWS * COLS, np.float32)
    for i in range(out.size):
        z = splitmix(i)
        total = sum(z >> shift & 0xFFFF for shift in (0, 16, 32, 48))
        value = np.float32(total - 131070) / np.float32(65536)
        out[i] = value if i < out.size // 2 else value * abs(value)
    return out


def importance():
    return np.array([2.0 ** (splitmix(1_000_000 + i) % 8 - 4.0) for i in range(COLS)], np.float32)


def main():
    ggml = ctypes.CDLL(sys.argv[1])
    ggml.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    x, imp = weights(), importance()
    for name, kind in TYPES.items():
        traits = ggml.ggml_get_type_traits(kind).contents
        decode = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(traits.to_float)
        found = []
        for weight in (None, imp):
            if weight is None and name in NEED_IMPORTANCE:
                found.append(None)
                continue
            blocks = np.zeros(x.size // traits.block * traits.size, np.uint8)
            pointer = weight.ctypes.data if weight is not None else None
            ggml.ggml_quantize_init(kind)
            ggml.ggml_quantize_chunk(kind, x.ctypes.data, blocks.ctypes.data, 0, ROWS, COLS, pointer)
            y = np.empty_like(x)
            decode(blocks.ctypes.data, y.ctypes.data, x.size)
            w = np.tile(weight if weight is not None else np.ones(COLS, np.float32), ROWS).astype(np.float64)
            off = x.astype(np.float64) - y
            found.append(float(np.sqrt((w * off**2).sum() / (w * x.astype(np.float64) ** 2).sum())))
        print(f"    (GgmlType::{name}, {'None' if found[0] is None else f'Some({found[0]:.5f})'}, {found[1]:.5f}),")


main()
