"""Opens the device that cases run on: TorchTPU's `tpu`, PyTorch/XLA's `xla`, or PyTorch's own CPU, with which the suites check
themselves.

This is the one file that knows how TorchTPU is made to register its device where no TPU is on the PCI bus, which takes a
private function, how PyTorch/XLA is given a plug-in, and how the virtual TPU is asked for what it compiled. It chooses no plug-in:
the environment does. Where both frameworks could be meant, TPU_PARITY_FRAMEWORK says which: torch_tpu (the default) or torch_xla.
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
PACKAGES = ("torch", "torch_tpu", "torch_xla", "transformers", "diffusers", "peft", "accelerate", "trl", "libtpu")
COMPILE_LOG = "TPU_PARITY_COMPILE_LOG"
FRAMEWORK = "TPU_PARITY_FRAMEWORK"


class DeviceError(Exception):
    """The device cannot be opened; says why and what to do."""


@dataclass
class Device:
    """An open device."""

    # As PyTorch names it: `cpu`, `tpu` or `xla`.
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
        if self.kind == "xla":
            importlib.import_module("torch_xla").manual_seed(seed)
        elif self.kind != "cpu":
            torch.get_device_module(self.kind).manual_seed_all(seed)

    def synchronize(self) -> None:
        if self.kind == "xla":
            # Operators are recorded until then, and compiled together.
            importlib.import_module("torch_xla").sync(wait=True)
        elif self.kind != "cpu":
            torch.get_device_module(self.kind).synchronize()

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`torch.compile` as a user calls it; on CPU without Inductor, which would need a C++ compiler."""
        if self.kind == "cpu":
            return torch.compile(function, backend="aot_eager", dynamic=False)
        if self.kind == "xla":
            return torch.compile(function, backend="openxla")
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


def open_torch_xla(log: pathlib.Path | None) -> Device:
    """Gives PyTorch/XLA the plug-in that TPU_LIBRARY_PATH names, through its interface for plug-ins, and opens the device.

    Raises DeviceError.
    """
    try:
        plugins = importlib.import_module("torch_xla.experimental.plugins")
        torch_xla = importlib.import_module("torch_xla")
        model = importlib.import_module("torch_xla.core.xla_model")
    except ImportError as error:
        raise DeviceError(f"PyTorch/XLA cannot be imported: {error}; it needs an environment of its own") from error

    class Plugin(plugins.DevicePlugin):  # type: ignore[misc, name-defined]
        def library_path(self) -> str:
            return os.environ["TPU_LIBRARY_PATH"]

        def physical_chip_count(self) -> int:
            return 1

    try:
        plugins.use_dynamic_plugins()
        plugins.register_plugin("TPU_PARITY", Plugin())
        os.environ["PJRT_DEVICE"] = "TPU_PARITY"
        device = torch_xla.device()
        torch.ones(1).to(device).cpu()
        name = f"{model.xla_device_hw(device)} by PyTorch/XLA"
    except Exception as error:
        raise DeviceError(f"PyTorch/XLA does not open the device: {error}") from error
    return Device("xla", name, log)


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
    framework = os.environ.get(FRAMEWORK, "torch_tpu")
    if framework == "torch_xla":
        return open_torch_xla(log)
    if framework != "torch_tpu":
        raise DeviceError(f"{FRAMEWORK}={framework}: write torch_tpu or torch_xla")
    register_tpu()
    try:
        # The device opens with the first tensor.
        torch.ones(1).to("tpu").cpu()
        name = str(torch.get_device_module("tpu").get_device_name())
    except Exception as error:
        raise DeviceError(f"torch_tpu {_version()} does not open the device: {error}") from error
    return Device("tpu", name, log)
