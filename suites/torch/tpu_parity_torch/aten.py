"""The suite `aten`: PyTorch's own operator database, every operator with its own sample inputs, by element type, eager and
compiled, forward and backward, against PyTorch on CPU.

A sample is made on CPU in the case's element type, so that the reference in f64 and the device start from the same values. What
cannot be compared by numbers is compared by property: random results by shape and by their repeating from the same seed,
uninitialised ones by shape, factors and indices that are not unique as aten_rules.py says.
"""

import contextlib
import functools
import itertools
import random
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
import torch._dynamo
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from . import aten_rules
from .device import Device, graphs, seed_cpu
from .suite import CaseSpec, Context, Failed, Measured, Options, Result, Skipped, operators_used, seed_of

ELEMENT_TYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "bool": torch.bool,
    "c64": torch.complex64,
}
MODES = ("eager", "compile")
DOUBLE = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex64: torch.complex128,
}

# The database's entries of random operators seed and restore CPU's generator around each call, which `torch.compile` cannot
# trace for another device. Here every call is seeded anyway.
common_methods_invocations.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)

Arguments = tuple[Any, tuple[Any, ...], dict[str, Any]]


def subject_of(op: OpInfo) -> str:
    """`addmm`, `div.floor_rounding`; a name in capitals is that of a tensor's property: `tensor.mt` is `Tensor.mT`."""
    name = op.name if op.name == op.name.lower() else f"tensor.{op.name.lower()}"
    return f"{name}.{op.variant_test_name.lower()}" if op.variant_test_name else name


@functools.cache
def operators() -> dict[str, OpInfo]:
    return {subject_of(op): op for op in common_methods_invocations.op_db}


def samples(op: OpInfo, dtype: torch.dtype, backward: bool, count: int) -> list[SampleInput]:
    """The first samples, the same in every process."""
    seed = seed_of("aten", subject_of(op), str(dtype))
    seed_cpu(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Not op.sample_inputs, which walks the call stack for each sample: a listing would take a minute instead of seconds.
        return list(itertools.islice(op.sample_inputs_func(op, "cpu", dtype, backward), count))


# --- listing ----------------------------------------------------------------------------------------------------------


def cases(options: Options) -> Iterator[CaseSpec]:
    for subject, op in operators().items():
        forward = op.supported_dtypes("cpu")
        backward = op.supported_backward_dtypes("cpu") if op.supports_autograd else set()
        for short, dtype in ELEMENT_TYPES.items():
            if dtype in forward:
                yield from _cases_of(subject, op, short, "forward", options.samples)
            if dtype in backward and (dtype.is_floating_point or dtype.is_complex):
                yield from _cases_of(subject, op, short, "backward", options.samples)


def _cases_of(subject: str, op: OpInfo, short: str, direction: str, count: int) -> Iterator[CaseSpec]:
    skip = aten_rules.impossible(subject)
    found = 1
    if skip is None:
        try:
            found = len(samples(op, ELEMENT_TYPES[short], direction == "backward", count))
            skip = None if found else "PyTorch's database has no sample for it"
        except Exception as error:
            skip = f"PyTorch makes no sample: {type(error).__name__}: {error}".splitlines()[0]
    for sample in range(max(found, 1)):
        for mode in MODES:
            about = f"torch {op.name} on {short}, {direction}, {mode}"
            yield CaseSpec(f"aten/{subject}/{short}/sample{sample}/{mode}/{direction}", subject, about, skip)


# --- a case -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    id: str
    subject: str
    op: OpInfo
    dtype: torch.dtype
    sample: SampleInput
    compiled: bool
    backward: bool

    @property
    def seed(self) -> int:
        return seed_of(self.id)

    def arguments(self) -> Arguments:
        return self.sample.input, self.sample.args, self.sample.kwargs


def parse(case_id: str) -> Case:
    """The case of an id. Raises Skipped where this PyTorch has none such."""
    match case_id.split("/"):
        case ["aten", subject, short, sample, ("eager" | "compile") as mode, ("forward" | "backward") as direction]:
            pass
        case _:
            raise Skipped(f"{case_id} is no id of this suite")
    op = operators().get(subject)
    number = sample.removeprefix("sample")
    if op is None or short not in ELEMENT_TYPES or not number.isdecimal():
        raise Skipped(f"this version of PyTorch has no such case: {case_id}")
    if (reason := aten_rules.impossible(subject)) is not None:
        raise Skipped(reason)
    found = samples(op, ELEMENT_TYPES[short], direction == "backward", int(number) + 1)
    if len(found) <= int(number):
        raise Skipped(f"PyTorch's database has {len(found)} samples for it")
    return Case(case_id, subject, op, ELEMENT_TYPES[short], found[int(number)], mode == "compile", direction == "backward")


def converted(value: Any, tensor: Callable[[torch.Tensor], torch.Tensor], kind: str, double: bool) -> Any:
    """Arguments of a call's own, for an operator may change them: each tensor converted, devices and element types replaced."""

    def leaf(part: Any) -> Any:
        if isinstance(part, torch.Tensor):
            return tensor(part.detach().clone()).requires_grad_(part.requires_grad)
        if isinstance(part, torch.device) or (isinstance(part, str) and part == "cpu"):
            return torch.device(kind)
        if double and isinstance(part, torch.dtype):
            return DOUBLE.get(part, part)
        return part

    return tree_map(leaf, value)


def doubled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(DOUBLE.get(tensor.dtype, tensor.dtype))


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def tensors_of(outputs: Any) -> list[torch.Tensor]:
    """The leaves of an output as dense tensors; Python's numbers too, for some operators return those."""
    found = []
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf if leaf.layout == torch.strided else leaf.to_dense())
        elif isinstance(leaf, bool | int):
            found.append(torch.tensor(leaf))
        elif isinstance(leaf, float):
            found.append(torch.tensor(leaf, dtype=torch.float64))
        elif isinstance(leaf, complex):
            found.append(torch.tensor(leaf, dtype=torch.complex128))
    return found


@dataclass
class Computed:
    """One evaluation of a case, its tensors on CPU."""

    outputs: list[torch.Tensor]
    # The tensors among the arguments, after the call.
    arguments: list[torch.Tensor]
    # For each output, which of the arguments it shares memory with.
    aliases: list[list[int]]


Function = Callable[[Arguments], Any]


def evaluate(
    case: Case, function: Function, arguments: Arguments, cotangents: list[torch.Tensor], seed: Callable[[int], Any]
) -> Computed:
    """Calls, and differentiates where the case says so: for random directions, `cotangents`, which are filled in if empty."""
    seed(case.seed)
    inputs = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    if not case.backward:
        with torch.no_grad():
            outputs = function(arguments)
        found = tensors_of(outputs)
        aliases = [[i for i, tensor in enumerate(inputs) if _share_memory(out, tensor)] for out in found]
        return Computed([t.detach().cpu() for t in found], [t.detach().cpu() for t in inputs], aliases)
    outputs = function(arguments)
    found = [t for t in tensors_of(case.sample.output_process_fn_grad(outputs)) if t.requires_grad]
    leaves = [t for t in inputs if t.requires_grad]
    if not found or not leaves:
        raise Skipped("no result of it has a gradient")
    if not cotangents:
        generator = torch.Generator().manual_seed(case.seed)
        cotangents.extend(torch.randn(t.shape, generator=generator, dtype=torch.float32).to(t.dtype) for t in found)
    directions = [c.to(t.dtype).to(t.device) for c, t in zip(cotangents, found, strict=True)]
    gradients = torch.autograd.grad(found, leaves, directions, allow_unused=True)
    return Computed([g.detach().cpu() for g in tensors_of(gradients)], [], [])


def _share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.layout != torch.strided or other.layout != torch.strided or not one.numel() or not other.numel():
        return False
    return torch._C._is_alias_of(one, other)


def call_of(case: Case) -> Function:
    operator = case.op.op

    def call(arguments: Arguments) -> Any:
        given, args, kwargs = arguments
        return operator(given, *args, **kwargs)

    return call


def on_cpu(case: Case, cotangents: list[torch.Tensor]) -> tuple[Computed, set[str], bool]:
    """(In the case's own precision, the operators used, whether random numbers were drawn)."""
    arguments = converted(case.arguments(), lambda t: t, "cpu", double=False)
    seed_cpu(case.seed)
    state = torch.get_rng_state()
    try:
        with operators_used() as used:
            computed = evaluate(case, call_of(case), arguments, cotangents, seed_cpu)
    except Skipped:
        raise
    except Exception as error:
        raise Skipped(
            f"CPU does not compute it: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        ) from error
    return computed, used, not torch.equal(state, torch.get_rng_state())


def in_double(case: Case, native: Computed, cotangents: list[torch.Tensor]) -> Computed:
    """The reference: in f64 where that exists and is the same computation, else what CPU gives in the case's precision."""
    if case.subject in aten_rules.DEFINED_BY_ELEMENT_TYPE:
        return native
    arguments = converted(case.arguments(), doubled, "cpu", double=True)
    try:
        with default_dtype(torch.float64):
            exact = evaluate(case, call_of(case), arguments, [doubled(c) for c in cotangents], seed_cpu)
    except Exception:
        return native
    if [t.shape for t in exact.outputs] != [t.shape for t in native.outputs]:
        return native
    # Integers and bools are exact as they are: f64 could only round differently on the way to them.
    return Computed(
        [e if n.is_floating_point() or n.is_complex() else n for e, n in zip(exact.outputs, native.outputs, strict=True)],
        exact.arguments,
        exact.aliases,
    )


def on_device(case: Case, context: Context, cotangents: list[torch.Tensor], repeat: bool) -> tuple[list[Computed], float]:
    """(One evaluation, or two where asked or where a second call must not compile again; seconds of the first)."""
    device = context.device
    function = call_of(case)

    def once() -> Computed:
        arguments = converted(case.arguments(), device.to, device.kind, double=False)
        return evaluate(case, function, arguments, cotangents, device.seed)

    if not case.compiled:
        context.stage("run")
        begun = time.perf_counter()
        computed = [once()]
        seconds = time.perf_counter() - begun
        return computed + ([once()] if repeat else []), seconds
    torch._dynamo.reset()
    try:
        context.stage("compile")
        function = context.compile(function)
        begun = time.perf_counter()
        computed = [once()]
        seconds = time.perf_counter() - begun
        before = compiled_so_far(device)
        context.stage("run")
        computed.append(once())
        after = compiled_so_far(device)
        if after != before:
            raise Failed(f"a second call with the same shapes compiled again: {describe(before, after)}")
        return computed, seconds
    finally:
        torch._dynamo.reset()


def compiled_so_far(device: Device) -> tuple[int, int]:
    return graphs(), device.programs() or 0


def describe(before: tuple[int, int], after: tuple[int, int]) -> str:
    return f"{after[0] - before[0]} graphs, {after[1] - before[1]} programs"


# --- what is compared -------------------------------------------------------------------------------------------------


def check_form(native: Computed, device: Computed, case: Case) -> None:
    """Shapes, element types and, eager, aliases are those of CPU. Raises Failed."""
    if len(device.outputs) != len(native.outputs):
        raise Failed(f"{len(device.outputs)} results instead of {len(native.outputs)}")
    for position, (got, want) in enumerate(zip(device.outputs, native.outputs, strict=True)):
        if got.dtype != want.dtype or got.shape != want.shape:
            raise Failed(
                f"result {position} is {str(got.dtype).removeprefix('torch.')}{list(got.shape)} "
                f"instead of {str(want.dtype).removeprefix('torch.')}{list(want.shape)}"
            )
    if not case.compiled and device.aliases != native.aliases:
        raise Failed(f"results share memory with the arguments {device.aliases}, on CPU with {native.aliases}")


def by_shape(native: Computed, device: Computed) -> list[Result]:
    return [
        Result(f"shape{position}", shape, shape, torch.tensor(got.shape, dtype=torch.int64))
        for position, (got, want) in enumerate(zip(device.outputs, native.outputs, strict=True))
        for shape in [torch.tensor(want.shape, dtype=torch.int64)]
    ]


def observed(case: Case, computed: Computed) -> dict[str, torch.Tensor]:
    """What of an evaluation is compared, as the operator's rule has it, computed in f64."""
    if case.backward:
        return {f"gradient{position}": tensor for position, tensor in enumerate(computed.outputs)}
    if case.subject not in aten_rules.RULES:
        return aten_rules.observables(case.subject, computed.outputs, None)
    with default_dtype(torch.float64):
        arguments = converted(case.arguments(), doubled, "cpu", double=True)
        return aten_rules.observables(case.subject, [doubled(t) for t in computed.outputs], arguments)


def rounded(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An observable of a result in `dtype` back in that precision."""
    if tensor.dtype == torch.complex128 and dtype != torch.complex128:
        return tensor.to(torch.complex64)
    return tensor.to(dtype) if tensor.dtype == torch.float64 and dtype.is_floating_point else tensor


def results(case: Case, exact: Computed, native: Computed, device: Computed) -> list[Result]:
    references, near, got = (observed(case, computed) for computed in (exact, native, device))
    floating = next((t.dtype for t in native.outputs if t.is_floating_point()), torch.float32)
    ruled = not case.backward and case.subject in aten_rules.RULES
    found = [
        Result(name, references[name], *(rounded(t, floating) if ruled else t for t in (near[name], got[name])))
        for name in near
    ]
    return found + changed_arguments(case, exact, native, device)


def changed_arguments(case: Case, exact: Computed, native: Computed, device: Computed) -> list[Result]:
    """The arguments that CPU or the device has written to."""
    before = [leaf for leaf in tree_leaves(case.arguments()) if isinstance(leaf, torch.Tensor)]
    found = []
    for position, (was, want, got) in enumerate(zip(before, native.arguments, device.arguments, strict=False)):
        if same(was.detach(), want) and same(was.detach(), got):
            continue
        if got.shape != want.shape:
            raise Failed(f"argument {position} is of shape {list(got.shape)} afterwards instead of {list(want.shape)}")
        reference = exact.arguments[position] if want.is_floating_point() or want.is_complex() else want
        found.append(Result(f"argument{position}", reference, want, got))
    return found


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal, NaNs included."""
    if one.layout != torch.strided or other.layout != torch.strided:
        return True
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and bool(((one == other) | ((one != one) & (other != other))).all())
    )


def run(case_id: str, context: Context) -> Measured:
    case = parse(case_id)
    torch.set_float32_matmul_precision("highest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cotangents: list[torch.Tensor] = []
        native, used, is_random = on_cpu(case, cotangents)
        by_property = is_random or case.subject in aten_rules.UNINITIALISED
        exact = native if by_property else in_double(case, native, cotangents)
        computed, seconds = on_device(case, context, cotangents, repeat=is_random)
        context.stage("run")
        for each in computed:
            check_form(native, each, case)
        if not by_property:
            found = results(case, exact, native, computed[0])
        else:
            if is_random and not all(map(same, computed[0].outputs, computed[1].outputs)):
                raise Failed("two calls from the same seed give different numbers")
            found = by_shape(native, computed[0])
    return Measured(found, seconds, operators=sorted(used), figures={"compared": "shape" if by_property else "numbers"})
