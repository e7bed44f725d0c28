"""The steps that a model is taken through, on CPU, in f64 and on the device. Each gives named tensors.

What is compared of them, and how the cases are named, is in `case.py`.
"""

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..suite import Failed
from . import inputs, models
from .models import Model
from .outputs import named_tensors

Tensors = dict[str, torch.Tensor]
Inputs = dict[str, torch.Tensor]

NEW_TOKENS = 4
# AdamW's first step is the gradient's sign where epsilon is small, and rounding decides the sign of what is nearly 0.
ADAMW = {"lr": 1e-2, "eps": 1e-2}
# A gradient this much smaller than the model's largest vanishes in exact arithmetic (a bias that softmax takes out again).
VANISHING = 1e-6


@dataclass(frozen=True)
class Place:
    """Where and how a step runs."""

    # As PyTorch names it.
    device: str
    # Prepares a model for calls: `torch.compile`, or nothing.
    prepare: Callable[[Any], Any] = lambda model: model
    seed: Callable[[int], None] = lambda seed: None


def cast(given: Inputs, dtype: torch.dtype, device: str) -> Inputs:
    """Inputs of their own, the numbers among them in `dtype`."""
    return {name: (t.to(dtype) if t.is_floating_point() else t.clone()).to(device) for name, t in given.items()}


def on_cpu(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def forward(entry: Model, model: Any, given: Inputs, place: Place) -> Tensors:
    place.seed(entry.seed)
    with torch.no_grad():
        return on_cpu(dict(named_tensors(place.prepare(model)(**given))))


def loss_of(entry: Model, model: Any, given: Inputs) -> torch.Tensor:
    """The model's own loss, or where no rule makes labels for it the mean squares of what it returns."""
    if entry.labels is not None:
        labels = inputs.labels(entry.labels, given, model.config).to(next(iter(given.values())).device)
        return model(**given, labels=labels).loss
    found = [t for _, t in named_tensors(model(**given)) if t.requires_grad and t.is_floating_point()]
    return torch.stack([t.square().mean() for t in found]).sum()


def parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def loss_backward(entry: Model, model: Any, given: Inputs, place: Place) -> Tensors:
    place.seed(entry.seed)
    loss = loss_of(entry, model, given)
    loss.backward()
    gradients = {f"gradient.{name}": p.grad for name, p in parameters(model).items() if p.grad is not None}
    return on_cpu({"loss": loss, **gradients})


def optimizer_step(entry: Model, model: Any, given: Inputs, place: Place) -> Tensors:
    place.seed(entry.seed)
    trained = parameters(model)
    before = {name: p.detach().cpu().clone() for name, p in trained.items()}
    optimizer = torch.optim.AdamW(trained.values(), **ADAMW)
    loss_of(entry, model, given).backward()
    optimizer.step()
    return {f"change.{name}": p.detach().cpu() - before[name] for name, p in trained.items() if p.grad is not None}


def generate(entry: Model, model: Any, given: Inputs, place: Place) -> Tensors:
    place.seed(entry.seed)
    with torch.no_grad():
        return {"tokens": model.generate(**generation(given)).cpu()}


def generation(given: Inputs) -> dict[str, Any]:
    """The arguments of greedy generation with a static cache; no token ends it early."""
    options = {
        "max_new_tokens": NEW_TOKENS,
        "do_sample": False,
        "cache_implementation": "static",
        "eos_token_id": None,
        "pad_token_id": 0,
    }
    return given | {"attention_mask": torch.ones_like(given["input_ids"])} | options


def save_load(entry: Model, model: Any, given: Inputs, place: Place) -> Tensors:
    """Saves the model from where it is and loads it there again. Raises Failed where a parameter comes back as another."""
    dtype = next(model.parameters()).dtype
    with tempfile.TemporaryDirectory(prefix="tpu-parity-") as folder:
        model.save_pretrained(folder)
        again = models.load(folder, entry.auto, place.device, dtype, model.config._attn_implementation)
    before, after = (on_cpu(m.state_dict()) for m in (model, again))
    for name, tensor in before.items():
        other = after.get(name)
        if other is None or other.dtype != tensor.dtype or not bool(torch.equal(tensor, other)):
            raise Failed(f"{name} is not the same after saving and loading")
    return forward(entry, again, given, place)


def merge_vanishing(exact: Tensors, *others: Tensors) -> tuple[Tensors, ...]:
    """The gradients that vanish in exact arithmetic, put behind the largest: they are rounding errors on its scale."""
    scale = {
        name: float(t.double().square().mean().sqrt())
        for name, t in exact.items()
        if t.is_floating_point() and t.numel() and name != "loss"
    }
    if not scale:
        return (exact, *others)
    largest = max(scale, key=lambda name: scale[name])
    vanishing = [name for name, size in scale.items() if size < VANISHING * scale[largest]]

    def merged(tensors: Tensors) -> Tensors:
        if not vanishing:
            return tensors
        kept = {name: t for name, t in tensors.items() if name not in vanishing}
        kept[largest] = torch.cat([tensors[largest].flatten(), *(tensors[name].flatten() for name in vanishing)])
        return kept

    return tuple(merged(tensors) for tensors in (exact, *others))


def doubled(model: Any) -> Any:
    """A copy in f64 of the same values."""
    copied = copy.deepcopy(model).double()
    if getattr(copied.config, "_experts_implementation", None) == "grouped_mm":
        # Which multiplies matrices in f32 and less.
        copied.set_experts_implementation("eager")
    return copied


STEPS: dict[str, Callable[[Model, Any, Inputs, Place], Tensors]] = {
    "forward": forward,
    "loss-backward": loss_backward,
    "optimizer-step": optimizer_step,
    "generate": generate,
    "save-load": save_load,
}
