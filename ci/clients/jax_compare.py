"""How a check of jax_on_virtual_tpu.py compares, and the register of the checks.

A `Case` is a function and its arguments; the reference is the same function on CPU (or `reference`, where the function is of eight
devices), and the bound is running_error.bound's. A check that compares by its own rule is a function that returns the largest
error over its bound.
"""

import dataclasses
import functools
from typing import Callable

import jax
import numpy as np
import running_error

# A bound beyond this part of the result's largest magnitude says nothing, so the check fails.
LOOSEST = 0.25


class Disagreement(Exception):
    """A result outside its bound, or of another type, shape or structure."""


@dataclasses.dataclass(frozen=True)
class Case:
    function: Callable
    arguments: Callable[[], tuple]
    reference: Callable | None = None
    x64: bool = False
    # Runs operation by operation instead of as one program.
    eager: bool = False
    # What the bound is derived from, where that is not the reference.
    model: Callable | None = None
    devices: int = 1


CHECKS: dict[str, Callable[[], float]] = {}


def check(function):
    """Registers a check that compares by its own rule: it returns the largest error over its bound."""
    CHECKS[function.__name__] = function
    return function


def case(name, function, arguments, **options):
    CHECKS[name] = functools.partial(compare, Case(function, arguments, **options))


def tpus():
    return jax.devices("tpu")


def cpu():
    return jax.devices("cpu")[0]


def needs(count):
    if len(tpus()) < count:
        raise Disagreement(f"needs {count} devices; jax.devices() has {len(tpus())}")


def error_over_bound(index, actual, expected, bound):
    """The largest error of one result over its bound."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        raise Disagreement(f"result {index}: {actual.dtype}{list(actual.shape)} instead of {expected.dtype}{list(expected.shape)}")
    if not running_error.is_inexact(expected):
        if np.any(bound):
            raise Disagreement(f"result {index}: these arguments leave an exact result to the rounding")
        wrong = np.argwhere(np.asarray(actual) != np.asarray(expected))
        if len(wrong):
            at = tuple(wrong[0])
            raise Disagreement(f"result {index}: {len(wrong)} of {actual.size} differ; at {list(map(int, at))} {np.asarray(actual)[at]} instead of {np.asarray(expected)[at]}")
        return 0.0
    got, want = running_error.wide(actual), running_error.wide(expected)
    finite = np.isfinite(want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if not np.all(finite | same):
        raise Disagreement(f"result {index}: NaNs or infinities stand elsewhere")
    if not finite.any():
        return 0.0
    bound = np.broadcast_to(bound, want.shape)[finite]
    loosest, largest = bound.max(), np.abs(want[finite]).max()
    if not loosest <= LOOSEST * largest and largest > 0:
        raise Disagreement(f"result {index}: a bound of {loosest:.3g} on results up to {largest:.3g} says nothing")
    error = np.abs(got[finite] - want[finite])
    if np.any(np.isnan(error)):
        raise Disagreement(f"result {index}: NaN instead of a number")
    with np.errstate(all="ignore"):
        return float(np.max(np.where(error == 0, 0.0, error / bound)))


def compare(case):
    needs(case.devices)
    with jax.enable_x64(case.x64):
        arguments = case.arguments()
        reference = case.reference or case.function
        run = (lambda f: f) if case.eager else jax.jit
        with jax.default_device(tpus()[0]):
            actual = run(case.function)(*arguments)
            for leaf in jax.tree.leaves(actual):
                if leaf.devices() - set(tpus()):
                    raise Disagreement(f"computed on {leaf.devices()}")
        with jax.default_device(cpu()):
            expected = jax.jit(reference)(*jax.device_put(arguments, cpu()))
    actual, expected = jax.device_get(actual), jax.device_get(expected)
    if jax.tree.structure(actual) != jax.tree.structure(expected):
        raise Disagreement(f"{jax.tree.structure(actual)} instead of {jax.tree.structure(expected)}")
    with jax.enable_x64(case.x64):
        model = case.model or reference
        bounds = [
            tpu_bound + cpu_bound
            for tpu_bound, cpu_bound in zip(
                running_error.bound(model, arguments, running_error.TPU),
                running_error.bound(reference, arguments, running_error.CPU),
                strict=True,
            )
        ]
    return max(
        (
            error_over_bound(index, *rest)
            for index, rest in enumerate(zip(jax.tree.leaves(actual), jax.tree.leaves(expected), bounds, strict=True))
        ),
        default=0.0,
    )


# --- arguments ------------------------------------------------------------------------------------------------------


def uniform(*shape, low=-1.0, high=1.0, dtype=np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def integers(*shape, low=-100, high=100, dtype=np.int32, seed=0):
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def of(*arrays):
    """The arguments of a case: each a function of nothing, or an array."""
    return lambda: arrays
