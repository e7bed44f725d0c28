"""The cases of the suite `transformers`, `transformers/<model>/<step>/<element type>/<mode>`, and how one is run and compared.

Listing reads models.json alone. The reference is the same checkpoint on CPU in f64; where a model cannot compute so, CPU in the
case's own precision, and the figure `reference` says it.
"""

import contextlib
import functools
import gc
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo

from ..device import Device, graphs, seed_cpu
from ..suite import CaseSpec, Context, Failed, Measured, Options, Result, Skipped, operators_used
from . import inputs, models, steps
from .models import Model
from .outputs import in_double

ELEMENT_TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
EAGER_ATTENTION = "-eager-attention"
# (Step, element type, mode) of each case of a model. Its attention is the library's default, but for the steps that end in
# EAGER_ATTENTION: the default may be a kernel that the virtual TPU compiles and cannot run.
VARIANTS = tuple(
    (step + attention, short, mode)
    for attention in ("", EAGER_ATTENTION)
    for step, short, mode in (
        ("forward", "f32", "eager"),
        ("forward", "f32", "compile"),
        ("forward", "bf16", "eager"),
        ("loss-backward", "f32", "eager"),
        ("optimizer-step", "f32", "eager"),
        ("generate", "f32", "eager"),
        ("save-load", "f32", "eager"),
    )
    # A checkpoint knows nothing of the attention; its forward pass is with what the virtual TPU can run.
    if attention == "" or step != "save-load"
)
WHAT = {
    "forward": "forward pass",
    "loss-backward": "loss and gradients",
    "optimizer-step": "one step of AdamW",
    "generate": "greedy generation with a static cache",
    "save-load": "saving, loading and a forward pass",
}


def cases(options: Options) -> Iterator[CaseSpec]:
    for subject, entry in sorted(models.made().items()):
        for step, short, mode in VARIANTS:
            if not offers(entry, step):
                continue
            about = f"{entry.type} ({entry.auto}): {what(step)} in {short}, {mode}"
            yield CaseSpec(f"transformers/{subject}/{step}/{short}/{mode}", subject, about, reason_to_skip(entry, step))
    for subject, reason in sorted(models.unmade().items()):
        about = f"{subject}: no small model of it is made by rule"
        yield CaseSpec(f"transformers/{subject}/forward/f32/eager", subject, about, f"cannot be made: {reason}")


def what(step: str) -> str:
    plain = step.removesuffix(EAGER_ATTENTION)
    return WHAT[plain] + (" with eager attention" if plain != step else "")


def offers(entry: Model, step: str) -> bool:
    """Whether a model has such a step at all."""
    if step.endswith(EAGER_ATTENTION) and entry.attention == "eager":
        return False
    return step.removesuffix(EAGER_ATTENTION) != "generate" or entry.auto == models.CAUSAL


def reason_to_skip(entry: Model, step: str) -> str | None:
    step = step.removesuffix(EAGER_ATTENTION)
    if step == "generate" and not entry.generates:
        return "CPU does not generate with a static cache either"
    if step == "save-load" and entry.unsaved is not None:
        return f"CPU does not load what it saves: {entry.unsaved}"
    if step in ("loss-backward", "optimizer-step") and entry.no_gradient is not None:
        return f"CPU has no gradients: {entry.no_gradient}"
    return None


@dataclass(frozen=True)
class Case:
    entry: Model
    step: str
    # None for the library's default.
    attention: str | None
    dtype: torch.dtype
    compiled: bool

    def run(self, model: Any, given: steps.Inputs, place: steps.Place) -> steps.Tensors:
        return steps.STEPS[self.step](self.entry, model, given, place)


def parse(case_id: str) -> Case:
    """The case of an id. Raises Skipped where there is none such here."""
    match case_id.split("/"):
        case ["transformers", subject, step, short, mode] if (step, short, mode) in VARIANTS:
            pass
        case _:
            raise Skipped(f"{case_id} is no id of this suite")
    if reason := models.unmade().get(subject):
        raise Skipped(f"cannot be made: {reason}")
    entry = models.made().get(subject)
    if entry is None or not offers(entry, step):
        raise Skipped(f"the table of models has no such case: {case_id}")
    if reason := reason_to_skip(entry, step):
        raise Skipped(reason)
    eager = step.endswith(EAGER_ATTENTION) or (step == "save-load" and entry.attention != "eager")
    attention = "eager" if eager else None
    return Case(entry, step.removesuffix(EAGER_ATTENTION), attention, ELEMENT_TYPES[short], mode == "compile")


@functools.lru_cache(maxsize=1)
def checkpoint(subject: str) -> tempfile.TemporaryDirectory:
    """The saved model, kept while cases are of this model. Raises Skipped where this version of the library makes none."""
    entry = models.made()[subject]
    try:
        model = models.build(models.configuration(entry.type, list(entry.without)), entry.auto, entry.seed)
        folder = tempfile.TemporaryDirectory(prefix="tpu-parity-")
        model.save_pretrained(folder.name)
    except Exception as error:
        raise Skipped(f"this version of the library does not make it: {type(error).__name__}: {error}") from error
    return folder


def loaded(case: Case, device: str) -> Any:
    """The case's model on a device. Where a checkpoint does not give the model again, it is made there and moved."""
    entry = case.entry
    if entry.unsaved is None:
        return models.load(checkpoint(models.subject(entry.type)).name, entry.auto, device, case.dtype, case.attention)
    model = models.build(models.configuration(entry.type, list(entry.without)), entry.auto, entry.seed)
    if case.attention is not None:
        model.set_attn_implementation(case.attention)
    return model.to(device=device, dtype=case.dtype)


@dataclass
class OnCpu:
    exact: steps.Tensors
    native: steps.Tensors
    given: steps.Inputs
    operators: list[str]
    # `f64`, or why that could not be computed.
    reference: str


def on_cpu(case: Case) -> OnCpu:
    """Raises Skipped where CPU does not compute it."""
    place = steps.Place("cpu", seed=seed_cpu)
    try:
        model = loaded(case, "cpu")
        given = inputs.make(case.entry.plan, model.config, case.entry.seed)
        double = steps.doubled(model)
        with operators_used() as used:
            native = case.run(model, steps.cast(given, case.dtype, "cpu"), place)
    except Skipped:
        raise
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise Skipped(f"CPU does not compute it: {type(error).__name__}: {first}") from error
    reference = "f64"
    try:
        numbers = steps.cast(steps.cast(given, case.dtype, "cpu"), torch.float64, "cpu")
        with in_double():
            if case.step == "save-load":
                exact = steps.forward(case.entry, double, numbers, place)
            else:
                exact = case.run(double, numbers, place)
        if {n: t.shape for n, t in exact.items()} != {n: t.shape for n, t in native.items()}:
            raise ValueError("f64 gives other shapes")
    except Exception as error:
        exact, reference = native, f"{type(error).__name__}: {error}"[:160]
    return OnCpu(exact, native, given, sorted(used), reference)


def on_device(case: Case, context: Context, given: steps.Inputs) -> tuple[steps.Tensors, float, float]:
    """(Results, seconds of the step, seconds of loading)."""
    device = context.device
    context.stage("run")
    begun = time.perf_counter()
    model = loaded(case, device.kind)
    ready = time.perf_counter()
    called = model
    if case.compiled:
        context.stage("compile")
        called = context.compile(model)
    place = steps.Place(device.kind, lambda _: called, device.seed)
    got = case.run(model, steps.cast(given, case.dtype, device.kind), place)
    seconds = time.perf_counter() - ready
    if case.compiled:
        before = _compiled(device)
        context.stage("run")
        case.run(model, steps.cast(given, case.dtype, device.kind), place)
        if (after := _compiled(device)) != before:
            more = f"{after[0] - before[0]} graphs, {after[1] - before[1]} programs"
            raise Failed(f"a second call with the same shapes compiled again: {more}")
    return got, seconds, ready - begun


def _compiled(device: Device) -> tuple[int, int]:
    return graphs(), device.programs() or 0


def check_form(native: steps.Tensors, got: steps.Tensors) -> None:
    """The same names, shapes and element types as on CPU. Raises Failed."""
    if native.keys() != got.keys():
        raise Failed(f"results {sorted(native.keys() ^ got.keys())} are there on one device alone")
    for name, want in native.items():
        if (got[name].dtype, got[name].shape) != (want.dtype, want.shape):
            raise Failed(
                f"{name} is {str(got[name].dtype).removeprefix('torch.')}{list(got[name].shape)} "
                f"instead of {str(want.dtype).removeprefix('torch.')}{list(want.shape)}"
            )


def results(case: Case, cpu: OnCpu, got: steps.Tensors) -> list[Result]:
    check_form(cpu.native, got)
    if case.entry.random:
        shapes = {name: torch.tensor(t.shape, dtype=torch.int64) for name, t in cpu.native.items()}
        return [Result(f"shape.{name}", shapes[name], shapes[name], torch.tensor(got[name].shape)) for name in shapes]
    exact, native = cpu.exact, cpu.native
    if case.step in ("loss-backward", "optimizer-step"):
        exact, native, got = steps.merge_vanishing(exact, native, got)
    found = []
    for name, want in native.items():
        if not want.numel():
            continue
        floating = want.is_floating_point() or want.is_complex()
        found.append(Result(name, exact[name] if floating else want, want, got[name]))
    return found


@contextlib.contextmanager
def _tidy() -> Iterator[None]:
    """Frees what a model leaves behind: compiled code, and reference cycles that hold its parameters."""
    torch._dynamo.reset()
    try:
        yield
    finally:
        torch._dynamo.reset()
        gc.collect()


def run(case_id: str, context: Context) -> Measured:
    case = parse(case_id)
    torch.set_float32_matmul_precision("highest")
    with _quiet(), _tidy():
        cpu = on_cpu(case)
        if case.step == "generate" and not torch.equal(cpu.exact["tokens"], cpu.native["tokens"]):
            raise Skipped("CPU in f64 and CPU in f32 choose different tokens")
        got, seconds, load_seconds = on_device(case, context, cpu.given)
        found = results(case, cpu, got)
    figures = {
        "compared": "shape" if case.entry.random else "numbers",
        "reference": cpu.reference,
        "load_seconds": round(load_seconds, 3),
        "parameters": case.entry.parameters,
    }
    return Measured(found, seconds, operators=cpu.operators, figures=figures)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    yield
