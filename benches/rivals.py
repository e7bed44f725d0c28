"""Asks a library whether pairs of arrays are close: rivals.py jax|torch|correlation < pairs.json.

Reads a list of pairs as rivals.rs writes it and prints a list of verdicts; null where the library cannot compare the type.
"""

import json
import sys


def jax_verdict(pair):
    import ml_dtypes
    import numpy as np
    from jax._src import public_test_util

    names = {"pred": "bool", "f16": "float16", "f32": "float32", "f64": "float64"}
    names |= {"c64": "complex64", "c128": "complex128", "bf16": "bfloat16"}
    names |= {f"i{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)}
    names |= {f"u{n}": f"uint{n}" for n in (2, 4, 8, 16, 32, 64)}
    name = names.get(pair["type"])
    if name is None:
        # f8e4m3fn is float8_e4m3fn.
        bits, rest = pair["type"][1], pair["type"][2:]
        name = f"float{bits}_{rest}"
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    got = np.frombuffer(bytes(pair["got"]), dtype)
    expected = np.frombuffer(bytes(pair["expected"]), dtype)
    tolerance = public_test_util._default_tolerance[dtype]
    try:
        public_test_util._assert_numpy_allclose(got, expected, atol=tolerance, rtol=tolerance)
    except AssertionError:
        return False
    return True


def torch_verdict(pair):
    import torch

    names = {"pred": "bool", "f16": "float16", "f32": "float32", "f64": "float64"}
    names |= {"c64": "complex64", "c128": "complex128", "bf16": "bfloat16"}
    names |= {f"i{n}": f"int{n}" for n in (8, 16, 32, 64)}
    names |= {f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)}
    name = names.get(pair["type"], f"float8_{pair['type'][2:]}")
    dtype = getattr(torch, name)
    got = torch.frombuffer(bytearray(pair["got"]), dtype=dtype)
    expected = torch.frombuffer(bytearray(pair["expected"]), dtype=dtype)
    try:
        torch.testing.assert_close(got, expected)
    except AssertionError:
        return False
    except (NotImplementedError, RuntimeError):
        return None
    return True


def correlation_verdict(pair):
    import numpy as np

    got = np.array([float(x) for x in pair["got_values"]])
    expected = np.array([float(x) for x in pair["expected_values"]])
    if np.isnan(got).all() or np.isnan(expected).all():
        return bool(np.isnan(got).all() and np.isnan(expected).all())
    if got.astype(bool).any() != expected.astype(bool).any():
        return False
    got, expected = (np.where(np.isfinite(x), x, 0) for x in (got, expected))
    if (got == expected).all():
        return True
    # So that no square leaves the range.
    got, expected = (x / max(abs(x).max(), 1e-300) for x in (got, expected))
    with np.errstate(all="ignore"):
        correlation = np.corrcoef(expected, got)[0, 1]
    return bool(np.isnan(correlation) or correlation >= 0.99)


VERDICTS = {"jax": jax_verdict, "torch": torch_verdict, "correlation": correlation_verdict}

if __name__ == "__main__":
    verdict = VERDICTS[sys.argv[1]]
    json.dump([verdict(pair) for pair in json.load(sys.stdin)], sys.stdout)
