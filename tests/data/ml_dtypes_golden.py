"""Writes ml_dtypes_golden.txt beside itself: what ml_dtypes (and NumPy for f16) make of the float formats.

Needs: pip install ml_dtypes==0.6.0 numpy. Each type has two lines of space-separated hex:
  decode NAME   for types of 8 bits and fewer, the f32 bits of every encoding in order
  encode NAME   pairs f32bits:encoding, of values at, around and between representable ones, and random ones
NaNs are written as `nan`. bf16 and f16 are decoded against the `half` crate instead, exhaustively.
"""

import pathlib

import ml_dtypes
import numpy as np

TYPES = {
    "f4e2m1fn": (ml_dtypes.float4_e2m1fn, 4),
    "f6e2m3fn": (ml_dtypes.float6_e2m3fn, 6),
    "f6e3m2fn": (ml_dtypes.float6_e3m2fn, 6),
    "f8e3m4": (ml_dtypes.float8_e3m4, 8),
    "f8e4m3": (ml_dtypes.float8_e4m3, 8),
    "f8e4m3fn": (ml_dtypes.float8_e4m3fn, 8),
    "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 8),
    "f8e4m3b11fnuz": (ml_dtypes.float8_e4m3b11fnuz, 8),
    "f8e5m2": (ml_dtypes.float8_e5m2, 8),
    "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 8),
    "f8e8m0fnu": (ml_dtypes.float8_e8m0fnu, 8),
    "bf16": (ml_dtypes.bfloat16, 16),
    "f16": (np.float16, 16),
}


def neighbours(values):
    return np.concatenate([values, np.nextafter(values, np.float32(np.inf)), np.nextafter(values, np.float32(-np.inf))])


def inputs(dtype, bits, random):
    storage = np.uint8 if bits <= 8 else np.uint16
    codes = np.arange(2**bits, dtype=np.uint32)
    if bits > 8:
        codes = np.unique(np.concatenate([codes[:40], random.choice(codes, 120)]))
    values = codes.astype(storage).view(dtype).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    if bits > 8:
        full = np.arange(2**bits, dtype=np.uint32).astype(storage).view(dtype).astype(np.float32)
        full = np.unique(full[np.isfinite(full)])
        at = random.integers(0, len(full) - 1, 150)
        middles = ((full[at].astype(np.float64) + full[at + 1]) / 2).astype(np.float32)
    else:
        middles = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)
    finite = np.arange(2**bits, dtype=np.uint32).astype(storage).view(dtype).astype(np.float32)
    top = np.float64(finite[np.isfinite(finite)].max())
    with np.errstate(over="ignore"):
        around = top * np.concatenate([1 + np.arange(33) / 64, 1 + np.arange(9) / 8192, [2, 4]])
        over = around.astype(np.float32)
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, 1e-38])
    spread = (random.choice([-1, 1], 200) * 2.0 ** random.uniform(-30, 20, 200)).astype(np.float32)
    return np.concatenate([special, neighbours(middles), values[:64], over, -over, spread]).astype(np.float32)


def main():
    random = np.random.default_rng(20261130)
    lines = [f"# ml_dtypes {ml_dtypes.__version__}, NumPy {np.__version__}; made by ml_dtypes_golden.py"]
    for name, (dtype, bits) in TYPES.items():
        storage = np.uint8 if bits <= 8 else np.uint16
        if bits <= 8:
            values = np.arange(2**bits, dtype=np.uint8).view(dtype).astype(np.float32)
            words = ["nan" if np.isnan(v) else f"{v.view(np.uint32):x}" for v in values]
            lines.append(f"decode {name} " + " ".join(words))
        x = inputs(dtype, bits, random)
        x = x[np.sort(np.unique(x.view(np.uint32), return_index=True)[1])]
        with np.errstate(over="ignore", invalid="ignore"):
            y = x.astype(dtype)
        back = y.astype(np.float32)
        words = [
            f"{a.view(np.uint32):x}:" + ("nan" if np.isnan(c) else f"{b:x}")
            for a, b, c in zip(x, y.view(storage), back)
        ]
        lines.append(f"encode {name} " + " ".join(words))
    path = pathlib.Path(__file__).with_name("ml_dtypes_golden.txt")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
