"""What is compared of an operator whose result is not one tensor of numbers alone: factors that are unique up to a sign,
indices among equals, memory that nobody wrote. Everything else of the suite `aten` knows no operator by name.

A rule maps a call's outputs to tensors that every right implementation agrees on. It runs on CPU, in f64 where that exists.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Outputs = Sequence[torch.Tensor]
# From the call's outputs, its arguments before the call (input, args, kwargs), to named observables.
Rule = Callable[[Outputs, tuple[Any, tuple[Any, ...], dict[str, Any]]], dict[str, torch.Tensor]]

# The operator's numbers are defined by the element type itself: f64 would give another result, not a better one.
DEFINED_BY_ELEMENT_TYPE = frozenset({"nextafter", "nan_to_num", "hash_tensor"})

# What the results hold is whatever memory held; their shapes alone mean something.
UNINITIALISED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_"}
)

# The case cannot exist, wherever it runs.
IMPOSSIBLE = {
    "jiterator_": "compiles CUDA source at run time",
}


def impossible(subject: str) -> str | None:
    """Why an operator has no case that is not CUDA's, or None."""
    return next((reason for start, reason in IMPOSSIBLE.items() if subject.startswith(start)), None)


def _gram(factor: torch.Tensor) -> torch.Tensor:
    return factor.mH @ factor


def _svd(outputs: Outputs, v_is_transposed: bool) -> dict[str, torch.Tensor]:
    u, s, v = outputs
    vh = v if v_is_transposed else v.mH
    rank = s.shape[-1]
    product = u[..., :, :rank] * s.unsqueeze(-2).to(u.dtype) @ vh[..., :rank, :]
    return {"s": s, "usvh": product, "uhu": _gram(u), "vvh": _gram(vh.mH)}


def _eigh(outputs: Outputs, _: Any) -> dict[str, torch.Tensor]:
    values, vectors = outputs
    return {"values": values, "vlvh": vectors * values.unsqueeze(-2).to(vectors.dtype) @ vectors.mH, "vhv": _gram(vectors)}


def _power_sums(values: torch.Tensor) -> torch.Tensor:
    """Σ λᵏ for k = 1…n, which know no order of the λ and determine them."""
    count = values.shape[-1]
    if not count:
        return values
    return torch.stack([values.pow(k).sum(-1) for k in range(1, count + 1)], -1)


def _eig(outputs: Outputs, _: Any) -> dict[str, torch.Tensor]:
    values, vectors = outputs
    product = torch.linalg.solve(vectors, vectors * values.unsqueeze(-2), left=False) if vectors.numel() else vectors
    return {"power_sums": _power_sums(values), "vlv_inverse": product}


def _eigvals(outputs: Outputs, _: Any) -> dict[str, torch.Tensor]:
    return {"power_sums": _power_sums(outputs[0])}


def _qr(outputs: Outputs, _: Any) -> dict[str, torch.Tensor]:
    q, r = outputs
    if not q.numel():
        return {"rhr": _gram(r)}
    return {"qr": q @ r, "qhq": _gram(q)}


def _geqrf(outputs: Outputs, _: Any) -> dict[str, torch.Tensor]:
    packed, tau = outputs
    rank = tau.shape[-1]
    q = torch.linalg.householder_product(packed[..., :, :rank], tau)
    return {"qr": q @ packed[..., :rank, :].triu(), "qhq": _gram(q)}


def _along(position: int, name: str, default: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    dim = kwargs.get(name, args[position] if len(args) > position else default)
    return dim if isinstance(dim, int) else default


def _chosen(position: int, index_alone: bool = False) -> Rule:
    """Of indices among which equals are exchangeable: the elements they choose. `position` is that of `dim` in a call."""

    def rule(outputs: Outputs, arguments: Any) -> dict[str, torch.Tensor]:
        source, args, kwargs = arguments
        indices = outputs[-1]
        dim = _along(position, "dim", -1, args, kwargs)
        flat = source if source.dim() else source.reshape(1)
        whole = indices if indices.dim() == flat.dim() else indices.unsqueeze(dim)
        named = {"chosen": flat.gather(dim, whole)}
        return named if index_alone else {"values": outputs[0]} | named

    return rule


RULES: dict[str, Rule] = {
    "svd": lambda outputs, _: _svd(outputs, v_is_transposed=False),
    "linalg.svd": lambda outputs, _: _svd(outputs, v_is_transposed=True),
    "linalg.eigh": _eigh,
    "linalg.eig": _eig,
    "linalg.eigvals": _eigvals,
    "linalg.qr": _qr,
    "qr": _qr,
    "geqrf": _geqrf,
    "sort": _chosen(0),
    "argsort": _chosen(0, index_alone=True),
    "topk": _chosen(1),
    "kthvalue": _chosen(1),
    "mode": _chosen(0),
    "median": _chosen(0),
    "nanmedian": _chosen(0),
    "max.reduction_with_dim": _chosen(0),
    "min.reduction_with_dim": _chosen(0),
    "cummax": _chosen(0),
    "cummin": _chosen(0),
}


def observables(subject: str, outputs: Outputs, arguments: Any) -> dict[str, torch.Tensor]:
    """The tensors to compare, by name."""
    rule = RULES.get(subject)
    indexed = rule is not None and len(outputs) > 1
    if rule is not None and (indexed or subject in ("argsort", "linalg.eigvals")):
        return rule(outputs, arguments)
    if len(outputs) == 1:
        return {"out": outputs[0]}
    return {f"out{position}": tensor for position, tensor in enumerate(outputs)}
