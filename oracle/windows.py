"""Reductions, windows, scans and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from .arithmetic import UnsupportedError
from .element_types import Array, Tensor
from .evaluate import Evaluator, Value, handles
from .program import Operation, operations
from .structural import pad


def _is_sum(block: Any) -> bool:
    """Whether a region adds its two arguments and returns that."""
    body = list(operations(block))
    if len(body) != 2 or body[0].name != "stablehlo.add":
        return False
    arguments = list(block.arguments)
    return body[0].operands in (arguments, arguments[::-1]) and body[1].operands == body[0].results


def _fold(evaluator: Evaluator, block: Any, lines: list[Tensor], initial: list[Tensor]) -> list[Tensor]:
    """Reduces the last axis. A sum is one sum; anything else goes from the first element to the last."""
    if len(lines) == 1 and _is_sum(block):
        last = lines[0].array.ndim - 1
        return [evaluator.arithmetic.sum(lines[0], (last,), initial[0])]
    shape = lines[0].shape[:-1]
    state = [x.like(np.broadcast_to(i.array, shape)) for x, i in zip(lines, initial, strict=True)]
    for k in range(lines[0].shape[-1]):
        state = evaluator.scalars(block, state + [x.like(x.array[..., k]) for x in lines])
    return state


@handles("stablehlo.reduce")
def reduce(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    count = len(operands) // 2
    inputs, initial = operands[:count], operands[count:]
    along = sorted(operation.integers("dimensions"))
    rank = inputs[0].array.ndim
    kept = [d for d in range(rank) if d not in along]
    lines = []
    for x in inputs:
        moved = np.transpose(x.array, kept + along)
        lines.append(x.like(moved.reshape(*moved.shape[: len(kept)], int(np.prod([x.shape[d] for d in along], dtype=int)))))
    return list(_fold(evaluator, operation.regions[0], lines, initial))


def windows(x: Array, dimensions: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """Every window of an array that is padded and dilated already: [*positions, elements of a window]."""
    counts = [
        max((size - (window - 1) * dilation - 1) // stride + 1, 0)
        for size, window, stride, dilation in zip(x.shape, dimensions, strides, dilations, strict=True)
    ]
    # The index of each dimension is [count, window], spread over its own two axes of the result.
    rank = x.ndim
    index = []
    for d, (count, window) in enumerate(zip(counts, dimensions, strict=True)):
        places = np.arange(count)[:, None] * strides[d] + np.arange(window)[None, :] * dilations[d]
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = count, window
        index.append(places.reshape(shape))
    if rank == 0:
        return x.reshape(1)
    return x[tuple(index)].reshape(*counts, int(np.prod(dimensions, dtype=int)))


@handles("stablehlo.reduce_window")
def reduce_window(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    count = len(operands) // 2
    inputs, initial = operands[:count], operands[count:]
    rank = inputs[0].array.ndim
    ones = [1] * rank
    padding = operation.padding("padding", rank)
    gaps = [d - 1 for d in operation.integers("base_dilations", ones)]
    low, high = [p[0] for p in padding], [p[1] for p in padding]
    lines = []
    for x, i in zip(inputs, initial, strict=True):
        whole = pad(x.array, i.array, low, high, gaps)
        lines.append(
            x.like(
                windows(
                    whole,
                    operation.integers("window_dimensions"),
                    operation.integers("window_strides", ones),
                    operation.integers("window_dilations", ones),
                )
            )
        )
    return list(_fold(evaluator, operation.regions[0], lines, initial))


@handles("stablehlo.select_and_scatter")
def select_and_scatter(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    """In each window the first element that no later one displaces gets the source's value; padding is never selected."""
    x, source, initial = operands
    rank = x.array.ndim
    padding = operation.padding("padding", rank)
    sizes = operation.integers("window_dimensions", [1] * rank)
    strides = operation.integers("window_strides", [1] * rank)
    select, gather = operation.regions
    places: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for position in np.ndindex(*source.shape):
        chosen: tuple[int, ...] | None = None
        for offset in np.ndindex(*sizes):
            place = tuple(p * s + o - pad_[0] for p, s, o, pad_ in zip(position, strides, offset, padding, strict=True))
            if any(not 0 <= p < size for p, size in zip(place, x.shape, strict=True)):
                continue
            if chosen is None:
                chosen = place
                continue
            pair = [x.like(np.asarray(x.array[chosen])), x.like(np.asarray(x.array[place]))]
            if not bool(evaluator.block(select, pair)[0].array):
                chosen = place
        if chosen is not None:
            places.setdefault(chosen, []).append(position)
    out = np.full(x.shape, initial.array, dtype=x.array.dtype)
    for place, positions in places.items():
        line = source.like(np.array([source.array[p] for p in positions], dtype=source.array.dtype))
        out[place] = _fold(evaluator, gather, [line], [initial])[0].array
    return [x.like(out)]


@handles("chlo.scan")
def scan(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    """The body takes the inputs' slices and the carries, and gives the outputs' slices and the carries."""
    carries = operation.integers("operandSegmentSizes", [len(operands) // 2] * 2)[1]
    inputs, state = operands[: len(operands) - carries], operands[len(operands) - carries :]
    dimension = operation.integer("dimension")
    size = inputs[0].shape[dimension]
    steps = range(size - 1, -1, -1) if operation.flag("is_reverse") else range(size)
    slices: dict[int, list[Tensor]] = {}
    for k in steps:
        taken = [x.like(np.take(x.array, k, axis=dimension)) for x in inputs]
        results = evaluator.block(operation.regions[0], taken + state)
        slices[k], state = results[: len(results) - carries], results[len(results) - carries :]
    outputs: list[Tensor] = []
    for i in range(len(operation.results) - carries):
        shape, element_type = operation.result_type(i)
        out = np.empty(shape, dtype=element_type.dtype)
        for k, values in slices.items():
            out[(slice(None),) * dimension + (k,)] = values[i].array
        outputs.append(Tensor(out, element_type))
    return [*outputs, *state]


def _grouped(left: Array, right: Array, groups: int, axis_left: int, axis_right: int) -> list[tuple[Array, Array]]:
    return list(zip(np.split(left, groups, axis_left), np.split(right, groups, axis_right), strict=True))


@handles("stablehlo.convolution", "stablehlo.dynamic_conv")
def convolution(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    numbers = operation.numbers("dimension_numbers", stablehlo.ConvDimensionNumbers)
    left, right = operands[:2]
    spatial = len(numbers.input_spatial_dimensions)
    ones = [1] * spatial
    if len(operands) == 3:
        padding = [(int(lo), int(hi)) for lo, hi in operands[2].array]
    else:
        padding = operation.padding("padding", spatial)
    # [batch, feature, spatial...] and [out feature, in feature, spatial...].
    x = np.transpose(
        left.array, [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions]
    )
    k = np.transpose(
        right.array,
        [
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ],
    )
    reversal = operation.integers("window_reversal", [0] * spatial)
    k = np.flip(k, tuple(2 + d for d in range(spatial) if reversal[d]))
    gaps = [d - 1 for d in operation.integers("lhs_dilation", ones)]
    zero = np.zeros((), dtype=x.dtype)
    x = pad(x, zero, [0, 0, *(p[0] for p in padding)], [0, 0, *(p[1] for p in padding)], [0, 0, *gaps])
    groups, batch_groups = operation.integer("feature_group_count", 1), operation.integer("batch_group_count", 1)
    if groups > 1 and batch_groups > 1:
        raise UnsupportedError("a convolution in groups of both kinds")
    pairs = _grouped(x, k, groups, 1, 0) if batch_groups == 1 else _grouped(x, k, batch_groups, 0, 0)
    shape, element_type = operation.result_type()
    strides = operation.integers("window_strides", ones)
    dilations = operation.integers("rhs_dilation", ones)
    parts = []
    for inputs, kernel in pairs:
        batch, features = inputs.shape[:2]
        seen = windows(inputs, [1, features, *kernel.shape[2:]], [1, 1, *strides], [1, 1, *dilations])
        # [batch, 1, positions..., features * window] against [features * window, out].
        places = int(np.prod(seen.shape[:-1], dtype=int))
        rows = Tensor(seen.reshape(1, places, seen.shape[-1]), left.type)
        columns = Tensor(kernel.reshape(1, kernel.shape[0], seen.shape[-1]).transpose(0, 2, 1), right.type)
        product = evaluator.arithmetic.contract(rows, columns, element_type)
        whole = product.array.reshape(batch, *seen.shape[2 : 2 + spatial], kernel.shape[0])
        parts.append(np.moveaxis(whole, -1, 1))
    joined = np.concatenate(parts, axis=1)
    order = [0] * (2 + spatial)
    order[numbers.output_batch_dimension], order[numbers.output_feature_dimension] = 0, 1
    for d, place in enumerate(numbers.output_spatial_dimensions):
        order[place] = 2 + d
    return [Tensor(np.transpose(joined, order).reshape(shape), element_type)]
