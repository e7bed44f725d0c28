"""Operators that move elements and change none: shape, order, slices, padding, bits."""

from __future__ import annotations

import numpy as np

from .arithmetic import UnsupportedError
from .element_types import Array, ElementType, Tensor, decode, encode
from .evaluate import Evaluator, Value, handles
from .program import Operation


@handles("stablehlo.reshape", "stablehlo.dynamic_reshape")
def reshape(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x = operands[0]
    return [x.like(np.ascontiguousarray(x.array).reshape(operation.result_type()[0]))]


@handles("stablehlo.transpose")
def transpose(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    (x,) = operands
    return [x.like(np.transpose(x.array, operation.integers("permutation")))]


@handles("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
def broadcast_in_dim(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x, (shape, _) = operands[0], operation.result_type()
    places = operation.integers("broadcast_dimensions")
    # Operand dimension i becomes result dimension places[i]; places need not ascend.
    ordered = np.transpose(x.array, np.argsort(places, kind="stable"))
    middle = [1] * len(shape)
    for place, size in zip(sorted(places), ordered.shape, strict=True):
        middle[place] = size
    return [x.like(np.broadcast_to(ordered.reshape(middle), shape))]


@handles("stablehlo.reverse")
def reverse(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    (x,) = operands
    return [x.like(np.flip(x.array, tuple(operation.integers("dimensions"))))]


@handles("stablehlo.concatenate")
def concatenate(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [operands[0].like(np.concatenate([x.array for x in operands], axis=operation.integer("dimension")))]


def _strided(x: Tensor, starts: list[int], limits: list[int], strides: list[int]) -> Tensor:
    cut = tuple(slice(a, b, s) for a, b, s in zip(starts, limits, strides, strict=True))
    return x.like(x.array[cut])


@handles("stablehlo.slice")
def slice_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    names = ("start_indices", "limit_indices", "strides")
    return [_strided(operands[0], *(operation.integers(name) for name in names))]


@handles("stablehlo.real_dynamic_slice")
def real_dynamic_slice(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [_strided(operands[0], *([int(v) for v in bound.array] for bound in operands[1:]))]


@handles("stablehlo.pad")
def pad_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    x, value = operands
    return [x.like(pad(x.array, value.array, *(operation.integers(name) for name in names)))]


@handles("stablehlo.dynamic_pad")
def dynamic_pad(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x, value, *amounts = operands
    return [x.like(pad(x.array, value.array, *([int(v) for v in amount.array] for amount in amounts)))]


def pad(x: Array, value: Array, low: list[int], high: list[int], interior: list[int]) -> Array:
    """Padding that is negative removes elements, after the interior has been spread."""
    spread = [size + max(size - 1, 0) * gap for size, gap in zip(x.shape, interior, strict=True)]
    shape = [lo + size + hi for lo, size, hi in zip(low, spread, high, strict=True)]
    out = np.full(shape, value, dtype=x.dtype)
    index = []
    for size, lo, gap, limit in zip(x.shape, low, interior, shape, strict=True):
        places = lo + np.arange(size) * (gap + 1)
        index.append((places, (places >= 0) & (places < limit)))
    target = tuple(places[inside] for places, inside in index)
    source = tuple(np.flatnonzero(inside) for _, inside in index)
    if x.ndim:
        out[np.ix_(*target)] = x[np.ix_(*source)]
    else:
        out[...] = x
    return out


@handles("stablehlo.bitcast_convert")
def bitcast_convert(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    (x,) = operands
    shape, to = operation.result_type()
    return [x if to == x.type else from_bits(_to_bits(x), shape, to)]


def _to_bits(x: Tensor) -> Array:
    """Bits of all elements, each from its lowest up."""
    data = np.ascontiguousarray(x.bits).tobytes() if x.bits is not None else encode(x)
    by_byte = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, 8 * x.type.bytes)
    return by_byte[:, : x.type.bits].ravel()


def from_bits(bits: Array, shape: tuple[int, ...], to: ElementType) -> Tensor:
    if to.kind == "bool":
        raise UnsupportedError("bitcast_convert to i1")
    of_elements = bits.reshape(-1, to.bits)
    room = np.zeros((len(of_elements), 8 * to.bytes), dtype=np.uint8)
    room[:, : to.bits] = of_elements
    return decode(np.packbits(room, axis=1, bitorder="little").tobytes(), shape, to)
