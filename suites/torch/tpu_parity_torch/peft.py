"""The suite `peft`: adapters on a small language model, their gradients, and merging; QLoRA's path of 4 bits.

Adapters start from random numbers, not from the identity that PEFT starts them at, through which nothing would be seen.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import peft
import torch
import transformers

from . import tiny, trial
from .device import seed_cpu
from .suite import CaseSpec, Context, Failed, Measured, Options, Skipped, operators_used, seed_of
from .trial import Inputs, Named, Trial

TARGETS = ["q_proj", "v_proj", "down_proj"]
ADAPTERS: dict[str, Callable[[], peft.PeftConfig]] = {
    "lora": lambda: peft.LoraConfig(r=4, target_modules=TARGETS, init_lora_weights=False, task_type="CAUSAL_LM"),
    "dora": lambda: peft.LoraConfig(r=4, target_modules=TARGETS, init_lora_weights=False, use_dora=True, task_type="CAUSAL_LM"),
    "ia3": lambda: peft.IA3Config(
        target_modules=TARGETS, feedforward_modules=["down_proj"], init_ia3_weights=False, task_type="CAUSAL_LM"
    ),
    "prompt-tuning": lambda: peft.PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
}
MERGED = {"lora", "dora", "ia3"}
QLORA = "qlora"
# bitsandbytes quantizes blocks of 64 and, on CPU, wants a row to be at least one.
QLORA_WIDTH = 128
QLORA_MODES = {
    "load": "the model loaded in 4 bits on the device, and its logits",
    "backward": "the gradients of the adapters over 4-bit weights",
}


def build(name: str) -> torch.nn.Module:
    return peft.get_peft_model(tiny.llama(), ADAPTERS[name]())


def inputs() -> Inputs:
    return {"input_ids": tiny.tokens(2, 12)}


def logits(module: torch.nn.Module, given: Inputs) -> torch.Tensor:
    return module(**given).logits


def merged_logits(module: Any, given: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """(With the adapters in the weights, with them taken out again)."""
    module.merge_adapter()
    merged = logits(module, given)
    module.unmerge_adapter()
    return merged, logits(module, given)


def cases(options: Options) -> Iterator[CaseSpec]:
    for name in ADAPTERS:
        for mode, about in trial.MODES.items():
            yield CaseSpec(f"peft/{name}/{mode}", name, f"Llama with {name}: {about}")
        if name in MERGED:
            yield CaseSpec(f"peft/{name}/merge", name, f"Llama with {name} merged into its weights and taken out again")
    for mode, about in QLORA_MODES.items():
        yield CaseSpec(f"peft/{QLORA}/{mode}", QLORA, f"QLoRA: {about}")


def run(case_id: str, context: Context) -> Measured:
    match case_id.split("/"):
        case ["peft", name, mode] if name in ADAPTERS and mode in trial.MODES:
            return trial.evaluate(Trial(lambda: build(name), inputs, logits), case_id, mode, context)
        case ["peft", name, "merge"] if name in MERGED:
            return trial.evaluate(Trial(lambda: build(name), inputs, merged_logits), case_id, "eager", context)
        case ["peft", "qlora", mode] if mode in QLORA_MODES:
            return qlora(mode, context)
    raise Skipped(f"{case_id} is no id of this suite")


# --- 4 bits -----------------------------------------------------------------------------------------------------------


def loaded(folder: str, kind: str, dtype: torch.dtype) -> torch.nn.Module:
    """As a user of QLoRA loads a model: from a checkpoint, quantized on its way to the device."""
    quantization = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype, bnb_4bit_quant_storage=torch.uint8
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=quantization, device_map=kind, dtype=dtype, attn_implementation="eager"
    )
    found = next(model.parameters()).device.type
    if found != kind:
        raise Failed(f"device_map={kind!r} put the model on {found}")
    return model


def quantized(mode: str, folder: str, kind: str, dtype: torch.dtype, seed: int) -> Named:
    seed_cpu(seed)
    model = loaded(folder, kind, dtype)
    given = trial.moved(inputs(), kind, dtype)
    if mode == "load":
        with torch.no_grad():
            return trial.named(logits(model.eval(), given))
    adapted = peft.get_peft_model(peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False), lora())
    values = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=values))
    return trial.gradients(adapted.eval(), given, logits)


def lora() -> peft.PeftConfig:
    return replace(ADAPTERS["lora"](), init_lora_weights=True)  # type: ignore[type-var]


def qlora(mode: str, context: Context) -> Measured:
    seed = seed_of("peft", QLORA)
    with tempfile.TemporaryDirectory() as folder, trial.highest_precision():
        seed_cpu(seed)
        tiny.llama(QLORA_WIDTH).save_pretrained(folder)
        with operators_used() as used:
            native = trial.on_cpu(lambda: quantized(mode, folder, "cpu", torch.float32, seed))
        # The 4-bit weights are the model: f64 differs from f32 in how it multiplies them alone.
        references = trial.in_double(lambda: quantized(mode, folder, "cpu", torch.float64, seed), native)
        context.stage("run")
        begun = time.perf_counter()
        got = quantized(mode, folder, context.device.kind, torch.float32, seed)
    return Measured(trial.joined(references, native, got), time.perf_counter() - begun, operators=sorted(used))
