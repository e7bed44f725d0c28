"""Contractions, factorisations, solves, Fourier transforms and batch normalisation.

What is no contraction is written out in 80-bit arithmetic from the definition, and rounded to the element type at the end.
"""

from __future__ import annotations

import numpy as np
from jaxlib.mlir.dialects import chlo, stablehlo

from .element_types import Array, Complex, Real, Tensor, round_to
from .evaluate import Evaluator, Value, handles
from .program import Operation


@handles("stablehlo.dot_general")
def dot_general(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    numbers = operation.numbers("dot_dimension_numbers", stablehlo.DotDimensionNumbers)
    left, right = operands
    shape, element_type = operation.result_type()
    a = _matrices(left, numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions, False)
    b = _matrices(right, numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions, True)
    product = evaluator.arithmetic.contract(a, b, element_type)
    return [product.like(product.array.reshape(shape))]


@handles("stablehlo.dot")
def dot(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    left, right = operands
    shape, element_type = operation.result_type()
    a, b = _matrices(left, [], [left.array.ndim - 1], False), _matrices(right, [], [0], True)
    product = evaluator.arithmetic.contract(a, b, element_type)
    return [product.like(product.array.reshape(shape))]


def _matrices(x: Tensor, batching: list[int], contracting: list[int], contracting_first: bool) -> Tensor:
    """As [batch, free, contracting], or [batch, contracting, free]."""
    batching, contracting = list(batching), list(contracting)
    free = [d for d in range(x.array.ndim) if d not in batching and d not in contracting]
    inner = contracting + free if contracting_first else free + contracting
    first, second = (contracting, free) if contracting_first else (free, contracting)
    moved = np.transpose(x.array, batching + inner)

    def size(dimensions: list[int]) -> int:
        return int(np.prod([x.shape[d] for d in dimensions], dtype=int))

    return x.like(moved.reshape(size(batching), size(first), size(second)))


@handles("chlo.ragged_dot")
def ragged_dot(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    """In the three modes of CHLO: the ragged dimension of the left is free (rows), contracting, or batching.

    A position of the ragged dimension belongs to the group that the running sum of the sizes puts it in; rows beyond the
    last group are zero.
    """
    numbers = operation.numbers("ragged_dot_dimension_numbers", chlo.RaggedDotDimensionNumbers)
    left, right, sizes = operands
    shape, element_type = operation.result_type()
    (ragged,) = numbers.lhs_ragged_dimensions
    ends = np.cumsum(sizes.array)
    starts = ends - sizes.array
    lhs_batch, rhs_batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    lhs_contract, rhs_contract = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)

    def product(a: Tensor, b: Tensor, b_contract: list[int], b_batch: list[int]) -> Tensor:
        return evaluator.arithmetic.contract(
            _matrices(a, lhs_batch, lhs_contract, False), _matrices(b, b_batch, b_contract, True), element_type
        )

    def masked(x: Tensor, dimension: int, start: int, end: int) -> Tensor:
        inside = (np.arange(x.shape[dimension]) >= start) & (np.arange(x.shape[dimension]) < end)
        along = [1] * x.array.ndim
        along[dimension] = x.shape[dimension]
        return x.like(np.where(inside.reshape(along), x.array, np.zeros((), x.array.dtype)))

    if ragged in lhs_batch:
        found = product(left, right, rhs_contract, rhs_batch)
        return [found.like(found.array.reshape(shape))]
    if ragged in lhs_contract:
        other = rhs_contract[lhs_contract.index(ragged)]
        groups = [
            product(masked(left, ragged, s, e), masked(right, other, s, e), rhs_contract, rhs_batch).array.reshape(shape[1:])
            for s, e in zip(starts, ends, strict=True)
        ]
        return [Tensor(np.stack(groups), element_type)]
    (group,) = numbers.rhs_group_dimensions

    def without(dimension: int) -> int:
        return dimension - (dimension > group)

    total = np.zeros(shape, dtype=element_type.dtype)
    # Of the result's dimensions the ragged one comes after the batch, among the free ones of the left.
    free = [d for d in range(left.array.ndim) if d not in lhs_batch and d not in lhs_contract]
    place = len(lhs_batch) + free.index(ragged)
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        of_group = right.like(np.take(right.array, index, axis=group))
        found = product(left, of_group, [without(d) for d in rhs_contract], [without(d) for d in rhs_batch])
        rows = (slice(None),) * place + (slice(start, end),)
        total[rows] = found.array.reshape(shape)[rows]
    return [Tensor(total, element_type)]


def _wide(x: Tensor) -> Array:
    return x.array.astype(Complex if x.type.kind == "complex" else Real)


@handles("stablehlo.cholesky")
def cholesky(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    """Reads the triangle that `lower` names; the other one is zero here, which the specification leaves open."""
    (x,) = operands
    lower = operation.flag("lower")
    matrices = _wide(x)
    out = np.zeros(matrices.shape, dtype=matrices.dtype)
    with np.errstate(all="ignore"):
        for batch in np.ndindex(*matrices.shape[:-2]):
            a = matrices[batch] if lower else np.conj(matrices[batch].T)
            factor = _cholesky(a)
            out[batch] = factor if lower else np.conj(factor.T)
    return [x.like(round_to(out, x.type))]


def _cholesky(a: Array) -> Array:
    size = len(a)
    factor = np.zeros(a.shape, dtype=a.dtype)
    for j in range(size):
        before = factor[j, :j]
        factor[j, j] = np.sqrt(np.real(a[j, j]) - np.sum(np.real(before * np.conj(before))))
        for i in range(j + 1, size):
            factor[i, j] = (a[i, j] - np.sum(factor[i, :j] * np.conj(before))) / factor[j, j]
    return factor


@handles("stablehlo.triangular_solve")
def triangular_solve(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x, b = operands
    left_side, lower = operation.flag("left_side"), operation.flag("lower")
    transpose = operation.text("transpose_a")
    coefficients, wanted = _wide(x), _wide(b)
    out = np.empty(wanted.shape, dtype=wanted.dtype)
    with np.errstate(all="ignore"):
        for batch in np.ndindex(*wanted.shape[:-2]):
            a, right = coefficients[batch], wanted[batch]
            a = np.tril(a) if lower else np.triu(a)
            if operation.flag("unit_diagonal"):
                np.fill_diagonal(a, 1)
            if transpose != "NO_TRANSPOSE":
                a = np.conj(a.T) if transpose == "ADJOINT" else a.T
            is_lower = lower == (transpose == "NO_TRANSPOSE")
            # x a = b is a^T x^T = b^T.
            out[batch] = _substitute(a, right, is_lower) if left_side else _substitute(a.T, right.T, not is_lower).T
    return [b.like(round_to(out, b.type))]


def _substitute(a: Array, b: Array, lower: bool) -> Array:
    x = np.zeros(b.shape, dtype=b.dtype)
    rows = range(len(a)) if lower else range(len(a) - 1, -1, -1)
    for i in rows:
        known = slice(0, i) if lower else slice(i + 1, None)
        x[i] = (b[i] - a[i, known] @ x[known]) / a[i, i]
    return x


def _fourier(x: Array, axis: int, sign: int) -> Array:
    """The discrete Fourier transform by its definition."""
    size = x.shape[axis]
    turns = np.outer(np.arange(size), np.arange(size)) % max(size, 1)
    angle = sign * 2 * np.arccos(Real(-1)) * turns.astype(Real) / Real(max(size, 1))
    kernel = np.cos(angle) + Complex(1j) * np.sin(angle)
    return np.moveaxis(np.moveaxis(x, axis, -1) @ kernel, -1, axis)


@handles("stablehlo.fft")
def fft(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    (x,) = operands
    kind, lengths = operation.text("fft_type"), operation.integers("fft_length")
    _, element_type = operation.result_type()
    axes = list(range(x.array.ndim - len(lengths), x.array.ndim))
    values = x.array.astype(Complex)
    with np.errstate(all="ignore"):
        if kind == "IRFFT":
            for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
                values = _fourier(values, axis, 1) / Real(length)
            values = _fourier(_hermitian(values, lengths[-1]), axes[-1], 1).real / Real(max(lengths[-1], 1))
            return [Tensor(round_to(np.asarray(values), element_type), element_type)]
        for axis, length in zip(axes, lengths, strict=True):
            values = _fourier(values, axis, 1 if kind == "IFFT" else -1)
            if kind == "IFFT":
                values = values / Real(max(length, 1))
        if kind == "RFFT":
            values = values[..., : lengths[-1] // 2 + 1]
        return [Tensor(round_to(values, element_type), element_type)]


def _hermitian(half: Array, length: int) -> Array:
    """The whole spectrum of a real signal; imaginary parts of what must be real are ignored."""
    whole = np.empty((*half.shape[:-1], length), dtype=half.dtype)
    for k in range(length):
        whole[..., k] = half[..., k] if k <= length // 2 else np.conj(half[..., length - k])
    whole[..., 0] = whole[..., 0].real
    if length % 2 == 0 and length:
        whole[..., length // 2] = whole[..., length // 2].real
    return whole


def _per_feature(x: Array, rank: int, feature: int) -> Array:
    shape = [1] * rank
    shape[feature] = -1
    return x.reshape(shape)


@handles("stablehlo.batch_norm_inference")
def batch_norm_inference(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x = operands[0]
    feature, epsilon = operation.integer("feature_index"), Real(operation.number("epsilon"))
    scale, offset, mean, variance = (_per_feature(v.array, x.array.ndim, feature) for v in operands[1:])
    with np.errstate(all="ignore"):
        return [x.like(round_to((x.array - mean) / np.sqrt(variance + epsilon) * scale + offset, x.type))]


@handles("stablehlo.batch_norm_training")
def batch_norm_training(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    x, scale, offset = operands
    rank, feature, epsilon = x.array.ndim, operation.integer("feature_index"), Real(operation.number("epsilon"))
    others = tuple(d for d in range(rank) if d != feature)
    with np.errstate(all="ignore"):
        mean = x.array.mean(axis=others)
        centred = x.array - _per_feature(mean, rank, feature)
        variance = (centred * centred).mean(axis=others)
        root = np.sqrt(_per_feature(variance, rank, feature) + epsilon)
        out = centred / root * _per_feature(scale.array, rank, feature) + _per_feature(offset.array, rank, feature)
        return [x.like(round_to(v, x.type)) for v in (out, mean, variance)]


@handles("stablehlo.batch_norm_grad")
def batch_norm_grad(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    """The gradients of batch_norm_training, from its definition."""
    x, _, _, _, grad = operands
    rank, feature, epsilon = x.array.ndim, operation.integer("feature_index"), Real(operation.number("epsilon"))
    others = tuple(d for d in range(rank) if d != feature)
    scale, mean, variance = (_per_feature(v.array, rank, feature) for v in operands[1:4])
    count = Real(max(x.array.size // max(x.shape[feature], 1), 1))
    with np.errstate(all="ignore"):
        centred, root = x.array - mean, np.sqrt(variance + epsilon)
        grad_offset = grad.array.sum(axis=others)
        products = (grad.array * centred).sum(axis=others)
        grad_scale = products / root.ravel()
        inner = (
            count * grad.array
            - _per_feature(grad_offset, rank, feature)
            - centred * _per_feature(products, rank, feature) / (variance + epsilon)
        )
        grad_operand = scale / root / count * inner
        return [x.like(round_to(v, x.type)) for v in (grad_operand, grad_scale, grad_offset)]
