"""Decompositions and solvers, which have no one right answer: each is checked by its residual, in f64, under a published bound."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from precision import gamma
import scipy.linalg
from jax_compare import Disagreement, check, normal, tpus

U = 2.0**-24


def on_tpu(function, *arguments):
    results = jax.jit(function)(*jax.device_put(arguments, tpus()[0]))
    return jax.tree.map(lambda r: np.asarray(r, np.float64), results)


def spd(n):
    a = normal(n, n)
    return (a @ a.T / n + 2 * np.eye(n)).astype(np.float32)


def share(error, bound):
    if not np.all(np.isfinite(error)):
        raise Disagreement("NaN or infinity in the result")
    return float(np.max(error / bound))


@check
def cholesky():
    """|A - L Lᵀ| <= gamma(n + 1) |L||Lᵀ| (Higham, theorem 10.3)."""
    a = spd(48)
    lower = on_tpu(jnp.linalg.cholesky, a)
    return share(np.abs(a - lower @ lower.T), gamma(49, U) * (np.abs(lower) @ np.abs(lower.T)) + np.finfo(np.float32).tiny)


def orthogonal(q, bound):
    return share(np.linalg.norm(q.T @ q - np.eye(q.shape[1])), bound * np.sqrt(q.shape[1]))


@check
def qr():
    """Each column of A - QR within gamma~(mn) of the column, and as much for QᵀQ - I (Higham, theorem 19.4 and equation 19.13; its
    small constant, which the theorem leaves open, is 4 here: one reflector costs two products and two sums of each element)."""
    m, n = 40, 24
    a = normal(m, n)
    q, r = on_tpu(jnp.linalg.qr, a)
    bound = gamma(4 * m * n, U)
    columns = np.linalg.norm(a - q @ r, axis=0) / np.linalg.norm(a, axis=0)
    return max(share(columns, bound), orthogonal(q, bound), share(np.abs(np.tril(r, -1)).max(), 1e-30))


def lu_bound(a, x):
    """(3 gamma(n) + gamma(n)²) |L||U||x| (Higham, theorem 9.4), with the factors of SciPy, which pivots alike."""
    permutation, lower, upper = scipy.linalg.lu(a.astype(np.float64))
    g = gamma(len(a), U)
    return (3 * g + g * g) * (permutation @ np.abs(lower) @ np.abs(upper) @ np.abs(x))


@check
def solve():
    a, b = normal(32, 32), normal(32, 3, seed=1)
    x = on_tpu(jnp.linalg.solve, a, b)
    return share(np.abs(b - a.astype(np.float64) @ x), lu_bound(a, x))


@check
def inverse():
    a = normal(24, 24)
    x = on_tpu(jnp.linalg.inv, a)
    return share(np.abs(np.eye(24) - a.astype(np.float64) @ x), lu_bound(a, x))


@check
def triangular_solve():
    """(T + E) x = b with |E| <= gamma(n) |T| (Higham, theorem 8.5)."""
    t, b = np.tril(normal(40, 40)) + 4 * np.eye(40, dtype=np.float32), normal(40, 5, seed=1)
    x = on_tpu(functools.partial(jax.scipy.linalg.solve_triangular, lower=True), t, b)
    return share(np.abs(b - t.astype(np.float64) @ x), gamma(40, U) * (np.abs(t) @ np.abs(x)))


@check
def lu():
    a = normal(32, 32)
    permutation, lower, upper = on_tpu(jax.scipy.linalg.lu, a)
    return share(np.abs(a - permutation @ lower @ upper), gamma(32, U) * (permutation @ np.abs(lower) @ np.abs(upper)))


@check
def determinant():
    """The determinant of a matrix as near as solve's bound lets it be: relative, n gamma(n) times the condition of A."""
    a = normal(12, 12)
    actual = on_tpu(jnp.linalg.det, a)
    exact = np.linalg.det(a.astype(np.float64))
    return share(abs(actual - exact), abs(exact) * 12 * gamma(12, U) * np.linalg.cond(a.astype(np.float64)))


@check
def eigh():
    """A backward stable solver: ‖AV - VΛ‖ and ‖VᵀV - I‖ within p(n) u, ‖A‖ (LAPACK Users' Guide, 4.7, with p(n) = 10n)."""
    n = 24
    a = spd(n)
    values, vectors = on_tpu(jnp.linalg.eigh, a)
    bound = 10 * n * U
    residual = np.linalg.norm(a @ vectors - vectors * values, 2) / np.linalg.norm(a, 2)
    sorted_ = 0.0 if np.all(np.diff(values) >= 0) else np.inf
    return max(share(residual, bound), orthogonal(vectors, bound), sorted_)


@check
def svd():
    """As eigh."""
    m, n = 24, 16
    a = normal(m, n)
    u, s, vt = on_tpu(functools.partial(jnp.linalg.svd, full_matrices=False), a)
    bound = 10 * m * U
    residual = np.linalg.norm(a - (u * s) @ vt, 2) / np.linalg.norm(a, 2)
    return max(share(residual, bound), orthogonal(u, bound), orthogonal(vt.T, bound))


@check
def grad_of_cholesky():
    """d/dA log det A = A⁻¹, through the factor: within 8 n gamma(n) times the condition of A (two triangular solves each way)."""
    n = 12
    a = spd(n)
    with jax.default_matmul_precision("highest"):
        gradient = on_tpu(jax.grad(lambda m: 2 * jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(m))))), a)
    exact = np.linalg.inv(a.astype(np.float64))
    bound = 8 * n * gamma(n, U) * np.linalg.cond(a.astype(np.float64)) * np.linalg.norm(exact)
    return share(np.linalg.norm((gradient + gradient.T) / 2 - exact), bound)
