"""What a suite is: a module that lists cases and runs one by its id. What both sides of that hand each other is defined here.

How a case crosses the process boundary is worker.py's and exchange.py's business; what a failure means, outcome.py's.
"""

import contextlib
import hashlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .device import Device

# Each name is imported only when asked for: a suite's library may be missing or slow to import.
SUITES = {
    "aten": "tpu_parity_torch.aten",
    "transformers": "tpu_parity_torch.transformers",
    "diffusers": "tpu_parity_torch.diffusers",
    "peft": "tpu_parity_torch.peft",
    "accelerate": "tpu_parity_torch.accelerate",
    "trl": "tpu_parity_torch.trl",
    "recompiles": "tpu_parity_torch.recompiles",
    "kernels": "tpu_parity_torch.kernels",
}


@dataclass(frozen=True)
class Options:
    """What a listing was asked for."""

    # Sample inputs of each operator and element type.
    samples: int = 1


@dataclass(frozen=True)
class CaseSpec:
    """A case as listed; with `skip`, one that cannot be made, and why."""

    id: str
    subject: str
    about: str
    skip: str | None = None

    def to_json(self) -> dict[str, str]:
        line = {"id": self.id, "subject": self.subject, "suite": self.id.split("/", 1)[0], "about": self.about}
        return line if self.skip is None else line | {"skip": self.skip}


@dataclass(frozen=True)
class Result:
    """One tensor of a case: from the reference, from CPU in the case's own precision, from the device (moved to CPU).

    The reference is in f64 or c128 where the case can be computed so; the other two agree in shape and element type.
    """

    name: str
    reference: torch.Tensor
    cpu: torch.Tensor
    device: torch.Tensor


@dataclass
class Measured:
    """What running a case gave."""

    results: list[Result]
    # Seconds on the device, compilation included.
    seconds: float
    # Programs compiled for the device, where the device can tell.
    compiles: int | None = None
    operators: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


class Skipped(Exception):
    """The case cannot be judged, for a reason that isn't the device's."""


class Failed(Exception):
    """The device's result is wrong in something other than its numbers: a shape, an element type, an alias, a recompile."""


@dataclass
class Context:
    """What a case is given to run with."""

    device: Device
    stage: Callable[[str], None]

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.device.compile(function)


class Suite(Protocol):
    """The functions a suite's module offers."""

    def cases(self, options: Options) -> Iterator[CaseSpec]:
        """Every case, without opening a device."""

    def run(self, case_id: str, context: Context) -> Measured:
        """Runs one case.

        Raises Skipped, Failed, or whatever the library under test raises."""


def load(name: str) -> Suite:
    """The suite's module.

    Raises KeyError where there is no such suite, and ImportError where its library is not installed."""
    return importlib.import_module(SUITES[name])  # type: ignore[return-value]


def seed_of(*parts: str) -> int:
    """A seed that depends on the names alone, not on the order of cases or Python's own hashing."""
    return int.from_bytes(hashlib.sha256("/".join(parts).encode()).digest()[:6], "big")


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.add(str(func.overloadpacket))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def operators_used() -> Iterator[set[str]]:
    """Collects the names (`aten.addmm`) of the operators that PyTorch dispatches within."""
    mode = _Operators()
    with mode:
        yield mode.seen
