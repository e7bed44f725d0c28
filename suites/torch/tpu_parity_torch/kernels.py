"""The suite `kernels`: the kernels that TorchTPU ships against the default implementation of the same function.

`numbers` compares what they compute, and `compile` what the compiler made of each, from the virtual TPU's compile log: so there
is evidence of every generation even where a kernel cannot be executed. `speed` and the two published figures need hardware.
"""

import functools
import importlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import trial
from .device import Device, seed_cpu
from .suite import CaseSpec, Context, Failed, Measured, Options, Result, Skipped, seed_of

Tensors = dict[str, torch.Tensor]
Function = Callable[[Tensors], torch.Tensor]
MODES = {
    "numbers": "what it computes, against the default implementation on CPU",
    "compile": "that it compiles for this generation, and the compiler's figures beside the default implementation's",
    "speed": "its time against the default implementation's on this device",
}
# Timed calls, after as many to warm up.
CALLS = 20
NO_HARDWARE = "a measured speed needs a TPU: this is {}"
# What of a compile log's record is kept.
KEPT = ("function", "outcome", "message", "code_size", "hbm", "estimate", "total_ms")
MOST_RECORDS = 4
F8 = torch.float8_e4m3fn


@dataclass(frozen=True)
class Kernel:
    """A kernel, and the same function by PyTorch's ordinary operators, which run anywhere."""

    about: str
    inputs: Callable[[], Tensors]
    kernel: Function
    default: Function
    # Outside the device there is no kernel to call: CPU checks the default implementation against itself in f64.
    on_device_alone: bool = True


# --- attention --------------------------------------------------------------------------------------------------------


def attention_inputs(dtype: torch.dtype, heads: int = 4, length: int = 512, width: int = 128) -> Tensors:
    return {name: torch.randn(1, heads, length, width).to(dtype) for name in "qkv"}


def attend(tensors: Tensors, causal: bool) -> torch.Tensor:
    return functional.scaled_dot_product_attention(tensors["q"], tensors["k"], tensors["v"], is_causal=causal)


def attend_by_default(tensors: Tensors, causal: bool) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return attend(tensors, causal)


def gradient(tensors: Tensors, function: Function) -> torch.Tensor:
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
    function(leaves).square().sum().backward()
    return torch.cat([leaf.grad.reshape(-1) for leaf in leaves.values() if leaf.grad is not None])


def splash(tensors: Tensors) -> torch.Tensor:
    operations = importlib.import_module("torch_tpu._internal.ops.splash_attention")
    return operations.splash_sdpa(tensors["q"], tensors["k"], tensors["v"], is_causal=True)


# --- scaled matrix products -------------------------------------------------------------------------------------------


def scaled_inputs(rows: int = 256, inner: int = 512, columns: int = 256) -> Tensors:
    """f8 operands, the second by columns as `_scaled_mm` wants it, and a scale of each."""
    return {
        "a": torch.randn(rows, inner).to(F8),
        "b": torch.randn(columns, inner).to(F8),
        "scale_a": torch.tensor(0.5),
        "scale_b": torch.tensor(0.25),
    }


def scaled(tensors: Tensors) -> torch.Tensor:
    return torch._scaled_mm(
        tensors["a"], tensors["b"].t(), scale_a=tensors["scale_a"], scale_b=tensors["scale_b"], out_dtype=torch.bfloat16
    )


def scaled_by_default(tensors: Tensors) -> torch.Tensor:
    wide = tensors["scale_a"].dtype
    a, b = tensors["a"].to(wide) * tensors["scale_a"], tensors["b"].to(wide) * tensors["scale_b"]
    product = a @ b.t()
    return product if wide == torch.float64 else product.to(torch.bfloat16)


def blockwise_inputs(rows: int = 256, inner: int = 512, columns: int = 256) -> Tensors:
    return {
        "a": torch.randn(rows, inner).to(F8),
        "b": torch.randn(columns, inner).to(F8),
        "scale_a": torch.rand(rows, inner // 128) + 0.5,
        "scale_b": torch.rand(columns // 128, inner // 128) + 0.5,
    }


def blockwise(tensors: Tensors) -> torch.Tensor:
    kinds = functional.ScalingType
    return functional.scaled_mm(
        tensors["a"],
        tensors["b"].t(),
        tensors["scale_a"],
        kinds.BlockWise1x128,
        tensors["scale_b"].t(),
        kinds.BlockWise128x128,
        swizzle_a=functional.SwizzleType.NO_SWIZZLE,
        swizzle_b=functional.SwizzleType.NO_SWIZZLE,
        output_dtype=torch.bfloat16,
    )


def blockwise_by_default(tensors: Tensors) -> torch.Tensor:
    wide = tensors["scale_a"].dtype
    a = tensors["a"].to(wide) * tensors["scale_a"].repeat_interleave(128, dim=1)
    b = tensors["b"].to(wide) * tensors["scale_b"].repeat_interleave(128, dim=0).repeat_interleave(128, dim=1)
    product = a @ b.t()
    return product if wide == torch.float64 else product.to(torch.bfloat16)


# --- products by group ------------------------------------------------------------------------------------------------


def grouped_inputs(dtype: torch.dtype, groups: int = 4, rows: int = 256, inner: int = 256, columns: int = 256) -> Tensors:
    """Rows by expert; `ends` are the groups' ends, all of different sizes."""
    step = rows // (groups * 2)
    sizes = torch.full((groups,), rows // groups, dtype=torch.int32)
    sizes[0] -= step
    sizes[-1] += step
    return {
        "rows": torch.randn(rows, inner).to(dtype),
        "weights": (torch.randn(groups, inner, columns) / inner**0.5).to(dtype),
        "sizes": sizes,
        "ends": torch.cumsum(sizes, 0, dtype=torch.int32),
    }


def grouped(tensors: Tensors) -> torch.Tensor:
    return torch._grouped_mm(tensors["rows"], tensors["weights"], offs=tensors["ends"])


def ragged(tensors: Tensors) -> torch.Tensor:
    return torch.ops.tpu._ragged_dot(tensors["rows"], tensors["weights"], tensors["sizes"])


def grouped_by_default(tensors: Tensors) -> torch.Tensor:
    """A product for each group, as a mixture of experts without a kernel does it."""
    parts = torch.split(tensors["rows"], tensors["sizes"].tolist())
    return torch.cat([part @ weights for part, weights in zip(parts, tensors["weights"], strict=True)])


def _attention(dtype: torch.dtype, causal: bool) -> Kernel:
    shape = "causal" if causal else "full"
    return Kernel(
        f"attention, {shape}, {str(dtype).removeprefix('torch.')}",
        functools.partial(attention_inputs, dtype),
        functools.partial(attend, causal=causal),
        functools.partial(attend_by_default, causal=causal),
        on_device_alone=False,
    )


KERNELS = {
    "attention-f32": _attention(torch.float32, causal=False),
    "attention-bf16": _attention(torch.bfloat16, causal=False),
    "attention-causal-bf16": _attention(torch.bfloat16, causal=True),
    "attention-backward-f32": Kernel(
        "the gradient of causal attention, float32",
        functools.partial(attention_inputs, torch.float32),
        functools.partial(gradient, function=functools.partial(attend, causal=True)),
        functools.partial(gradient, function=functools.partial(attend_by_default, causal=True)),
        on_device_alone=False,
    ),
    "splash-attention-f32": Kernel(
        "splash_sdpa, causal, float32",
        functools.partial(attention_inputs, torch.float32),
        splash,
        functools.partial(attend_by_default, causal=True),
    ),
    "scaled-mm": Kernel("f8 product with a scale for each operand", scaled_inputs, scaled, scaled_by_default),
    "scaled-mm-blockwise": Kernel(
        "f8 product with scales for 1x128 and 128x128 blocks", blockwise_inputs, blockwise, blockwise_by_default
    ),
    "grouped-mm-bf16": Kernel(
        "a product for each group of rows, bfloat16",
        functools.partial(grouped_inputs, torch.bfloat16),
        grouped,
        grouped_by_default,
    ),
    "ragged-dot-f32": Kernel(
        "torch.tpu.ops.ragged_dot, float32", functools.partial(grouped_inputs, torch.float32), ragged, grouped_by_default
    ),
    "ragged-dot-bf16": Kernel(
        "torch.tpu.ops.ragged_dot, bfloat16", functools.partial(grouped_inputs, torch.bfloat16), ragged, grouped_by_default
    ),
    # 64 tokens of 8 experts each, of 128, from 2048 to 768 wide: the experts' first product of Qwen3-30B-A3B.
    "qwen3-30b-a3b-experts": Kernel(
        "the experts of Qwen3-30B-A3B at batch 64, published to be 21.5 times as fast",
        functools.partial(grouped_inputs, torch.bfloat16, groups=128, rows=512, inner=2048, columns=768),
        ragged,
        grouped_by_default,
    ),
}
GEMMA = "gemma-4-26b-a4b-experts"
GEMMA_MISSING = "published to be 12.8 times as fast; its sizes are in a checkpoint's configuration alone, which no package has"
# Too large to be worth executing on anything but a TPU.
HARDWARE_ALONE = {"qwen3-30b-a3b-experts"}


def cases(options: Options) -> Iterator[CaseSpec]:
    for name, kernel in KERNELS.items():
        for mode, about in MODES.items():
            if name not in HARDWARE_ALONE or mode != "numbers":
                yield CaseSpec(f"kernels/{name}/{mode}", name, f"{kernel.about}: {about}")
    yield CaseSpec(f"kernels/{GEMMA}/speed", GEMMA, "the experts of Gemma 4 26B-A4B at batch 64", GEMMA_MISSING)


def run(case_id: str, context: Context) -> Measured:
    match case_id.split("/"):
        case ["kernels", name, mode] if name in KERNELS and mode in MODES:
            pass
        case _:
            raise Skipped(f"{case_id} is no id of this suite")
    kernel = KERNELS[name]
    seed_cpu(seed_of("kernels", name))
    with trial.highest_precision():
        return {"numbers": numbers, "compile": compilation, "speed": speed}[mode](kernel, kernel.inputs(), context)


def kernel_on(device: Device, kernel: Kernel) -> Function:
    return kernel.default if device.kind == "cpu" and kernel.on_device_alone else kernel.kernel


def widened(tensors: Tensors) -> Tensors:
    """In f64, but for f8, which is multiplied by its scale in f64."""
    return {name: t.double() if t.is_floating_point() and t.dtype != F8 else t for name, t in tensors.items()}


def numbers(kernel: Kernel, tensors: Tensors, context: Context) -> Measured:
    reference, native = kernel.default(widened(tensors)), kernel.default(tensors)
    given = {name: tensor.to(context.device.kind) for name, tensor in tensors.items()}
    context.stage("run")
    begun = time.perf_counter()
    got = kernel_on(context.device, kernel)(given).cpu()
    seconds = time.perf_counter() - begun
    return Measured(trial.joined({"out": reference}, {"out": native.detach()}, {"out": got.detach()}), seconds)


def speed(kernel: Kernel, tensors: Tensors, context: Context) -> Measured:
    device = context.device
    if device.kind == "cpu" or device.log is not None:
        raise Skipped(NO_HARDWARE.format(device.name if device.kind == "cpu" else "a virtual one"))
    given = {name: tensor.to(device.kind) for name, tensor in tensors.items()}
    context.stage("run")
    seconds = {}
    for what, function in (("kernel", kernel.kernel), ("default", kernel.default)):
        for call in range(2 * CALLS):
            if call == CALLS:
                wait(device)
                begun = time.perf_counter()
            function(given)
        wait(device)
        seconds[what] = (time.perf_counter() - begun) / CALLS
    figures = {
        "kernel_seconds": seconds["kernel"],
        "default_seconds": seconds["default"],
        "speedup": round(seconds["default"] / seconds["kernel"], 3),
    }
    return Measured([done()], seconds["kernel"], figures=figures)


def wait(device: Device) -> None:
    """Until the device has nothing left to do."""
    if device.kind != "cpu":
        torch.accelerator.synchronize()


def done() -> Result:
    """What a case without numbers of its own answers: that it came to its end."""
    yes = torch.ones(1, dtype=torch.int64)
    return Result("done", yes, yes, yes)


# --- evidence of compilation ------------------------------------------------------------------------------------------


def compilation(kernel: Kernel, tensors: Tensors, context: Context) -> Measured:
    """Compiles both. A program that the virtual TPU cannot execute has been compiled for the TPU all the same."""
    context.stage("compile")
    begun = time.perf_counter()
    device = context.device
    given = {name: tensor.to(device.kind) for name, tensor in tensors.items()}
    wait(device)
    figures = {}
    for what, function in (("kernel", kernel_on(device, kernel)), ("default", kernel.default)):
        before = len(records(device))
        error = None
        try:
            function(given).cpu()
        except (RuntimeError, NotImplementedError) as raised:
            error = raised
        added = records(device)[before:]
        if error is not None and not any(record.get("outcome") == "not_executable" for record in added):
            raise error
        figures[what] = told(added)
    return Measured([done()], time.perf_counter() - begun, figures=figures)


def records(device: Device) -> list[dict[str, Any]]:
    """The compile log so far."""
    if device.log is None or not device.log.exists():
        return []
    lines = device.log.read_text(encoding="utf-8").splitlines()
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise Failed(f"the compile log {device.log} has a line that is no JSON: {error}") from error


def told(added: list[dict[str, Any]]) -> dict[str, Any]:
    """How many programs there were, and what the compiler says of the largest."""
    largest = sorted(added, key=lambda record: record.get("code_size") or 0, reverse=True)[:MOST_RECORDS]
    return {"programs": len(added), "largest": [{key: r[key] for key in KEPT if r.get(key) is not None} for r in largest]}
