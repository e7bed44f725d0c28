"""What a rounding costs: unit roundoffs, passes of the matrix unit, and units in the last place, on CPU and on a TPU."""

import dataclasses
import pathlib
import tomllib

import numpy as np

SUITES = pathlib.Path(__file__).resolve().parents[2] / "suites/stablehlo"


@dataclasses.dataclass(frozen=True)
class Machine:
    """Where a program runs, as far as its roundings go."""

    name: str
    # One MXU pass rounds f32 and f16 operands of dot and convolution to bf16, unless the program asks for more precision.
    bf16_passes: bool
    # The relative error of a correctly rounded f64 operation, or of the operation that stands for it.
    f64_roundoff: float
    # The relative error of an f64 value as it is held.
    f64_held: float
    # Absolute: what is lost where a subnormal is flushed.
    f32_floor: float
    # Units in the last place that division and square root may be off, beyond correct rounding.
    division_ulps: float


CPU = Machine("cpu", False, 2.0**-53, 0.0, 2.0**-149, 0.0)
# A TPU has no f64: it computes with pairs of f32, whose addition, multiplication and division err by at most 3, 5 and 15 units of
# 2^-48 (Joldes, Muller and Popescu, "Tight and Rigorous Error Bounds for Basic Building Blocks of Double-Word Arithmetic", 2017):
# the largest is taken for all. A pair holds 49 digits (XLA, xla/ef57.h). The low part is an f32, so it is flushed where f32 is. f32 division and square root are a
# reciprocal or its root, refined: faithful, that is one more unit in the last place than correctly rounded.
TPU = Machine("tpu", True, 15 * 2.0**-48, 2.0**-49, 2.0**-126, 1.0)


def _ulps():
    """Units in the last place by StableHLO operator and element type, from the one table: the suites' tolerances, each with its source."""
    table = {}
    for name in ("elementwise_unary", "elementwise_binary", "chlo"):
        for op in tomllib.loads((SUITES / f"{name}.toml").read_text())["op"]:
            tolerance = op.get("tolerance")
            if isinstance(tolerance, dict) and isinstance(tolerance.get("ulp"), dict):
                table.setdefault(op["name"], tolerance["ulp"])
    return table


ULPS = _ulps()
# JAX's name of a primitive: the operator that it lowers to. All are monotone where the checks use them.
MONOTONE = {
    "exp": "exponential",
    "exp2": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "logistic": "logistic",
    "cbrt": "cbrt",
    "rsqrt": "rsqrt",
    "sqrt": None,
    "tan": "tan",
    "tanh": "tanh",
    "asin": "chlo.asin",
    "acos": "chlo.acos",
    "atan": "chlo.atan",
    "asinh": "chlo.asinh",
    "acosh": "chlo.acosh",
    "atanh": "chlo.atanh",
    "sinh": "exponential_minus_one",
    "cosh": "exponential",
    "erf": "chlo.erf",
    "erfc": "chlo.erfc",
    "erf_inv": "chlo.erf_inv",
    "lgamma": "chlo.lgamma",
    "digamma": "chlo.digamma",
}
# Sinh and cosh are sums of two exponentials: their error, and two roundings.
EXTRA_ULPS = {"sinh": 6, "cosh": 6, "exp2": 3}
# Lipschitz with constant 1.
LIPSCHITZ = {"sin": "sine", "cos": "cosine"}


def roundoff(dtype, machine):
    """The unit roundoff of a float or complex type."""
    name = np.dtype(dtype).name
    return {
        "float64": machine.f64_roundoff,
        "complex128": machine.f64_roundoff,
        "float32": 2.0**-24,
        "complex64": 2.0**-24,
        "bfloat16": 2.0**-8,
        "float16": 2.0**-11,
    }[name]


def gamma(n, u):
    """n roundings, compounded (Higham, lemma 3.1)."""
    return n * u / (1 - n * u)


def passes(precision, dtype):
    """Passes of the matrix unit and the relative error that they leave in a product of values of this type, with v = 2^-8, bf16's
    unit roundoff, and pieces as the TPU compiler's low-level code cuts them (the derivation stands in src/compare/bound.rs): one pass
    rounds both operands; three leave out 8v² + 9v³; six 8v³ + 4v⁴. Two pieces hold an f16, so there are never more than three."""
    v = 2.0**-8
    name = str(precision[0] if isinstance(precision, tuple) else precision).rsplit(".", 1)[-1].upper()
    if name == "HIGHEST" and dtype == np.float16:
        name = "HIGH"
    return {
        "NONE": (1, 2 * v + v * v),
        "DEFAULT": (1, 2 * v + v * v),
        "HIGH": (3, 8 * v**2 + 9 * v**3),
        "HIGHEST": (6, 8 * v**3 + 4 * v**4),
    }[name]
