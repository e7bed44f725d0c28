"""What a model returns, as named tensors; and the reference in f64 of a model that asks for f32 here and there."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map


def named_tensors(output: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of an output by name: `logits`, `hidden_states.0`. Caches are left out: they are the model's memory."""
    if isinstance(output, torch.Tensor):
        yield name or "out", output
    elif isinstance(output, dict):
        for key, value in output.items():
            yield from named_tensors(value, f"{name}.{key}" if name else str(key))
    elif isinstance(output, list | tuple):
        for position, value in enumerate(output):
            yield from named_tensors(value, f"{name}.{position}" if name else str(position))


class _InDouble(TorchFunctionMode):
    """Replaces f32 by f64 wherever a function is asked for it: models convert to f32 for more than their own precision."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            return args[0].double()
        args, kwargs = tree_map(_doubled, (args, kwargs or {}))
        return func(*args, **kwargs)


def _doubled(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


@contextlib.contextmanager
def in_double() -> Iterator[None]:
    """Within, everything that a model converts to f32 is f64, and so is what it makes without saying."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _InDouble():
            yield
    finally:
        torch.set_default_dtype(before)
