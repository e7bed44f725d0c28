"""The suite `accelerate`: whether Accelerate finds the device, and training loops under it whose losses must follow CPU's.

Where Accelerate picks another device by itself, the case `device` says so; the loops then name the device through
ACCELERATE_TORCH_DEVICE, Accelerate's own way to be told, so that they measure something all the same.
"""

import contextlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState

from . import tiny, trial
from .device import seed_cpu
from .suite import CaseSpec, Context, Failed, Measured, Options, Skipped, operators_used, seed_of
from .trial import Named

STEPS = 20
BATCH = 4
LENGTH = 12
DEVICE_VARIABLE = "ACCELERATE_TORCH_DEVICE"
MODES = {
    "device": "Accelerator().device is the device",
    "launch": "`accelerate launch` starts a script of one process, which finds the device",
    "train": f"{STEPS} steps of training",
    "accumulate": f"{STEPS} batches with the gradients of four at a time",
    "mixed-bf16": f"{STEPS} steps of training in mixed precision, bf16",
    "mixed-fp16": f"{STEPS} steps of training in mixed precision, f16 with a scaled loss",
    "clip": f"{STEPS} steps of training with clipped gradients",
    "resume": "10 steps, a checkpoint, 5 steps; the checkpoint again and the same 5 steps",
}
SUBJECT = "training"


class UnknownDevice(NotImplementedError):
    """The library works, on another device than the one it was to find."""


def cases(options: Options) -> Iterator[CaseSpec]:
    for mode, about in MODES.items():
        yield CaseSpec(f"accelerate/{SUBJECT}/{mode}", SUBJECT, f"Accelerate: {about}")


def version() -> str:
    return f"Accelerate {importlib.metadata.version('accelerate')}"


@contextlib.contextmanager
def fresh(kind: str | None) -> Iterator[None]:
    """Without what Accelerate remembers of another device in this process; with `kind`, told which one to take."""
    before = os.environ.get(DEVICE_VARIABLE)
    if kind is None:
        os.environ.pop(DEVICE_VARIABLE, None)
    else:
        os.environ[DEVICE_VARIABLE] = kind
    reset()
    try:
        yield
    finally:
        reset()
        os.environ.pop(DEVICE_VARIABLE, None)
        if before is not None:
            os.environ[DEVICE_VARIABLE] = before


def reset() -> None:
    AcceleratorState._reset_state(reset_partial_state=True)
    PartialState._reset_state()
    GradientState._reset_state()


def accelerator(kind: str, **options: Any) -> Accelerator:
    if kind == "cpu":
        return Accelerator(cpu=True, **options)
    made = Accelerator(**options)
    if made.device.type != kind:
        raise UnknownDevice(
            f"{version()} does not know the device: with {kind} registered, Accelerator().device is {made.device}"
        )
    return made


class Data(torch.utils.data.Dataset):
    """As many texts as a loop needs, the same each time."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(len(tiny.SPECIAL), tiny.VOCABULARY, (STEPS * BATCH, LENGTH), generator=generator)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, position: int) -> torch.Tensor:
        return self.tokens[position]


def prepared(helper: Accelerator, seed: int, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    seed_cpu(seed)
    model = tiny.llama().to(dtype)
    # Plain descent: an optimizer that divides by the gradient's size would turn rounding where it is zero into whole steps.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return helper.prepare(model, optimizer, torch.utils.data.DataLoader(Data(), batch_size=BATCH))


def loop(mode: str, kind: str, dtype: torch.dtype, seed: int) -> Named:
    """Losses of a training loop, and the weights at its end."""
    options: dict[str, Any] = {}
    # In f64 nothing is rounded: the reference has no mixed precision.
    if mode.startswith("mixed-") and dtype == torch.float32:
        options["mixed_precision"] = mode.removeprefix("mixed-")
    if mode == "accumulate":
        options["gradient_accumulation_steps"] = 4
    with fresh(None if kind == "cpu" else kind):
        helper = accelerator(kind, **options)
        model, optimizer, data = prepared(helper, seed, dtype)
        if mode == "resume":
            return resumed(helper, model, optimizer, data)
        return {
            "losses": steps(helper, model, optimizer, list(data), clip=mode == "clip"),
            "weights": trial.flat(list(helper.unwrap_model(model).parameters())),
        }


def steps(helper: Accelerator, model: Any, optimizer: Any, batches: list[torch.Tensor], clip: bool = False) -> torch.Tensor:
    losses = []
    for batch in batches:
        with helper.accumulate(model):
            loss = model(input_ids=batch, labels=batch).loss
            helper.backward(loss)
            if clip and helper.sync_gradients:
                helper.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)


def resumed(helper: Accelerator, model: Any, optimizer: Any, data: Any) -> Named:
    batches = list(data)
    first = steps(helper, model, optimizer, batches[:10])
    with tempfile.TemporaryDirectory() as folder:
        helper.save_state(folder)
        once = steps(helper, model, optimizer, batches[10:15])
        helper.load_state(folder)
        again = steps(helper, model, optimizer, batches[10:15])
    if not torch.equal(once, again):
        difference = (once - again).abs().max().item()
        raise Failed(f"after the checkpoint the losses differ by {difference:.3g} from those of the first time")
    return {"losses": torch.cat([first, again])}


def found(context: Context) -> Measured:
    """Whether Accelerate comes to the device unasked."""
    kind = context.device.kind
    context.stage("run")
    begun = time.perf_counter()
    with fresh(None):
        accelerator(kind)
    yes = torch.ones(1, dtype=torch.int64)
    return Measured(trial.joined({}, {"found": yes}, {"found": yes}), time.perf_counter() - begun)


SCRIPT = """
import sys
from tpu_parity_torch import device
if sys.argv[1] != "cpu":
    device.register_tpu()
from accelerate import Accelerator
print("device", Accelerator(cpu=sys.argv[1] == "cpu").device.type)
"""


def launched(context: Context) -> Measured:
    """A script under Accelerate's launcher."""
    kind = context.device.kind
    here = pathlib.Path(__file__).resolve().parents[1]
    environment = {key: value for key, value in os.environ.items() if key != DEVICE_VARIABLE} | {"PYTHONPATH": str(here)}
    context.stage("run")
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        command = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes=1", "--num_machines=1"]
        command += ["--mixed_precision=no", "--dynamo_backend=no", *(["--cpu"] if kind == "cpu" else []), str(script), kind]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if "Error" in line] or done.stderr.splitlines()[-1:] or [""]
        raise Failed(f"accelerate launch exits with {done.returncode}: {words[0]}")
    said = [line.removeprefix("device ") for line in done.stdout.splitlines() if line.startswith("device ")]
    if said != [kind]:
        raise UnknownDevice(f"{version()} does not know the device: under its launcher, Accelerator().device is {said}")
    yes = torch.ones(1, dtype=torch.int64)
    return Measured(trial.joined({}, {"found": yes}, {"found": yes}), time.perf_counter() - begun)


ALONE: dict[str, Callable[[Context], Measured]] = {"device": found, "launch": launched}


def run(case_id: str, context: Context) -> Measured:
    match case_id.split("/"):
        case ["accelerate", "training", mode] if mode in MODES:
            pass
        case _:
            raise Skipped(f"{case_id} is no id of this suite")
    if mode in ALONE:
        return ALONE[mode](context)
    seed = seed_of(case_id)
    with trial.highest_precision():
        with operators_used() as used:
            native = trial.on_cpu(lambda: loop(mode, "cpu", torch.float32, seed))
        references = trial.in_double(lambda: loop(mode, "cpu", torch.float64, seed), native)
        context.stage("run")
        begun = time.perf_counter()
        got = loop(mode, context.device.kind, torch.float32, seed)
    return Measured(trial.joined(references, native, got), time.perf_counter() - begun, operators=sorted(used))
