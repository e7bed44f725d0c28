"""Element types: what a value of each is, how it lies in a buffer, and correct rounding to it.

In memory a float tensor is an array of `longdouble` (80-bit extended) whose elements are values of the type, a complex one
`clongdouble`, an integer one `int64` or `uint64`, a boolean one `bool`. Sub-byte elements lie in a byte each, as in the buffers
that the worker is given; signed ones are sign-extended there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Real = np.longdouble
Complex = np.clongdouble


@dataclass(frozen=True)
class FloatFormat:
    """A binary float format; the fields mean what they mean in IEEE 754-2019, section 3.3.

    `specials` is how encodings are spent on what is no ordinary number: "ieee"; "fn" (no infinities, NaN is all ones); "finite"
    (neither); "fnuz" (no infinities, no -0, whose encoding is the NaN); "scale" (powers of two alone, NaN is all ones).
    Sources: IEEE 754; arXiv 2209.05433; arXiv 2206.02915 (fnuz); OCP Microscaling Formats 1.0.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: str

    @property
    def width(self) -> int:
        return self.exponent_bits + self.mantissa_bits + (self.specials != "scale")

    @property
    def max_code(self) -> int:
        ones = (1 << (self.exponent_bits + self.mantissa_bits)) - 1
        if self.specials == "ieee":
            return ones - (1 << self.mantissa_bits)
        return ones if self.specials in ("finite", "fnuz") else ones - 1

    @property
    def min_exponent(self) -> int:
        return -self.bias if self.specials == "scale" else 1 - self.bias

    @property
    def max_exponent(self) -> int:
        return (self.max_code >> self.mantissa_bits) - self.bias

    @property
    def max_finite(self) -> np.longdouble:
        return self.decode(self.max_code)

    def decode(self, code: int) -> np.longdouble:
        """The value of an encoding."""
        magnitude_bits = self.exponent_bits + self.mantissa_bits
        magnitude = code & ((1 << magnitude_bits) - 1)
        negative = bool(self.specials != "scale" and code >> magnitude_bits)
        if self.specials == "fnuz" and negative and magnitude == 0:
            return Real(np.nan)
        if magnitude > self.max_code:
            if self.specials == "ieee" and magnitude == self.max_code + 1:
                return Real(-np.inf if negative else np.inf)
            return Real(np.nan)
        field, mantissa = magnitude >> self.mantissa_bits, magnitude & ((1 << self.mantissa_bits) - 1)
        if self.specials == "scale":
            value = np.ldexp(Real(1), field - self.bias)
        elif field == 0:
            value = np.ldexp(Real(mantissa), self.min_exponent - self.mantissa_bits)
        else:
            value = np.ldexp(Real(mantissa + (1 << self.mantissa_bits)), field - self.bias - self.mantissa_bits)
        return -value if negative else value


FORMATS = {
    "f4E2M1FN": FloatFormat(2, 1, 1, "finite"),
    "f6E2M3FN": FloatFormat(2, 3, 1, "finite"),
    "f6E3M2FN": FloatFormat(3, 2, 3, "finite"),
    "f8E3M4": FloatFormat(3, 4, 3, "ieee"),
    "f8E4M3": FloatFormat(4, 3, 7, "ieee"),
    "f8E4M3FN": FloatFormat(4, 3, 7, "fn"),
    "f8E4M3FNUZ": FloatFormat(4, 3, 8, "fnuz"),
    "f8E4M3B11FNUZ": FloatFormat(4, 3, 11, "fnuz"),
    "f8E5M2": FloatFormat(5, 2, 15, "ieee"),
    "f8E5M2FNUZ": FloatFormat(5, 2, 16, "fnuz"),
    "f8E8M0FNU": FloatFormat(8, 0, 127, "scale"),
    "bf16": FloatFormat(8, 7, 127, "ieee"),
    "f16": FloatFormat(5, 10, 15, "ieee"),
    "f32": FloatFormat(8, 23, 127, "ieee"),
    "f64": FloatFormat(11, 52, 1023, "ieee"),
}


@dataclass(frozen=True)
class ElementType:
    """An element type, by its MLIR name: `i1`, `i8`, `ui8`, `bf16`, `complex<f32>`."""

    name: str

    @property
    def kind(self) -> str:
        """`bool`, `int`, `uint`, `float` or `complex`."""
        if self.name == "i1":
            return "bool"
        if self.name.startswith("complex<"):
            return "complex"
        if self.name in FORMATS:
            return "float"
        return "uint" if self.name.startswith("ui") else "int"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def bits(self) -> int:
        """As StableHLO counts them; a boolean takes 8 in a buffer."""
        if self.kind == "bool":
            return 8
        if self.kind == "float":
            return self.format.width
        if self.kind == "complex":
            return 2 * self.part.bits
        return int(self.name.lstrip("ui"))

    @property
    def bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def part(self) -> ElementType:
        """Of a complex type, the type of its parts; any other type itself."""
        return ElementType(self.name[8:-1]) if self.kind == "complex" else self

    @property
    def format(self) -> FloatFormat:
        return FORMATS[self.part.name]

    @property
    def dtype(self) -> Any:
        """Of the array that holds values in memory."""
        return {"bool": np.bool_, "int": np.int64, "uint": np.uint64, "float": Real, "complex": Complex}[self.kind]


@dataclass
class Tensor:
    """Values of an element type. `bits` is the buffer that they came from, for `bitcast_convert` of a NaN."""

    array: Array
    type: ElementType
    bits: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def like(self, array: Array) -> Tensor:
        return Tensor(array, self.type)


BOOL, I32, I64, U32 = ElementType("i1"), ElementType("i32"), ElementType("i64"), ElementType("ui32")


def tensor(values: Any, element_type: ElementType) -> Tensor:
    """From numbers that the type holds."""
    return Tensor(np.asarray(values, dtype=element_type.dtype), element_type)


@cache
def _values_of(format_: FloatFormat) -> Array:
    return np.array([format_.decode(code) for code in range(1 << format_.width)], dtype=Real)


def _storage(element_type: ElementType) -> Any:
    return np.dtype(f"<u{element_type.part.bytes}")


def _decode_floats(codes: Array, element_type: ElementType) -> Array:
    name = element_type.part.name
    if name in ("f64", "f32", "f16"):
        return codes.view(f"<f{codes.dtype.itemsize}").astype(Real)
    if name == "bf16":
        return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(Real)
    return _values_of(element_type.format)[codes & ((1 << element_type.format.width) - 1)]


def _encode_floats(values: Array, element_type: ElementType) -> Array:
    """The encodings of values of the type (round first)."""
    name = element_type.part.name
    if name in ("f64", "f32", "f16"):
        size = element_type.part.bytes
        return np.ascontiguousarray(values.astype(f"<f{size}")).view(f"<u{size}")
    if name == "bf16":
        codes = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
        return (codes >> np.uint32(16)).astype(np.uint16)
    table = _values_of(element_type.format)
    codes = np.zeros(values.shape, dtype=np.uint8)
    nans = np.flatnonzero(np.isnan(table))
    for code in range(len(table) - 1, -1, -1):
        value = table[code]
        if not np.isnan(value):
            codes[(values == value) & (np.signbit(values) == np.signbit(value))] = code
    if len(nans):
        codes[np.isnan(values)] = nans[0]
    return codes


def decode(data: bytes, shape: tuple[int, ...], element_type: ElementType) -> Tensor:
    """The tensor in a little-endian buffer."""
    kind = element_type.kind
    codes = np.frombuffer(data, dtype=_storage(element_type))
    if kind == "complex":
        parts = _decode_floats(codes, element_type)
        return Tensor(complex_of(parts[0::2], parts[1::2]).reshape(shape), element_type, codes)
    codes = codes.reshape(shape)
    if kind == "float":
        return Tensor(np.asarray(_decode_floats(codes, element_type), dtype=Real).reshape(shape), element_type, codes)
    if kind == "bool":
        return Tensor(codes != 0, element_type, codes)
    return Tensor(wrap(codes.astype(object), element_type), element_type, codes)


def complex_of(real: Array, imaginary: Array) -> Array:
    """Without the arithmetic of `a + bj`, which would lose signs of zero and make NaN of infinities."""
    out = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), dtype=Complex)
    out.real, out.imag = real, imaginary
    return out


def encode(value: Tensor) -> bytes:
    """The little-endian buffer of a tensor."""
    element_type, array = value.type, value.array
    if element_type.kind == "complex":
        parts = np.stack([array.real.ravel(), array.imag.ravel()], axis=1)
        return _encode_floats(parts, element_type).tobytes()
    if element_type.kind == "float":
        return _encode_floats(np.ascontiguousarray(array), element_type).tobytes()
    if element_type.kind == "bool":
        return array.astype(np.uint8).tobytes()
    sign = "i" if element_type.kind == "int" else "u"
    return array.astype(f"<{sign}{element_type.bytes}").tobytes()


def wrap(values: Array, element_type: ElementType) -> Array:
    """Python integers of any size, modulo the width of the type."""
    bits = element_type.bits
    flat = [int(v) & ((1 << bits) - 1) for v in values.ravel()]
    if element_type.kind == "int":
        flat = [v - (1 << bits) if v >> (bits - 1) else v for v in flat]
    return np.array(flat, dtype=element_type.dtype).reshape(values.shape)


def limits(element_type: ElementType) -> tuple[int, int]:
    """Smallest and largest integer of the type."""
    bits = element_type.bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if element_type.kind == "int" else (0, (1 << bits) - 1)


def round_to(values: Array, element_type: ElementType) -> Array:
    """To nearest, ties to even, once, of 80-bit values; overflow as the format says (IEEE: infinity)."""
    if element_type.kind == "complex":
        part = element_type.part
        return complex_of(round_to(values.real, part), round_to(values.imag, part))
    values = np.asarray(values, dtype=Real)
    with np.errstate(all="ignore"):
        if element_type.name in ("f64", "f32"):
            return values.astype(np.float64 if element_type.name == "f64" else np.float32).astype(Real)
        return _round_generic(values, element_type.format)


def _round_generic(values: Array, format_: FloatFormat) -> Array:
    if format_.specials == "scale":
        raise NotImplementedError("rounding to a format of powers of two")
    _, exponent = np.frexp(values)
    quantum = np.maximum(exponent - 1, format_.min_exponent) - format_.mantissa_bits
    rounded = np.ldexp(np.rint(np.ldexp(values, -quantum)), quantum)
    rounded = np.where(np.isfinite(values), rounded, values)
    over = np.abs(rounded) > format_.max_finite
    instead = {"ieee": Real(np.inf), "finite": format_.max_finite}.get(format_.specials, Real(np.nan))
    rounded = np.where(over, np.copysign(instead, values), rounded)
    if format_.specials == "finite":
        rounded = np.where(np.isnan(values), Real(-0.0), rounded)
    if format_.specials == "fnuz":
        rounded = np.where(rounded == 0, Real(0), rounded)
    return np.asarray(rounded, dtype=Real)


def reduce_precision(values: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """StableHLO's `reduce_precision`: what underflows the normal numbers of the format is zero of its sign."""
    format_ = FloatFormat(exponent_bits, mantissa_bits, (1 << (exponent_bits - 1)) - 1, "ieee")
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(values)
        quantum = exponent - 1 - mantissa_bits
        rounded = np.ldexp(np.rint(np.ldexp(values, -quantum)), quantum)
        rounded = np.where(np.isfinite(values), rounded, values)
        largest = np.ldexp(Real(2) - np.ldexp(Real(1), -mantissa_bits), format_.bias)
        rounded = np.where(np.abs(rounded) > largest, np.copysign(Real(np.inf), values), rounded)
        small = np.abs(rounded) < np.ldexp(Real(1), 1 - format_.bias)
        return np.asarray(np.where(small, np.copysign(Real(0), values), rounded), dtype=Real)


_TENSOR = re.compile(r"^tensor<((?:\d+x)*)(.+)>$")


def parse_tensor_type(text: str) -> tuple[tuple[int, ...], ElementType]:
    """Shape and element type of `tensor<2x3xf32>`."""
    match = _TENSOR.match(text)
    if match is None:
        raise NotImplementedError(f"values of type {text}")
    element = match[2]
    if element.partition("<")[0] not in ("complex",) and not re.fullmatch(r"u?i\d+|bf16|f\d\w*", element):
        raise NotImplementedError(f"elements of type {element}")
    return tuple(int(size) for size in match[1].split("x") if size), ElementType(element)
