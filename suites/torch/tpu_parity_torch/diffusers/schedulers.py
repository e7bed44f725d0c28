"""Every scheduler of Diffusers: three steps of a denoising loop, with model outputs and sample on the device.

A scheduler that wants more than a model's output, a time and a sample is listed with the reason. Random numbers come from a
generator on CPU, as Diffusers recommends for results that do not depend on the device.
"""

import inspect
import time
from collections.abc import Iterator
from typing import Any

import diffusers
import torch

from .. import trial
from ..device import seed_cpu
from ..suite import CaseSpec, Context, Measured, Options, Skipped, operators_used, seed_of
from ..trial import Named

STEPS = 10
TAKEN = 3
MODE = "step"
# What a step's arguments are called in the schedulers of the ordinary kind.
ORDINARY = {"model_output", "timestep", "sample"}


def subjects() -> dict[str, str]:
    """Class names by subject: `ddim` is DDIMScheduler."""
    names = sorted(name for name in dir(diffusers) if name.endswith("Scheduler") and name != "OnnxScheduler")
    return {name.removesuffix("Scheduler").lower(): name for name in names}


def unlike(name: str) -> str | None:
    """Why a scheduler cannot be stepped by rule; None if it can."""
    kind = getattr(diffusers, name)
    if not inspect.isclass(kind):
        return f"{name} is no class"
    if getattr(kind, "_backends", None):
        return f"Diffusers says it needs {', '.join(kind._backends)}"
    if not hasattr(kind, "step") or not hasattr(kind, "set_timesteps"):
        return "it has no step and set_timesteps"
    needed = {
        parameter.name
        for parameter in list(inspect.signature(kind.step).parameters.values())[1:]
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    if needed != ORDINARY:
        return f"its step takes {', '.join(sorted(needed))}"
    return None


def cases(options: Options) -> Iterator[CaseSpec]:
    for subject, name in subjects().items():
        about = f"{name}: {TAKEN} of {STEPS} steps from a random sample"
        yield CaseSpec(f"diffusers/scheduler.{subject}/{MODE}", f"scheduler.{subject}", about, unlike(name))


def steps(name: str, kind: str, dtype: torch.dtype, seed: int) -> Named:
    """The sample after each step."""
    scheduler: Any = getattr(diffusers, name)()
    wanted = inspect.signature(scheduler.set_timesteps).parameters
    scheduler.set_timesteps(STEPS, **({"device": kind} if "device" in wanted else {}))
    accepted = inspect.signature(scheduler.step).parameters
    numbers = torch.Generator().manual_seed(seed)
    shape = (1, 4, 8, 8)
    sample = torch.randn(shape, generator=numbers).to(kind, dtype)
    sample = sample * scheduler.init_noise_sigma if hasattr(scheduler, "init_noise_sigma") else sample
    found = {}
    for position, moment in enumerate(scheduler.timesteps[:TAKEN]):
        output = torch.randn(shape, generator=numbers).to(kind, dtype)
        given = scheduler.scale_model_input(sample, moment) if hasattr(scheduler, "scale_model_input") else sample
        extra = {"generator": torch.Generator().manual_seed(seed + position)} if "generator" in accepted else {}
        sample = scheduler.step(output, moment, sample, **extra)
        sample = sample[0] if isinstance(sample, tuple) else sample.prev_sample
        found[f"input{position}"] = given.detach().cpu()
        found[f"sample{position}"] = sample.detach().cpu()
    return found


def run(case_id: str, name: str, mode: str, context: Context) -> Measured:
    kind = subjects().get(name)
    if kind is None or mode != MODE:
        raise Skipped(f"this version has no such case: {case_id}")
    if (reason := unlike(kind)) is not None:
        raise Skipped(reason)
    seed = seed_of(case_id)
    seed_cpu(seed)
    with torch.no_grad(), trial.highest_precision():
        try:
            with operators_used() as used:
                native = steps(kind, "cpu", torch.float32, seed)
        except (TypeError, ValueError, AttributeError, IndexError, RuntimeError, KeyError) as error:
            raise Skipped(f"on CPU it says: {type(error).__name__}: {error}") from error
        with trial.drawn_in_single():
            references = trial.in_double(lambda: steps(kind, "cpu", torch.float64, seed), native)
        context.stage("run")
        begun = time.perf_counter()
        got = steps(kind, context.device.kind, torch.float32, seed)
        seconds = time.perf_counter() - begun
    return Measured(trial.joined(references, native, got), seconds, operators=sorted(used))
