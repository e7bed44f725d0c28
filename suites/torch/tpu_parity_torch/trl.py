"""The suite `trl`: two steps each of TRL's trainers on a tiny model: SFT, DPO, reward, GRPO.

Steps are plain descent: an optimizer that divides by the gradient's size would turn rounding where it is zero into whole steps.
GRPO generates greedily, so that CPU's and the device's texts can be compared; what it learns from equal texts is nothing.
"""

import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import datasets
import torch
import transformers
import trl

from . import tiny, trial
from .accelerate import UnknownDevice, fresh
from .device import seed_cpu
from .suite import CaseSpec, Context, Measured, Options, Skipped, operators_used, seed_of
from .trial import Named

STEPS = 2
BATCH = 2
MODES = {
    "steps": f"{STEPS} steps of batches of {BATCH}",
    "steps-told": f"{STEPS} steps of batches of {BATCH}, with Accelerate told the device through ACCELERATE_TORCH_DEVICE",
}
CLAUSES = ["the cat sat on the mat .", "a big dog ran under the tree .", "the small cat saw the red dog .", "it was good ."]
WORSE = ["the cat was bad .", "a dog ran .", "the dog saw blue ?", "it was bad . no no"]
PROMPTS = ["the cat", "a big dog", "the small cat", "it was"]


def common(folder: str, kind: str) -> dict[str, Any]:
    """What every trainer is told."""
    return {
        "output_dir": folder,
        "max_steps": STEPS,
        "per_device_train_batch_size": BATCH,
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "bf16": False,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
        "use_cpu": kind == "cpu",
    }


def sft(folder: str, kind: str, dtype: torch.dtype) -> Any:
    return trl.SFTTrainer(
        model=tiny.llama().to(dtype),
        args=trl.SFTConfig(**common(folder, kind), max_length=16),
        train_dataset=datasets.Dataset.from_dict({"text": CLAUSES}),
        processing_class=tiny.tokenizer(),
    )


def preferences() -> datasets.Dataset:
    return datasets.Dataset.from_dict({"prompt": PROMPTS, "chosen": CLAUSES, "rejected": WORSE})


def dpo(folder: str, kind: str, dtype: torch.dtype) -> Any:
    return trl.DPOTrainer(
        model=tiny.llama().to(dtype),
        ref_model=tiny.llama().to(dtype),
        args=trl.DPOConfig(**common(folder, kind), max_length=32),
        train_dataset=preferences(),
        processing_class=tiny.tokenizer(),
    )


def reward(folder: str, kind: str, dtype: torch.dtype) -> Any:
    return trl.RewardTrainer(
        model=tiny.classifier().to(dtype),
        args=trl.RewardConfig(**common(folder, kind), max_length=32),
        train_dataset=datasets.Dataset.from_dict({"chosen": CLAUSES, "rejected": WORSE}),
        processing_class=tiny.tokenizer(),
    )


def grpo(folder: str, kind: str, dtype: torch.dtype) -> Any:
    seen: list[torch.Tensor] = []

    def by_length(prompts: list[str], completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        seen.extend(torch.tensor(ids, dtype=torch.int64) for ids in completion_ids)
        return [float(len(ids)) + position for position, ids in enumerate(completion_ids)]

    trainer = trl.GRPOTrainer(
        model=tiny.llama().to(dtype),
        reward_funcs=by_length,
        args=trl.GRPOConfig(
            **common(folder, kind),
            num_generations=2,
            max_completion_length=8,
            temperature=1.0,
            top_k=1,
            # Without a reference model, which TRL would load from a hub.
            beta=0.0,
        ),
        train_dataset=datasets.Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tiny.tokenizer(),
    )
    trainer.seen_completions = seen
    return trainer


TRAINERS: dict[str, tuple[str, Callable[[str, str, torch.dtype], Any]]] = {
    "sft": ("SFTTrainer", sft),
    "dpo": ("DPOTrainer", dpo),
    "reward": ("RewardTrainer", reward),
    "grpo": ("GRPOTrainer", grpo),
}


def cases(options: Options) -> Iterator[CaseSpec]:
    for name, (trainer, _) in TRAINERS.items():
        for mode, about in MODES.items():
            yield CaseSpec(f"trl/{name}/{mode}", name, f"TRL's {trainer}: {about}")


def trained(name: str, told: bool, kind: str, dtype: torch.dtype, seed: int) -> Named:
    """The losses that the trainer logs, the weights at the end, and GRPO's texts."""
    transformers.utils.logging.disable_progress_bar()
    datasets.utils.logging.disable_progress_bar()
    with fresh(kind if told else None), tempfile.TemporaryDirectory() as folder:
        seed_cpu(seed)
        trainer = TRAINERS[name][1](folder, kind, dtype)
        if trainer.args.device.type != kind:
            version = importlib.metadata.version("trl")
            raise UnknownDevice(
                f"TRL {version} on Transformers' Trainer does not know the device: with {kind} registered it is on "
                f"{trainer.args.device}"
            )
        trainer.train()
        logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    found: Named = {"weights": trial.flat(list(trainer.model.parameters()))}
    if name == "grpo":
        # Equal texts have equal rewards within rounding: the loss is rounding alone, and no number to compare.
        found |= {f"completion{position}": ids for position, ids in enumerate(trainer.seen_completions)}
    else:
        found["losses"] = torch.tensor(logged, dtype=torch.float64).to(dtype)
    return found


def run(case_id: str, context: Context) -> Measured:
    match case_id.split("/"):
        case ["trl", name, mode] if name in TRAINERS and mode in MODES:
            pass
        case _:
            raise Skipped(f"{case_id} is no id of this suite")
    seed, told = seed_of("trl", name) % 2**32, mode == "steps-told"
    with trial.highest_precision():
        with operators_used() as used:
            native = trial.on_cpu(lambda: trained(name, False, "cpu", torch.float32, seed))
        references = trial.in_double(lambda: trained(name, False, "cpu", torch.float64, seed), native)
        context.stage("run")
        begun = time.perf_counter()
        got = trained(name, told, context.device.kind, torch.float32, seed)
    return Measured(trial.joined(references, native, got), time.perf_counter() - begun, operators=sorted(used))
