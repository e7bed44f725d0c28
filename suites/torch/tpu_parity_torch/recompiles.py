"""The suite `recompiles`: a serving loop over 50 sequence lengths, compiled: how often it compiles and how long that takes
with no buckets, with powers of two and with given ones.

A second pass over the same lengths must compile nothing. The numbers compared are the sums of the logits at each length.
"""

import bisect
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo

from . import tiny, trial
from .device import seed_cpu
from .suite import CaseSpec, Context, Failed, Measured, Options, Skipped, seed_of
from .trial import Named

REQUESTS = 50
LONGEST = 60
GIVEN = (16, 32, 48, 64)
SUBJECT = "llama"


@dataclass(frozen=True)
class Policy:
    """What length a request is padded to."""

    about: str
    padded: Callable[[int], int]
    # Whether torch.compile may make sizes symbolic: None lets it decide, as users have it by default.
    dynamic: bool | None = None


def power_of_two(length: int) -> int:
    return 1 << (length - 1).bit_length()


def given(length: int) -> int:
    return GIVEN[bisect.bisect_left(GIVEN, length)]


POLICIES = {
    "none": Policy("no buckets, sizes as torch.compile has them by default", lambda length: length),
    "none-static": Policy("no buckets, dynamic=False", lambda length: length, dynamic=False),
    "none-dynamic": Policy("no buckets, dynamic=True", lambda length: length, dynamic=True),
    "powers-of-two": Policy("padded to powers of two", power_of_two, dynamic=False),
    "given": Policy(f"padded to {', '.join(map(str, GIVEN))}", given, dynamic=False),
}


def lengths() -> list[int]:
    """Fifty lengths, all different, in no order."""
    return random.Random(seed_of("recompiles")).sample(range(3, LONGEST), REQUESTS)


def buckets(policy: Policy) -> int:
    return len({policy.padded(length) for length in lengths()})


def cases(options: Options) -> Iterator[CaseSpec]:
    for name, policy in POLICIES.items():
        about = f"{REQUESTS} sequence lengths served by a compiled Llama, {policy.about}"
        yield CaseSpec(f"recompiles/{SUBJECT}/{name}", SUBJECT, about)


def request(length: int, padded: int) -> torch.Tensor:
    """Tokens, padded at their end, which a causal model's earlier positions do not see."""
    tokens = torch.randint(len(tiny.SPECIAL), tiny.VOCABULARY, (1, length), generator=torch.Generator().manual_seed(length))
    return torch.nn.functional.pad(tokens, (0, padded - length), value=1)


def serve(step: Callable[[torch.Tensor], torch.Tensor], policy: Policy, kind: str) -> torch.Tensor:
    """The last token's logits of each request."""
    answers = []
    for length in lengths():
        logits = step(request(length, policy.padded(length)).to(kind))
        answers.append(logits[0].cpu()[length - 1])
    return torch.stack(answers)


def step_of(model: torch.nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    def step(tokens: torch.Tensor) -> torch.Tensor:
        return model(input_ids=tokens).logits

    return step


def on_cpu(seed: int, dtype: torch.dtype, policy: Policy) -> Named:
    seed_cpu(seed)
    model = tiny.llama().eval().to(dtype)
    return {"logits": serve(step_of(model), policy, "cpu")}


def compiled_step(model: torch.nn.Module, policy: Policy, context: Context) -> Callable[[torch.Tensor], torch.Tensor]:
    if context.device.kind == "cpu":
        return torch.compile(step_of(model), backend="aot_eager", dynamic=policy.dynamic)
    return torch.compile(step_of(model), dynamic=policy.dynamic)


def run(case_id: str, context: Context) -> Measured:
    match case_id.split("/"):
        case ["recompiles", "llama", name] if name in POLICIES:
            policy = POLICIES[name]
        case _:
            raise Skipped(f"{case_id} is no id of this suite")
    seed = seed_of("recompiles", SUBJECT)
    # Without room for a graph a length, torch.compile would give up after a few and run eager.
    limits: dict[str, Any] = {"recompile_limit": REQUESTS + 2, "accumulated_recompile_limit": 4 * REQUESTS}
    with torch.no_grad(), trial.highest_precision(), torch._dynamo.config.patch(limits):
        native = on_cpu(seed, torch.float32, policy)
        references = on_cpu(seed, torch.float64, policy)
        seed_cpu(seed)
        model = tiny.llama().eval().to(context.device.kind)
        torch._dynamo.reset()
        try:
            step = compiled_step(model, policy, context)
            context.stage("compile")
            counted = [trial.counts(context.device)]
            seconds = []
            answers = []
            for _ in range(2):
                begun = time.perf_counter()
                answers.append(serve(step, policy, context.device.kind))
                seconds.append(time.perf_counter() - begun)
                counted.append(trial.counts(context.device))
                context.stage("run")
        finally:
            torch._dynamo.reset()
    graphs, programs = (counted[1][i] - counted[0][i] for i in (0, 1))
    trial.refuse_recompile(counted[1], counted[2])
    if policy.dynamic is False and graphs > buckets(policy):
        raise Failed(f"{graphs} graphs compiled for {buckets(policy)} lengths")
    figures = {
        "requests": REQUESTS,
        "lengths": buckets(policy),
        "graphs": graphs,
        "programs": programs,
        "seconds_first_pass": round(seconds[0], 4),
        "seconds_second_pass": round(seconds[1], 4),
        "seconds_lost": round(seconds[0] - seconds[1], 4),
    }
    return Measured(trial.joined(references, native, {"logits": answers[0]}), seconds[0], figures=figures)
