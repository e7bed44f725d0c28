"""What numbers do: the operators whose results depend on how numbers are represented and rounded.

`Arithmetic` is the interface that the evaluator computes through, `Extended` the oracle's own: integers exact, floats in 80-bit
extended precision (f64 in the processor's own f64, whose basic operations IEEE 754 rounds correctly) or mpmath, each result
rounded to its element type once. Another implementation can be put in its place; movement of data is none of its business.

Where StableHLO leaves a result to the implementation, this is what XLA's operation semantics say or do: integer division by zero
gives -1, its remainder the dividend; shifts past the width give zero or the sign; a float outside an integer type saturates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import special
from .element_types import (
    BOOL,
    Array,
    Complex,
    ElementType,
    Real,
    Tensor,
    complex_of,
    decode,
    encode,
    limits,
    round_to,
    wrap,
)


class UnsupportedError(Exception):
    """The arithmetic has no such operator; the message says which."""


class Arithmetic(ABC):
    """All operands of an elementwise operator have one shape and, but for `convert`, one element type."""

    overrides: Mapping[str, Any] = {}
    """Handlers of whole operations, by name, in place of the evaluator's."""

    def begin(self) -> None:  # noqa: B027
        """Before a program."""

    def end(self) -> None:  # noqa: B027
        """After a program; raises `UnsupportedError` where its result is none."""

    @abstractmethod
    def unary(self, name: str, x: Tensor) -> Tensor:
        """`name` without its dialect: `exponential`, `erf_inv`."""

    @abstractmethod
    def binary(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """`add`, `atan2`, `shift_left`, `mulhi`."""

    @abstractmethod
    def convert(self, x: Tensor, to: ElementType) -> Tensor:
        """StableHLO's `convert`."""

    @abstractmethod
    def sum(self, x: Tensor, axes: tuple[int, ...], initial: Tensor) -> Tensor:
        """The sum along the axes, which vanish, and of one initial value."""

    @abstractmethod
    def contract(self, left: Tensor, right: Tensor, result: ElementType) -> Tensor:
        """[batch, m, k] times [batch, k, n], in the result's element type."""


def compare(direction: str, x: Tensor, y: Tensor, total_order: bool = False) -> Tensor:
    """StableHLO's `compare`. By total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN; NaNs of one sign are equal."""
    left, right = x.array, y.array
    if x.type.kind == "complex":
        # Lexicographic, real parts first.
        part = x.type.part
        first = Tensor(left.real, part), Tensor(right.real, part)
        second = Tensor(left.imag, part), Tensor(right.imag, part)
        if direction in ("EQ", "NE"):
            equal = (left.real == right.real) & (left.imag == right.imag)
            return Tensor(equal if direction == "EQ" else ~equal, BOOL)
        strict = compare(direction[:1] + "T", *first).array
        return Tensor(strict | ((left.real == right.real) & compare(direction, *second).array), BOOL)
    if not (total_order and x.type.kind == "float"):
        return Tensor(_DIRECTIONS[direction](left, right), BOOL)
    less, equal = np.zeros(left.shape, dtype=bool), np.ones(left.shape, dtype=bool)
    for a, b in zip(_total_order(left), _total_order(right), strict=True):
        less |= equal & (a < b)
        equal &= a == b
    found = {"EQ": equal, "NE": ~equal, "LT": less, "LE": less | equal, "GT": ~(less | equal), "GE": ~less}
    return Tensor(found[direction], BOOL)


_DIRECTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _total_order(x: Array) -> tuple[Array, Array, Array]:
    """Keys whose lexicographic order is the total order: sign, NaN or not, value."""
    sign = np.where(np.signbit(x), -1, 1)
    nan = np.isnan(x)
    return sign, np.where(nan, sign, 0), np.where(nan, Real(0), x)


class Extended(Arithmetic):
    """The oracle's arithmetic."""

    def unary(self, name: str, x: Tensor) -> Tensor:
        kind = x.type.kind
        if name in ("is_finite", "is_inf", "is_pos_inf", "is_neg_inf"):
            return Tensor(_CLASSES[name](x.array), BOOL)
        if name == "real":
            return Tensor(np.asarray(x.array.real), x.type.part)
        if name == "imag":
            array = x.array.imag if kind == "complex" else np.zeros(x.shape, Real)
            return Tensor(np.asarray(array), x.type.part)
        if name == "abs" and kind == "complex":
            return Tensor(special.modulus(x.array, x.type), x.type.part)
        if name == "square":
            return self.binary("multiply", x, x)
        if kind == "bool":
            return x.like(_BOOLEAN_UNARY[name](x.array))
        if x.type.is_integer:
            return x.like(_integer_unary(name, x))
        with np.errstate(all="ignore"):
            return x.like(_float_unary(name, x) if kind == "float" else _complex_unary(name, x))

    def binary(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        kind = x.type.kind
        if name == "complex":
            return Tensor(complex_of(x.array, y.array), ElementType(f"complex<{x.type.name}>"))
        if kind == "bool":
            return x.like(_BOOLEAN_BINARY[name](x.array, y.array))
        if x.type.is_integer:
            return x.like(_integer_binary(name, x, y))
        with np.errstate(all="ignore"):
            return x.like(_float_binary(name, x, y) if kind == "float" else _complex_binary(name, x, y))

    def convert(self, x: Tensor, to: ElementType) -> Tensor:
        with np.errstate(all="ignore"):
            return Tensor(_convert(x, to), to)

    def sum(self, x: Tensor, axes: tuple[int, ...], initial: Tensor) -> Tensor:
        if x.type.kind == "bool":
            return x.like(np.logical_or(x.array.any(axis=axes), initial.array))
        if x.type.is_integer:
            total = x.array.astype(object).sum(axis=axes) + int(initial.array)
            return x.like(wrap(np.asarray(total, dtype=object), x.type))
        with np.errstate(all="ignore"):
            # Sums of no or of negative zeros keep the sign that adding them one by one gives.
            total = np.add.reduce(x.array, axis=axes, initial=initial.array[()])
            return x.like(round_to(np.asarray(total), x.type))

    def contract(self, left: Tensor, right: Tensor, result: ElementType) -> Tensor:
        if result.is_integer or result.kind == "bool":
            product = np.matmul(left.array.astype(object), right.array.astype(object))
            if left.shape[2] == 0:
                product = np.zeros((left.shape[0], left.shape[1], right.shape[2]), dtype=object)
            if result.kind == "bool":
                return Tensor(product.astype(bool), result)
            return Tensor(wrap(np.asarray(product, dtype=object), result), result)
        wide = Complex if result.kind == "complex" else Real
        with np.errstate(all="ignore"):
            if left.shape[2] == 1 and wide is Real:
                # One product is no sum: it keeps the sign of a zero.
                return Tensor(round_to(left.array.astype(wide) * right.array.astype(wide), result), result)
            product = np.matmul(left.array.astype(wide), right.array.astype(wide))
            return Tensor(round_to(product, result), result)


_CLASSES: dict[str, Callable[[Array], Array]] = {
    "is_finite": np.isfinite,
    "is_inf": np.isinf,
    "is_pos_inf": lambda x: x == np.inf,
    "is_neg_inf": lambda x: x == -np.inf,
}

_BOOLEAN_UNARY: dict[str, Callable[[Array], Array]] = {
    "not": np.logical_not,
    "abs": lambda x: x,
    "negate": lambda x: x,
    "sign": lambda x: x,
}

_BOOLEAN_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.logical_or,
    "or": np.logical_or,
    "maximum": np.logical_or,
    "multiply": np.logical_and,
    "and": np.logical_and,
    "minimum": np.logical_and,
    "xor": np.logical_xor,
}


def _integer_unary(name: str, x: Tensor) -> Array:
    bits, mask = x.type.bits, (1 << x.type.bits) - 1
    functions: dict[str, Callable[[int], int]] = {
        "abs": abs,
        "negate": lambda v: -v,
        "sign": lambda v: (v > 0) - (v < 0),
        "not": lambda v: ~v,
        "popcnt": lambda v: (v & mask).bit_count(),
        "count_leading_zeros": lambda v: bits - (v & mask).bit_length(),
    }
    if name not in functions:
        raise UnsupportedError(f"{name} of {x.type.name}")
    return _integers([functions[name](int(v)) for v in x.array.ravel()], x)


def _integers(values: list[int], like: Tensor) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return wrap(array, like.type).reshape(like.shape)


def _integer_binary(name: str, x: Tensor, y: Tensor) -> Array:
    bits, (lowest, _) = x.type.bits, limits(x.type)

    def divide(a: int, b: int) -> int:
        if b == 0:
            return -1
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    def power(a: int, b: int) -> int:
        if b >= 0:
            return pow(a, b, 1 << bits)
        return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)

    def shift(a: int, b: int, of: Callable[[int, int], int], past: int) -> int:
        return past if b < 0 or b >= bits else of(a, b)

    unsigned = (1 << bits) - 1
    functions: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "mulhi": lambda a, b: (a * b) >> bits,
        "divide": divide,
        "remainder": lambda a, b: a if b == 0 else a - b * divide(a, b),
        "power": power,
        "maximum": max,
        "minimum": min,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "shift_left": lambda a, b: shift(a, b, lambda u, v: u << v, 0),
        "shift_right_logical": lambda a, b: shift(a, b, lambda u, v: (u & unsigned) >> v, 0),
        "shift_right_arithmetic": lambda a, b: shift(
            a - (1 << bits) if lowest == 0 and a >> (bits - 1) else a,
            b,
            lambda u, v: u >> v,
            -(a >> (bits - 1) & 1),
        ),
    }
    if name not in functions:
        raise UnsupportedError(f"{name} of {x.type.name}")
    pairs = zip(x.array.ravel(), y.array.ravel(), strict=True)
    return _integers([functions[name](int(a), int(b)) for a, b in pairs], x)


_EXACT: dict[str, Callable[[Array], Array]] = {
    "negate": np.negative,
    "abs": np.abs,
    "sign": lambda x: np.where((x == 0) | np.isnan(x), x, np.sign(x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round_nearest_even": np.rint,
    # 53 bits and a half fit into 64.
    "round_nearest_afz": lambda x: np.copysign(np.floor(np.abs(x) + Real(0.5)), x),
    "conj": lambda x: x,
}


def _float_unary(name: str, x: Tensor) -> Array:
    if name in _EXACT:
        return round_to(_EXACT[name](x.array), x.type)
    if name in special.REAL:
        return special.real_unary(name, x.array, x.type)
    raise UnsupportedError(f"{name} of {x.type.name}")


def _maximum(a: Array, b: Array) -> Array:
    """IEEE 754-2019 maximum: a NaN if there is one, and -0 < +0."""
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, larger))


_BASIC: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "remainder": np.fmod,
    "maximum": _maximum,
    "minimum": lambda a, b: -_maximum(-a, -b),
}


def _float_binary(name: str, x: Tensor, y: Tensor) -> Array:
    if name in _BASIC:
        if x.type.name == "f64":
            # 80 bits rounded to 53 would round twice.
            return np.asarray(_BASIC[name](x.array.astype(np.float64), y.array.astype(np.float64)), dtype=Real)
        return round_to(_BASIC[name](x.array, y.array), x.type)
    if name == "next_after":
        return next_after(x, y)
    if name in special.BINARY:
        return special.real_binary(name, x.array, y.array, x.type)
    raise UnsupportedError(f"{name} of {x.type.name}")


def next_after(x: Tensor, y: Tensor) -> Array:
    """C's `nextafter` in the element type: one step in its encodings, which count up from zero on either side."""
    size = x.type.bytes
    sign = 1 << (x.type.bits - 1)
    codes = np.frombuffer(encode(x), dtype=f"<u{size}").astype(object).ravel()
    stepped: list[int | None] = []
    for code, a, b in zip(codes.tolist(), x.array.ravel(), y.array.ravel(), strict=True):
        if np.isnan(a) or np.isnan(b) or a == b:
            stepped.append(None)
        elif a == 0:
            stepped.append(1 | (sign if b < 0 else 0))
        else:
            stepped.append(code + (1 if (b > a) == (a > 0) else -1))
    data = b"".join((code or 0).to_bytes(size, "little") for code in stepped)
    moved = decode(data, (len(stepped),), x.type).array
    stays = np.array([code is None for code in stepped], dtype=bool)
    # Where x equals y the result is y; with a NaN it is a NaN.
    at_rest = np.where(np.isnan(x.array), x.array, y.array).ravel()
    return np.where(stays, at_rest, moved).reshape(x.shape)


def _complex_unary(name: str, x: Tensor) -> Array:
    simple: dict[str, Callable[[Array], Array]] = {"negate": np.negative, "conj": np.conj}
    if name in simple:
        return simple[name](x.array)
    if name in special.COMPLEX:
        return special.complex_unary(name, x.array, x.type)
    raise UnsupportedError(f"{name} of {x.type.name}")


def _complex_multiply(a: Array, b: Array) -> Array:
    """By parts, without the recovery of infinities that C's annex G has and XLA has not."""
    return complex_of(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def _complex_binary(name: str, x: Tensor, y: Tensor) -> Array:
    if name in special.COMPLEX_BINARY:
        return special.complex_binary(name, x.array, y.array, x.type)
    if name in ("maximum", "minimum"):
        first = compare("GE" if name == "maximum" else "LE", x, y).array
        return np.where(first, x.array, y.array)
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "add": lambda a, b: complex_of(a.real + b.real, a.imag + b.imag),
        "subtract": lambda a, b: complex_of(a.real - b.real, a.imag - b.imag),
        "multiply": _complex_multiply,
        "divide": np.divide,
    }
    if name not in functions:
        raise UnsupportedError(f"{name} of {x.type.name}")
    return round_to(functions[name](x.array, y.array), x.type)


def _convert(x: Tensor, to: ElementType) -> Array:
    source, values = x.type, x.array
    if source.kind == "complex" and to.kind != "complex":
        if to.kind == "bool":
            return values != 0
        source, values = source.part, np.asarray(values.real)
    if to.kind == "bool":
        return values != 0
    if to.kind == "complex":
        parts = values if source.kind == "complex" else complex_of(values.astype(Real), np.zeros(values.shape, Real))
        return round_to(parts, to)
    if to.kind == "float":
        # Every integer of 64 bits is an 80-bit value.
        return round_to(values.astype(Real), to)
    if source.kind == "float":
        low, high = limits(to)
        whole = [0 if np.isnan(v) else low if v <= low else high if v >= high else int(v) for v in values.ravel()]
        return np.array(whole, dtype=to.dtype).reshape(values.shape)
    return wrap(values.astype(object), to)
