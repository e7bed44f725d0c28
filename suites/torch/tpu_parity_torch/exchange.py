"""Tensors on their way to the program that compares them: one safetensors file a case, in shared memory.

Each result NAME is there as `reference.NAME`, `cpu.NAME` and `device.NAME`. safetensors has no c128, so complex numbers
cross as pairs of real ones along a last dimension of 2, in all three. The reader deletes the file.
"""

import os
import pathlib
from collections.abc import Iterable
from typing import Any

import torch
from safetensors.torch import save_file

from .suite import Result


def real_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in plain memory of its own, complex numbers as pairs (real, imaginary) along a last dimension."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.contiguous().clone()


def is_integer(tensor: torch.Tensor) -> bool:
    """Whether the element type is an integer or bool, which are compared exactly."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def write(folder: pathlib.Path, name: str, results: Iterable[Result]) -> tuple[pathlib.Path, list[dict[str, Any]]]:
    """Writes a case's results; gives the file and what the answer says of each."""
    tensors: dict[str, torch.Tensor] = {}
    table = []
    for result in results:
        tensors[f"reference.{result.name}"] = real_pairs(result.reference)
        tensors[f"cpu.{result.name}"] = real_pairs(result.cpu)
        tensors[f"device.{result.name}"] = real_pairs(result.device)
        table.append({"name": result.name, "integer": is_integer(result.cpu)})
    file = folder / f"{name}-{os.getpid()}.safetensors"
    save_file(tensors, file)
    return file, table
