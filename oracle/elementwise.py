"""Elementwise operators, constants, and their CHLO twins that broadcast."""

from __future__ import annotations

import numpy as np

from .arithmetic import compare
from .element_types import I32, I64, Array, Tensor, reduce_precision, tensor
from .evaluate import Evaluator, Value, handles
from .program import Operation

UNARY = [
    "abs",
    "cbrt",
    "ceil",
    "cosine",
    "count_leading_zeros",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "negate",
    "not",
    "popcnt",
    "real",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "tan",
    "tanh",
]
CHLO_UNARY = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "conj",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "is_inf",
    "is_neg_inf",
    "is_pos_inf",
    "lgamma",
    "sinh",
    "square",
    "tan",
]
BINARY = [
    "add",
    "and",
    "atan2",
    "complex",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "subtract",
    "xor",
]
CHLO_BINARY = ["mulhi", "next_after", "polygamma", "zeta"]


def aligned(*values: Tensor) -> list[Tensor]:
    """Scalars beside arrays, as inside a region that is run on arrays, take their shape."""
    shape = np.broadcast_shapes(*(value.shape for value in values))
    return [v if v.shape == shape else v.like(np.broadcast_to(v.array, shape)) for v in values]


@handles(*(f"stablehlo.{name}" for name in UNARY), *(f"chlo.{name}" for name in CHLO_UNARY))
def unary(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [evaluator.arithmetic.unary(operation.name.partition(".")[2], operands[0])]


@handles(*(f"stablehlo.{name}" for name in BINARY), *(f"chlo.{name}" for name in CHLO_BINARY))
def binary(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [evaluator.arithmetic.binary(operation.name.partition(".")[2], *aligned(*operands))]


def broadcast(operation: Operation, operands: list[Tensor]) -> list[Tensor]:
    """CHLO's implicit broadcasting: by `broadcast_dimensions` of the operand of lower rank, else as NumPy does."""
    if operation.has("broadcast_dimensions"):
        rank = max(len(value.shape) for value in operands)
        places = operation.integers("broadcast_dimensions")

        def widen(value: Tensor) -> Tensor:
            if len(value.shape) == rank:
                return value
            shape = [1] * rank
            for place, size in zip(places, value.shape, strict=True):
                shape[place] = size
            return value.like(value.array.reshape(shape))

        operands = [widen(value) for value in operands]
    return aligned(*operands)


@handles(*(f"chlo.broadcast_{name}" for name in BINARY + CHLO_BINARY))
def broadcast_binary(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    name = operation.name.removeprefix("chlo.broadcast_")
    return [evaluator.arithmetic.binary(name, *broadcast(operation, operands))]


@handles("stablehlo.compare")
def compare_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    total = operation.text("compare_type", "NOTYPE") == "TOTALORDER"
    x, y = aligned(*operands)
    return [compare(operation.text("comparison_direction"), x, y, total_order=total)]


@handles("chlo.broadcast_compare")
def broadcast_compare(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    total = operation.text("compare_type", "NOTYPE") == "TOTALORDER"
    x, y = broadcast(operation, operands)
    return [compare(operation.text("comparison_direction"), x, y, total_order=total)]


def _select(predicate: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor:
    return on_true.like(np.where(predicate.array, on_true.array, on_false.array))


@handles("stablehlo.select")
def select(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [_select(*aligned(*operands))]


@handles("chlo.broadcast_select")
def broadcast_select(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [_select(*broadcast(operation, operands))]


@handles("stablehlo.clamp")
def clamp(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    low, value, high = aligned(*operands)
    of = evaluator.arithmetic.binary
    return [of("minimum", of("maximum", low, value), high)]


@handles("stablehlo.convert")
def convert(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [evaluator.arithmetic.convert(operands[0], operation.result_type()[1])]


@handles("stablehlo.reduce_precision")
def reduce_precision_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    (x,) = operands
    bits = operation.integer("exponent_bits"), operation.integer("mantissa_bits")
    # A format no wider than the element type has values of the element type alone, but one with more exponents may not.
    return [x.like(reduce_precision(x.array, *bits))]


@handles("stablehlo.constant", "chlo.constant")
def constant_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [operation.elements("value")]


@handles("chlo.constant_like")
def constant_like(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    value = operation.elements("value")
    return [value.like(np.broadcast_to(value.array, operands[0].shape))]


def _iota(shape: tuple[int, ...], dimension: int) -> Array:
    along = [1] * len(shape)
    along[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension]).reshape(along), shape)


@handles("stablehlo.iota", "stablehlo.dynamic_iota")
def iota(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    shape, element_type = operation.result_type()
    counts = tensor(_iota(shape, operation.integer("iota_dimension")), I64)
    return [evaluator.arithmetic.convert(counts, element_type)]


@handles("stablehlo.map")
def map_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return list(evaluator.scalars(operation.regions[0], operands))


@handles("stablehlo.get_dimension_size")
def get_dimension_size(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [tensor(operands[0].shape[operation.integer("dimension")], I32)]
