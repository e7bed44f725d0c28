"""Opens the device that cases run on: TorchTPU's `tpu`, or PyTorch's own CPU, with which the suites check themselves.

This is the one file that knows how TorchTPU is made to register its device where no TPU is on the PCI bus, which takes a
private function, and how the virtual TPU is asked for what it compiled. It chooses no plug-in: the environment does.
"""

import importlib
import importlib.metadata
import json
import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo

# What the versions of which are worth knowing, when they are installed.
PACKAGES = ("torch", "torch_tpu", "transformers", "diffusers", "peft", "accelerate", "trl", "libtpu")
COMPILE_LOG = "TPU_PARITY_COMPILE_LOG"


class DeviceError(Exception):
    """The device cannot be opened; says why and what to do."""


@dataclass
class Device:
    """An open device."""

    # As PyTorch names it: `cpu` or `tpu`.
    kind: str
    # As the hardware, or what stands for it, names itself.
    name: str
    # The compile log of the virtual TPU.
    log: pathlib.Path | None = None
    _read: int = field(default=0, repr=False)
    _programs: int = field(default=0, repr=False)

    def to(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.kind)

    def seed(self, seed: int) -> None:
        """Seeds the device's generator and CPU's."""
        seed_cpu(seed)
        if self.kind != "cpu":
            torch.get_device_module(self.kind).manual_seed_all(seed)

    def synchronize(self) -> None:
        if self.kind != "cpu":
            torch.get_device_module(self.kind).synchronize()

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`torch.compile` as a user calls it; on CPU without Inductor, which would need a C++ compiler."""
        if self.kind == "cpu":
            return torch.compile(function, backend="aot_eager", dynamic=False)
        return torch.compile(function)

    def programs(self) -> int | None:
        """How many programs this process has had compiled for the device so far, where that can be told."""
        if self.log is None:
            return None
        try:
            with self.log.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return 0
        # Another process may be in the middle of a line.
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        self._programs += sum(json.loads(line).get("process") == os.getpid() for line in whole.splitlines())
        return self._programs


def seed_cpu(seed: int) -> None:
    """Seeds CPU's generator alone. torch.manual_seed formats a traceback for CUDA each time, which is slow."""
    torch.default_generator.manual_seed(seed)


def graphs() -> int:
    """How many graphs `torch.compile` has compiled in this process since its last reset."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def packages() -> list[str]:
    """Name and version of each of the packages that is installed: `torch 2.15.0`."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _version() -> str:
    try:
        return importlib.metadata.version("torch_tpu")
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"


def register_tpu() -> None:
    """Has TorchTPU register the device `tpu`, whether or not it finds a TPU on the PCI bus.

    Raises DeviceError where TorchTPU is missing or has no such function any more.
    """
    try:
        loader = importlib.import_module("torch_tpu._loader")
    except ImportError as error:
        raise DeviceError(f"TorchTPU cannot be imported: {error}; ci/setup --torch installs it") from error
    register = getattr(loader, "_init_device", None)
    if register is None:
        raise DeviceError(
            f"torch_tpu {_version()} has no torch_tpu._loader._init_device, through which its device is registered where "
            "no TPU is on the PCI bus: find what takes its place, and change suites/torch/tpu_parity_torch/device.py"
        )
    try:
        register("tpu")
    except Exception as error:
        raise DeviceError(f"torch_tpu {_version()} does not register its device: {error}") from error


def open_device(target: str, exchange: str) -> Device:
    """Opens the device for a target: `cpu`, `tpu` or `vtpu-<gen>`. The plug-in is the one that TPU_LIBRARY_PATH names.

    Raises DeviceError.
    """
    if target == "cpu":
        return Device("cpu", "CPU")
    log = None
    if target.startswith("vtpu-"):
        if not os.environ.get("TPU_LIBRARY_PATH"):
            raise DeviceError(f"{target}: TPU_LIBRARY_PATH does not name the virtual TPU's plug-in")
        log = pathlib.Path(os.environ.setdefault(COMPILE_LOG, str(pathlib.Path(exchange) / f"compiles-{os.getpid()}.jsonl")))
    register_tpu()
    try:
        # The device opens with the first tensor.
        torch.ones(1).to("tpu").cpu()
        name = str(torch.get_device_module("tpu").get_device_name())
    except Exception as error:
        raise DeviceError(f"torch_tpu {_version()} does not open the device: {error}") from error
    return Device("tpu", name, log)
