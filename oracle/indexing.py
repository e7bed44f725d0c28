"""Gathers and scatters, slices at computed places, sorts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cmp_to_key

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from .element_types import I32, Array, Tensor, tensor
from .evaluate import Evaluator, Value, handles
from .program import Operation


def _clamped(operands: list[Tensor], shape: tuple[int, ...], sizes: list[int] | tuple[int, ...]) -> list[int]:
    """Start indices, moved so that the slice lies inside."""
    limits = zip(operands, shape, sizes, strict=True)
    return [min(max(int(start.array), 0), whole - size) for start, whole, size in limits]


@handles("stablehlo.dynamic_slice")
def dynamic_slice(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x, *starts = operands
    sizes = operation.integers("slice_sizes")
    cut = zip(_clamped(starts, x.shape, sizes), sizes, strict=True)
    return [x.like(x.array[tuple(slice(start, start + size) for start, size in cut)])]


@handles("stablehlo.dynamic_update_slice")
def dynamic_update_slice(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x, update, *starts = operands
    out = x.array.copy()
    cut = zip(_clamped(starts, x.shape, update.shape), update.shape, strict=True)
    out[tuple(slice(start, start + size) for start, size in cut)] = update.array
    return [x.like(out)]


def _index_vector(indices: Array, position: tuple[int, ...], vector_dim: int) -> list[int]:
    """The start index at a position of the indices' other dimensions."""
    if vector_dim == indices.ndim:
        return [int(indices[position])]
    place = (*position[:vector_dim], slice(None), *position[vector_dim:])
    return [int(v) for v in indices[place]]


@handles("stablehlo.gather", "stablehlo.dynamic_gather")
def gather(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x, indices = operands[:2]
    sizes = [int(v) for v in operands[2].array] if len(operands) == 3 else operation.integers("slice_sizes")
    numbers = operation.numbers("dimension_numbers", stablehlo.GatherDimensionNumbers)
    result_shape, _ = operation.result_type()
    offset_dims = numbers.offset_dims
    batch_dims = [d for d in range(len(result_shape)) if d not in offset_dims]
    collapsed = set(numbers.collapsed_slice_dims) | set(numbers.operand_batching_dims)
    kept = [d for d in range(x.array.ndim) if d not in collapsed]
    out = np.empty(result_shape, dtype=x.array.dtype)
    for result in np.ndindex(*result_shape):
        position = tuple(result[d] for d in batch_dims)
        start = [0] * x.array.ndim
        vector = _index_vector(indices.array, position, numbers.index_vector_dim)
        for value, d in zip(vector, numbers.start_index_map, strict=True):
            start[d] = min(max(value, 0), x.shape[d] - sizes[d])
        for d, batch in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
            # Batch dimensions are counted among all dimensions of the indices, the position leaves the vector's out.
            start[d] = position[batch - (batch > numbers.index_vector_dim)]
        for d, offset in zip(kept, offset_dims, strict=True):
            start[d] += result[offset]
        out[result] = x.array[tuple(start)]
    return [x.like(out)]


def _scatter_places(
    operation: Operation, operand_shape: tuple[int, ...], indices: Array, update_shape: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(place in the updates, place in the operand), for updates whose place is inside."""
    numbers = operation.numbers("scatter_dimension_numbers", stablehlo.ScatterDimensionNumbers)
    window_dims = list(numbers.update_window_dims)
    scatter_dims = [d for d in range(len(update_shape)) if d not in window_dims]
    left_out = set(numbers.inserted_window_dims) | set(numbers.input_batching_dims)
    kept = [d for d in range(len(operand_shape)) if d not in left_out]
    for update in np.ndindex(*update_shape):
        position = tuple(update[d] for d in scatter_dims)
        place = [0] * len(operand_shape)
        vector = _index_vector(indices, position, numbers.index_vector_dim)
        for value, d in zip(vector, numbers.scattered_dims_to_operand_dims, strict=True):
            place[d] = value
        for d, batch in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
            place[d] = position[batch - (batch > numbers.index_vector_dim)]
        for d, window in zip(kept, window_dims, strict=True):
            place[d] += update[window]
        if all(0 <= p < size for p, size in zip(place, operand_shape, strict=True)):
            yield update, tuple(place)


@handles("stablehlo.scatter")
def scatter(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    count = (len(operands) - 1) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    out = [x.array.copy() for x in inputs]
    places = _scatter_places(operation, inputs[0].shape, indices.array, updates[0].shape)
    for update, place in places:
        old = [x.like(np.asarray(o[place])) for x, o in zip(inputs, out, strict=True)]
        new = [x.like(np.asarray(x.array[update])) for x in updates]
        for o, value in zip(out, evaluator.block(operation.regions[0], old + new), strict=True):
            o[place] = value.array
    return [x.like(o) for x, o in zip(inputs, out, strict=True)]


@handles("stablehlo.sort")
def sort(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    """Stable whether asked to be or not. The comparator is run on all pairs of a line at once."""
    dimension = operation.integer("dimension", -1)
    lines = [np.moveaxis(x.array, dimension, -1) for x in operands]
    out = [np.empty(line.shape, dtype=line.dtype) for line in lines]
    size = lines[0].shape[-1]
    for position in np.ndindex(*lines[0].shape[:-1]):
        arguments = []
        for x, line in zip(operands, lines, strict=True):
            row = line[position]
            arguments.append(x.like(np.repeat(row, size)))
            arguments.append(x.like(np.tile(row, size)))
        before = np.zeros((size, size), dtype=bool)
        if size:
            before = evaluator.scalars(operation.regions[0], arguments)[0].array.reshape(size, size)
        order = _stable_order(before)
        for line, o in zip(lines, out, strict=True):
            o[position] = line[position][order]
    return [x.like(np.moveaxis(o, -1, dimension)) for x, o in zip(operands, out, strict=True)]


def _stable_order(before: Array) -> list[int]:
    """The stable order of a line, `before[i, j]` saying that element i goes before element j."""
    return sorted(range(len(before)), key=cmp_to_key(lambda i, j: -1 if before[i, j] else (1 if before[j, i] else 0)))


@handles("chlo.top_k")
def top_k(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    """Largest first by total order of the values, the lower index first among equals."""
    (x,) = operands
    count = operation.integer("k")
    flat = x.array.reshape(-1, x.shape[-1])
    order = np.empty((len(flat), count), dtype=np.int64)
    for i, row in enumerate(flat):
        keys = [_descending(v) for v in row]
        order[i] = sorted(range(len(row)), key=keys.__getitem__)[:count]
    shape = (*x.shape[:-1], count)
    values = np.take_along_axis(flat, order, axis=1).reshape(shape)
    return [x.like(values), tensor(order.reshape(shape), I32)]


def _descending(value: object) -> tuple[object, ...]:
    if not isinstance(value, np.floating):
        return (-int(value),)  # type: ignore[call-overload]
    sign = -1 if np.signbit(value) else 1
    if np.isnan(value):
        return (-sign, -1 if sign > 0 else 1, 0.0)
    return (-sign, 0, -value)
