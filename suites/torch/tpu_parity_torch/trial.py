"""Runs a module three times over: on CPU in f64, on CPU in the case's precision and on the device, from the same weights.

The suites of the libraries above PyTorch share it. What a module computes, and with which library, is theirs.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from .device import Device, graphs, seed_cpu
from .suite import Context, Failed, Measured, Result, Skipped, operators_used, seed_of

Inputs = dict[str, Any]
# Calls a module with its inputs; gives tensors in any nesting.
Call = Callable[[nn.Module, Inputs], Any]
Named = dict[str, torch.Tensor]

# What a model is put through.
MODES = {
    "eager": "forward in f32, eager",
    "compile": "forward in f32 under torch.compile, and a second call that must not compile again",
    "backward": "the gradients of all parameters of the mean square of the result, in f32",
    "bf16": "forward in bf16, eager",
}
# Beyond those, for modules whose attention PyTorch chooses: on a TPU its choice is a kernel that runs on hardware alone,
# so that everything else is measured with attention written out.
DEFAULT_ATTENTION = {"default-attention": "forward in f32, eager, with the attention that PyTorch chooses for the device"}


@dataclass(frozen=True)
class Trial:
    """A module and what it is called with, both made on CPU in f32 after seeding."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    call: Call


def call_by_name(module: nn.Module, inputs: Inputs) -> Any:
    return module(**inputs)


def moved(value: Any, kind: str, dtype: torch.dtype) -> Any:
    """Tensors of a nesting on the device, those of floating point in `dtype`; everything else as it is."""

    def leaf(part: Any) -> Any:
        if not isinstance(part, torch.Tensor):
            return part
        return part.detach().clone().to(kind, dtype if part.is_floating_point() else part.dtype)

    return tree_map(leaf, value)


def named(outputs: Any, prefix: str = "out") -> Named:
    """The tensors of a result, on CPU, named by their position."""
    if hasattr(outputs, "to_tuple"):
        outputs = outputs.to_tuple()
    tensors = [leaf.detach().cpu() for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
    return {f"{prefix}{position}": tensor for position, tensor in enumerate(tensors)}


def flat(tensors: Iterator[torch.Tensor | None] | list[torch.Tensor | None]) -> torch.Tensor:
    """One vector of all elements: gradients that are zero but for rounding have no scale of their own to be judged by."""
    found = [t.detach().cpu().reshape(-1) for t in tensors if t is not None]
    return torch.cat(found) if found else torch.zeros(0)


def gradients(module: nn.Module, inputs: Inputs, call: Call) -> Named:
    """The results, and all gradients of the mean square of those in floating point.

    Not that loss: CPU may be right about a single number by chance, which makes it no yardstick."""
    module.zero_grad(set_to_none=True)
    outputs = call(module, inputs)
    if hasattr(outputs, "to_tuple"):
        outputs = outputs.to_tuple()
    floating = [t for t in tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not floating:
        raise Failed("no result has a gradient")
    torch.stack([t.square().mean() for t in floating]).sum().backward()
    return named(outputs) | {"gradients": flat([p.grad for p in module.parameters()])}


def joined(references: Named, native: Named, device: Named) -> list[Result]:
    """Results of the three evaluations by name. Raises Failed where the device's differ from CPU's in form."""
    if device.keys() != native.keys():
        raise Failed(f"results {sorted(device)} instead of {sorted(native)}")
    found = []
    for name, want in native.items():
        got = device[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            raise Failed(f"{name} is {describe(got)} instead of {describe(want)}")
        reference = references.get(name, want)
        same_form = reference.shape == want.shape and reference.is_floating_point() == want.is_floating_point()
        found.append(Result(name, reference if same_form and want.is_floating_point() else want, want, got))
    return found


def describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


@contextmanager
def highest_precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class _Single(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func not in (torch.randn, torch.rand, torch.randn_like, torch.rand_like):
            return func(*args, **kwargs)
        kwargs["dtype"] = torch.float32
        return func(*args, **kwargs).double()


@contextmanager
def drawn_in_single() -> Iterator[None]:
    """Random numbers within are those that f32 draws, in f64: the generator draws others for f64."""
    with _Single():
        yield


def on_cpu(compute: Callable[[], Named]) -> Named:
    """What CPU gives in the case's own precision. Raises Skipped where the library cannot do it there either."""
    try:
        return compute()
    except Exception as error:
        raise Skipped(f"CPU does not compute it: {type(error).__name__}: {error}") from error


def in_double(compute: Callable[[], Named], otherwise: Named) -> Named:
    """The reference, or what CPU gives in the case's own precision where the library insists on that."""
    try:
        return compute()
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError):
        return otherwise


def attention(mode: str) -> AbstractContextManager[None]:
    """PyTorch's attention written out, but for the mode that asks for its default."""
    return nullcontext() if mode in DEFAULT_ATTENTION else sdpa_kernel(SDPBackend.MATH)


def evaluate(trial: Trial, case_id: str, mode: str, context: Context) -> Measured:
    """One of MODES or DEFAULT_ATTENTION of a module."""
    seed = seed_of(*case_id.split("/")[:-1])
    seed_cpu(seed)
    module = trial.build().eval()
    inputs = trial.inputs()
    dtype = torch.bfloat16 if mode == "bf16" else torch.float32
    module, inputs = module.to(dtype), moved(inputs, "cpu", dtype)

    def once(of: nn.Module, given: Inputs, function: Callable[[nn.Module, Inputs], Any]) -> Named:
        if mode == "backward":
            return gradients(of, given, function)
        with torch.no_grad():
            return named(function(of, given))

    with highest_precision(), attention(mode):
        seed_cpu(seed)
        with operators_used() as used:
            native = on_cpu(lambda: once(module, moved(inputs, "cpu", dtype), trial.call))

        def exact() -> Named:
            seed_cpu(seed)
            return once(copy.deepcopy(module).double(), moved(inputs, "cpu", torch.float64), trial.call)

        references = in_double(exact, native)
        context.stage("lower")
        on_device = copy.deepcopy(module).to(context.device.kind)
        given = moved(inputs, context.device.kind, dtype)
        context.device.seed(seed)
        if mode == "compile":
            got, seconds, figures = compiled(on_device, given, trial.call, once, context)
        else:
            context.stage("run")
            begun = time.perf_counter()
            got = once(on_device, given, trial.call)
            seconds, figures = time.perf_counter() - begun, {}
    return Measured(joined(references, native, got), seconds, operators=sorted(used), figures=figures)


def compiled(
    module: nn.Module, inputs: Inputs, call: Call, once: Callable[[nn.Module, Inputs, Call], Named], context: Context
) -> tuple[Named, float, dict[str, Any]]:
    torch._dynamo.reset()
    try:
        # The module's own forward is compiled: `call` may be more than one method, and is not the user's.
        module.forward = context.compile(module.forward)  # type: ignore[method-assign]
        context.stage("compile")
        start = counts(context.device)
        begun = time.perf_counter()
        got = once(module, inputs, call)
        seconds = time.perf_counter() - begun
        before = counts(context.device)
        context.stage("run")
        begun = time.perf_counter()
        once(module, inputs, call)
        again = time.perf_counter() - begun
        refuse_recompile(before, counts(context.device))
        return got, seconds, {"graphs": before[0] - start[0], "second_call_seconds": round(again, 6)}
    finally:
        torch._dynamo.reset()


def counts(device: Device) -> tuple[int, int]:
    """(Graphs that torch.compile has compiled, programs that the device has)."""
    return graphs(), device.programs() or 0


def refuse_recompile(before: tuple[int, int], after: tuple[int, int]) -> None:
    if after != before:
        raise Failed(
            f"a second call with the same shapes compiled again: {after[0] - before[0]} graphs, {after[1] - before[1]} programs"
        )
