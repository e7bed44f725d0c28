"""Reads a program's text with jaxlib's MLIR bindings, and gives its operations and attributes as plain Python values.

The bindings parse and verify; nothing of jaxlib computes here. Types that they do not know (quantized ones) and attributes newer
than they are make a program unreadable, which is an answer of its own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from .element_types import ElementType, Real, Tensor, complex_of, decode, parse_tensor_type, round_to


class UnreadableError(Exception):
    """The bindings refuse the program."""


@cache
def _context() -> ir.Context:
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    return context


# Newer than jaxlib 0.10.2. What it asks for less than a stable order, a stable order is too.
_UNSTABLE_TOP_K = re.compile(r"(chlo\.top_k\([^)]*), is_stable = false\)")


class Program:
    """A module whose public function is `main`."""

    def __init__(self, text: str) -> None:
        try:
            self._module = ir.Module.parse(_UNSTABLE_TOP_K.sub(r"\1)", text), context=_context())
        except ir.MLIRError as error:
            raise UnreadableError(" ".join(str(error).split())) from None
        self.functions = {str(op.attributes["sym_name"].value): op for op in self._module.body.operations}

    def body(self, name: str) -> ir.Block:
        """The one block of a function."""
        return self.functions[name].regions[0].blocks[0]


class Operation:
    """An operation with its attributes by name."""

    def __init__(self, op: Any) -> None:
        self._op = op.operation

    @property
    def name(self) -> str:
        return str(self._op.name)

    @property
    def operands(self) -> list[Any]:
        return list(self._op.operands)

    @property
    def results(self) -> list[Any]:
        return list(self._op.results)

    @property
    def regions(self) -> list[ir.Block]:
        return [region.blocks[0] for region in self._op.regions]

    def result_type(self, index: int = 0) -> tuple[tuple[int, ...], ElementType]:
        """Shape and element type of a result."""
        return parse_tensor_type(str(self._op.results[index].type))

    def has(self, name: str) -> bool:
        return name in self._op.attributes

    def attribute(self, name: str) -> Any:
        return self._op.attributes[name]

    def elements(self, name: str) -> Tensor:
        """An elements attribute. The bindings cannot hand out complex ones; of a constant its text has them."""
        try:
            return constant(self.attribute(name))
        except TypeError:
            text = str(self._op)
            return constant(text[text.index("dense<") :].partition(" loc(")[0].strip())

    def numbers(self, name: str, kind: Any) -> Any:
        """Dimension numbers, by their fields; `kind` is their class in the bindings."""
        return kind(self.attribute(name))

    def integer(self, name: str, default: int | None = None) -> int:
        if default is not None and not self.has(name):
            return default
        return int(self.attribute(name).value)

    def number(self, name: str) -> float:
        return float(self.attribute(name).value)

    def text(self, name: str, default: str | None = None) -> str:
        """Of an enumeration, its value's name: `LT` of `#stablehlo<comparison_direction LT>`."""
        if default is not None and not self.has(name):
            return default
        return str(self.attribute(name)).rstrip(">").split()[-1]

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.attribute(name).value) if self.has(name) else default

    def symbol(self, name: str) -> str:
        return str(self.attribute(name).value)

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An array of integers or booleans, in whichever form it is written."""
        if not self.has(name):
            if default is None:
                raise KeyError(name)
            return list(default)
        attribute = self.attribute(name)
        if isinstance(attribute, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr)):
            return [int(value) for value in attribute]
        return [int(value) for value in constant(attribute).array.ravel()]

    def padding(self, name: str, rank: int) -> list[tuple[int, int]]:
        flat = self.integers(name, [0] * (2 * rank))
        return list(zip(flat[0::2], flat[1::2], strict=True))


def operations(block: ir.Block) -> Iterator[Operation]:
    return (Operation(op) for op in block.operations)


_TOKEN = re.compile(r'"0x[0-9A-Fa-f]*"|0x[0-9A-Fa-f]+|[-+]?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?|true|false|[-+]?(?:inf|nan)')
_DENSE = re.compile(r"^dense<(.*)> : (tensor<.*>)$", re.DOTALL)
_SCALAR = re.compile(r"^(\S+) : (\S+)$")


def constant(attribute: object) -> Tensor:
    """An elements attribute, or a number, read from its text, which MLIR prints without loss."""
    text = str(attribute)
    dense = _DENSE.match(text)
    if text in ("true", "false"):
        return _literal([text], (), ElementType("i1"))
    if dense is None:
        scalar = _SCALAR.match(text)
        if scalar is not None:
            return _literal([scalar[1]], (), ElementType(scalar[2]))
        complex_number = re.match(r"^#complex\.number<:(\S+) (\S+), (\S+)> : (complex<.*>)$", text)
        if complex_number is None:
            raise NotImplementedError(f"the attribute {text[:60]}")
        return _literal([complex_number[2], complex_number[3]], (), ElementType(complex_number[4]))
    shape, element_type = parse_tensor_type(dense[2])
    return _literal(_TOKEN.findall(dense[1]), shape, element_type)


def _literal(tokens: list[str], shape: tuple[int, ...], element_type: ElementType) -> Tensor:
    if len(tokens) == 1 and tokens[0].startswith('"'):
        return _hexadecimal(bytes.fromhex(tokens[0][3:-1]), shape, element_type)
    kind = element_type.kind
    if kind == "bool":
        flat: Any = np.array([token == "true" or token == "1" for token in tokens], dtype=bool)
    elif kind in ("int", "uint"):
        flat = np.array([int(token, 0) for token in tokens], dtype=element_type.dtype)
    else:
        parts = np.array([_float(token, element_type.part) for token in tokens], dtype=Real)
        flat = complex_of(parts[0::2], parts[1::2]) if kind == "complex" else parts
    size = int(np.prod(shape, dtype=int))
    if flat.size == 1 and size != 1:
        flat = np.repeat(flat, size)
    return Tensor(flat.reshape(shape), element_type)


def _float(token: str, element_type: ElementType) -> np.longdouble:
    if token.startswith("0x"):
        return element_type.format.decode(int(token, 16))
    # Decimal text of a value of the type: the f64 nearest to it rounds to that value.
    value = np.array([struct.unpack("<d", struct.pack("<d", float(token)))[0]], dtype=Real)
    rounded: np.longdouble = round_to(value, element_type)[0]
    return rounded


def _hexadecimal(data: bytes, shape: tuple[int, ...], element_type: ElementType) -> Tensor:
    """Large constants: the raw little-endian elements; booleans are packed eight to a byte."""
    size = int(np.prod(shape, dtype=int))
    if element_type.kind == "bool":
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:size]
        return Tensor(bits.astype(bool).reshape(shape), element_type)
    if len(data) == element_type.bytes and size != 1:
        data *= size
    return decode(data, shape, element_type)
