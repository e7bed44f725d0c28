"""Transcendental and special functions of real and complex numbers, from mpmath at 200 bits, rounded once.

mpmath knows neither signed zeros nor every infinity, so that what IEEE 754-2019 (section 9.2) and C's annexes F and G say of
those stands in a table here, or is taken from the C library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath import mp, mpc, mpf

from .element_types import Array, Complex, ElementType, FloatFormat, Real, complex_of

PRECISION = 200
NAN, INF = math.nan, math.inf


def round_mpf(value: mpf, format_: FloatFormat) -> float:
    """To nearest in the format, ties to even; IEEE overflow. Formats up to f64."""
    sign, mantissa, exponent, bits = value._mpf_
    if mantissa == 0:
        if exponent == 0:
            return 0.0
        return NAN if mpmath.isnan(value) else (INF if value > 0 else -INF)
    quantum = max(exponent + bits - 1, format_.min_exponent) - format_.mantissa_bits
    if exponent + bits - 1 > format_.max_exponent + 1:
        return -INF if sign else INF
    if exponent + bits < quantum - 1:
        return -0.0 if sign else 0.0
    shift = quantum - exponent
    if shift <= 0:
        kept = mantissa << -shift
    else:
        kept, dropped, half = mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1)
        kept += dropped > half or (dropped == half and kept & 1)
    if kept << max(quantum, 0) > int(format_.max_finite):
        return -INF if sign else INF
    result = math.ldexp(float(kept), quantum)
    return -result if sign else result


@dataclass(frozen=True)
class RealFunction:
    """`of` serves finite arguments in `domain` other than zero; outside it the result is NaN."""

    of: Callable[[mpf], mpf]
    zero: float
    """At +0."""
    infinity: float
    minus_infinity: float
    odd: bool = False
    """An odd function is -0 at -0; any other is at -0 what it is at +0, unless `minus_zero` says otherwise."""
    domain: Callable[[float], bool] = lambda x: True
    minus_zero: float | None = None
    at: dict[float, float] | None = None
    """Poles and ends of the domain."""

    def __call__(self, x: float, format_: FloatFormat) -> float:
        if math.isnan(x):
            return NAN
        if x == 0:
            if math.copysign(1, x) > 0:
                return self.zero
            if self.minus_zero is not None:
                return self.minus_zero
            return -self.zero if self.odd else self.zero
        if math.isinf(x):
            return self.infinity if x > 0 else self.minus_infinity
        if self.at is not None and x in self.at:
            return self.at[x]
        if not self.domain(x):
            return NAN
        return round_mpf(self.of(mpf(x)), format_)


def _tiny_safe(of: Callable[[mpf], mpf], second: float) -> Callable[[mpf], mpf]:
    """`of` with derivative 1 at 0, by x + second * x^2 where x^3 is beyond 200 bits."""
    return lambda x: x + mpf(second) * x * x if abs(x) < mpf(2) ** -110 else of(x)


def _logistic(x: mpf) -> mpf:
    return 1 / (1 + mp.exp(-x))


def _erfc(x: mpf) -> mpf:
    # Below the smallest subnormal from 28 on.
    return mpf(2) ** -2000 if x > 40 else mp.erfc(x)


def _erf(x: mpf) -> mpf:
    return mp.sign(x) * (1 - mpf(2) ** -400) if abs(x) > 40 else mp.erf(x)


def _bessel_i1e(x: mpf) -> mpf:
    return mp.besseli(1, x) * mp.exp(-abs(x))


def _cbrt(x: mpf) -> mpf:
    return mp.sign(x) * mp.cbrt(abs(x))


def _lgamma(x: mpf) -> mpf:
    return mp.re(mp.loggamma(x))


def _is_pole(x: float) -> bool:
    return x <= 0 and x == math.floor(x)


REAL: dict[str, RealFunction] = {
    "exponential": RealFunction(mp.exp, 1.0, INF, 0.0),
    "exponential_minus_one": RealFunction(_tiny_safe(mp.expm1, 0.5), 0.0, INF, -1.0, odd=True),
    "log": RealFunction(mp.log, -INF, INF, NAN, domain=lambda x: x > 0),
    "log_plus_one": RealFunction(_tiny_safe(mp.log1p, -0.5), 0.0, INF, NAN, odd=True, domain=lambda x: x > -1, at={-1.0: -INF}),
    "logistic": RealFunction(_logistic, 0.5, 1.0, 0.0),
    "sine": RealFunction(_tiny_safe(mp.sin, 0), 0.0, NAN, NAN, odd=True),
    "cosine": RealFunction(mp.cos, 1.0, NAN, NAN),
    "tan": RealFunction(_tiny_safe(mp.tan, 0), 0.0, NAN, NAN, odd=True),
    "tanh": RealFunction(_tiny_safe(mp.tanh, 0), 0.0, 1.0, -1.0, odd=True),
    "sqrt": RealFunction(mp.sqrt, 0.0, INF, NAN, odd=True, domain=lambda x: x > 0),
    "rsqrt": RealFunction(lambda x: 1 / mp.sqrt(x), INF, 0.0, NAN, odd=True, domain=lambda x: x > 0),
    "cbrt": RealFunction(_cbrt, 0.0, INF, -INF, odd=True),
    "acos": RealFunction(mp.acos, float(mp.pi / 2), NAN, NAN, domain=lambda x: abs(x) <= 1),
    "acosh": RealFunction(mp.acosh, NAN, INF, NAN, domain=lambda x: x >= 1),
    "asin": RealFunction(_tiny_safe(mp.asin, 0), 0.0, NAN, NAN, odd=True, domain=lambda x: abs(x) <= 1),
    "asinh": RealFunction(_tiny_safe(mp.asinh, 0), 0.0, INF, -INF, odd=True),
    "atan": RealFunction(_tiny_safe(mp.atan, 0), 0.0, float(mp.pi / 2), -float(mp.pi / 2), odd=True),
    "atanh": RealFunction(
        _tiny_safe(mp.atanh, 0), 0.0, NAN, NAN, odd=True, domain=lambda x: abs(x) < 1, at={1.0: INF, -1.0: -INF}
    ),
    "cosh": RealFunction(mp.cosh, 1.0, INF, INF),
    "sinh": RealFunction(_tiny_safe(mp.sinh, 0), 0.0, INF, -INF, odd=True),
    "erf": RealFunction(_erf, 0.0, 1.0, -1.0, odd=True),
    "erfc": RealFunction(_erfc, 1.0, 0.0, 2.0),
    "erf_inv": RealFunction(mp.erfinv, 0.0, NAN, NAN, odd=True, domain=lambda x: abs(x) < 1, at={1.0: INF, -1.0: -INF}),
    "lgamma": RealFunction(lambda x: mpf(INF) if _is_pole(float(x)) else _lgamma(x), INF, INF, INF, at={1.0: 0.0, 2.0: 0.0}),
    "digamma": RealFunction(mp.digamma, -INF, INF, NAN, domain=lambda x: not _is_pole(x), minus_zero=INF),
    "bessel_i1e": RealFunction(_bessel_i1e, 0.0, 0.0, -0.0, odd=True),
}


def real_unary(name: str, values: Array, element_type: ElementType) -> Array:
    """Element by element, rounded to the element type."""
    function, format_ = REAL[name], element_type.format
    with mp.workprec(PRECISION):
        out = [_narrow(function(float(x), format_), format_) for x in values.ravel()]
    return np.array(out, dtype=Real).reshape(values.shape)


def _narrow(x: float, format_: FloatFormat) -> float:
    """A value of the tables (pi/2) in a narrower format."""
    return round_mpf(mpf(x), format_) if x != 0 and math.isfinite(x) else x


def _atan2(y: float, x: float, format_: FloatFormat) -> float:
    if y == 0 or x == 0 or not (math.isfinite(x) and math.isfinite(y)):
        return _narrow(math.atan2(y, x), format_)
    return round_mpf(mp.atan2(mpf(y), mpf(x)), format_)


def _power(x: float, y: float, format_: FloatFormat) -> float:
    if x == 0 or y == 0 or x == 1 or not (math.isfinite(x) and math.isfinite(y)):
        return _power_of_special(x, y)
    whole = y == math.floor(y)
    if x < 0 and not whole:
        return NAN
    magnitude = mp.exp(mpf(y) * mp.log(abs(mpf(x)))) if not whole or abs(y) > 64 else abs(mpf(x)) ** int(y)
    return round_mpf(-magnitude if x < 0 and math.fmod(y, 2) != 0 else magnitude, format_)


def _power_of_special(x: float, y: float) -> float:
    """C's annex F.10.4.4, of which Python makes an exception where it is a division by zero."""
    try:
        return math.pow(x, y)
    except ValueError:
        odd = math.isfinite(y) and math.fmod(y, 2) != 0 and y == math.floor(y)
        return math.copysign(INF, x) if odd else INF


def _zeta(x: float, q: float, format_: FloatFormat) -> float:
    """Hurwitz's zeta: infinite at x = 1, NaN for x < 1. At the poles of q it is infinite where both sides are (x even)."""
    if math.isnan(x) or math.isnan(q):
        return NAN
    if x == 1:
        return INF
    if x < 1:
        return NAN
    if q <= 0:
        # A power of a negative number, which a real result has for whole exponents alone.
        if q == math.floor(q):
            return INF if x == math.floor(x) and math.fmod(x, 2) == 0 else NAN
        return NAN if x != math.floor(x) else round_mpf(_negative_zeta(x, q), format_)
    return round_mpf(mp.zeta(mpf(x), mpf(q)), format_)


def _negative_zeta(x: float, q: float) -> mpf:
    """The terms below zero, one by one, and the rest."""
    steps = math.ceil(-q)
    below = sum((1 / (mpf(q) + k) ** int(x) for k in range(steps)), mpf(0))
    return below + mp.zeta(mpf(x), mpf(q) + steps)


def _polygamma(n: float, x: float, format_: FloatFormat) -> float:
    if math.isnan(n) or math.isnan(x) or n < 0 or n != math.floor(n):
        return NAN
    if n == 0:
        return REAL["digamma"](x, format_)
    if x <= 0:
        return (NAN if int(n) % 2 == 0 else INF) if x == math.floor(x) else _polygamma_finite(n, x, format_)
    return _polygamma_finite(n, x, format_)


def _polygamma_finite(n: float, x: float, format_: FloatFormat) -> float:
    return round_mpf(mp.polygamma(int(n), mpf(x)), format_)


BINARY: dict[str, Callable[[float, float, FloatFormat], float]] = {
    "atan2": _atan2,
    "power": _power,
    "zeta": _zeta,
    "polygamma": _polygamma,
}


def real_binary(name: str, left: Array, right: Array, element_type: ElementType) -> Array:
    """Element by element, rounded to the element type; the operands have one shape."""
    function, format_ = BINARY[name], element_type.format
    with mp.workprec(PRECISION):
        out = [function(float(x), float(y), format_) for x, y in zip(left.ravel(), right.ravel(), strict=True)]
    return np.array(out, dtype=Real).reshape(left.shape)


def _reciprocal_root(z: mpc) -> mpc:
    return 1 / mp.sqrt(z)


def _complex_tiny(of: Callable[[mpc], mpc], second: float) -> Callable[[mpc], mpc]:
    return lambda z: z + mpf(second) * z * z if abs(z) < mpf(2) ** -110 else of(z)


COMPLEX: dict[str, Callable[[mpc], mpc]] = {
    "exponential": mp.exp,
    "exponential_minus_one": _complex_tiny(lambda z: mp.exp(z) - 1, 0.5),
    "log": mp.log,
    "log_plus_one": _complex_tiny(lambda z: mp.log(1 + z), -0.5),
    "logistic": _logistic,
    "sine": mp.sin,
    "cosine": mp.cos,
    "tan": mp.tan,
    "tanh": mp.tanh,
    "sqrt": mp.sqrt,
    "rsqrt": _reciprocal_root,
    "acos": mp.acos,
    "acosh": mp.acosh,
    "asin": mp.asin,
    "asinh": mp.asinh,
    "atan": mp.atan,
    "atanh": mp.atanh,
    "cosh": mp.cosh,
    "sinh": mp.sinh,
    "sign": lambda z: z / abs(z),
    "cbrt": lambda z: mp.exp(mp.log(z) / 3),
}

C_LIBRARY: dict[str, Callable[[Array], Array]] = {
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "sinh": np.sinh,
    "sign": lambda z: np.where(z == 0, z, z / np.abs(z)),
    "cbrt": lambda z: np.where(z == 0, z, np.exp(np.log(z) / 3)),
}


def complex_unary(name: str, values: Array, element_type: ElementType) -> Array:
    """Each part rounded once; of a number with a part that is zero or not finite, annex G's result, from the C library."""
    format_ = element_type.format
    flat = values.ravel()
    real, imaginary = np.empty(flat.shape, Real), np.empty(flat.shape, Real)
    with mp.workprec(PRECISION), np.errstate(all="ignore"):
        for i, z in enumerate(flat):
            x, y = float(z.real), float(z.imag)
            if x == 0 or y == 0 or not (math.isfinite(x) and math.isfinite(y)):
                special = C_LIBRARY[name](np.asarray(z, dtype=Complex))
                real[i], imaginary[i] = special.real, special.imag
            else:
                w = mpc(COMPLEX[name](mpc(x, y)))
                real[i], imaginary[i] = round_mpf(w.real, format_), round_mpf(w.imag, format_)
    return complex_of(real, imaginary).reshape(values.shape)


def _complex_power(x: mpc, y: mpc) -> mpc:
    """exp(y log x); 1 at exponent 0, 0 at base 0 with an exponent of positive real part."""
    if y == 0:
        return mpc(1)
    if x == 0:
        return mpc(0) if y.real > 0 else mpc(NAN, NAN)
    return mp.exp(y * mp.log(x))


def _complex_atan2(y: mpc, x: mpc) -> mpc:
    """-i log((x + iy) / sqrt(x^2 + y^2)), which continues the real one."""
    return mpc(0, -1) * mp.log((x + mpc(0, 1) * y) / mp.sqrt(x * x + y * y))


COMPLEX_BINARY: dict[str, Callable[[mpc, mpc], mpc]] = {"power": _complex_power, "atan2": _complex_atan2}


def complex_binary(name: str, left: Array, right: Array, element_type: ElementType) -> Array:
    """Each part rounded once; the operands have one shape and are finite."""
    format_ = element_type.format
    real, imaginary = np.empty(left.size, Real), np.empty(left.size, Real)
    with mp.workprec(PRECISION):
        for i, (x, y) in enumerate(zip(left.ravel(), right.ravel(), strict=True)):
            of_parts = mpc(float(x.real), float(x.imag)), mpc(float(y.real), float(y.imag))
            w = mpc(COMPLEX_BINARY[name](*of_parts))
            real[i], imaginary[i] = round_mpf(w.real, format_), round_mpf(w.imag, format_)
    return complex_of(real, imaginary).reshape(left.shape)


def modulus(values: Array, element_type: ElementType) -> Array:
    """|z|, rounded once; infinite where a part is, whatever the other (annex G)."""
    format_ = element_type.format
    out = []
    with mp.workprec(PRECISION):
        for z in values.ravel():
            x, y = float(z.real), float(z.imag)
            if math.isfinite(x) and math.isfinite(y):
                out.append(round_mpf(mp.sqrt(mpf(x) ** 2 + mpf(y) ** 2), format_))
            else:
                out.append(math.hypot(x, y))
    return np.array(out, dtype=Real).reshape(values.shape)
