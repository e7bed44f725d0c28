"""Whole pipelines of tiny random components, moved with `pipe.to("tpu")` as a user does: eager, and with the denoiser compiled.

A compiled pipeline is called twice at the same size, which must not compile again, and at a new one, which must compile
once. Stable Diffusion has its text encoder and a tokenizer; the others are given embeddings, for want of tokenizers offline.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import diffusers
import numpy
import torch
import torch._dynamo
import transformers

from .. import trial
from ..device import seed_cpu
from ..suite import CaseSpec, Context, Failed, Measured, Options, Skipped, operators_used, seed_of
from ..trial import Named
from .models import CONTROLNET, DIT, FLUX, MODELS, QWEN, SD3, UNET, UNET_CONDITION, VAE, Model, build

MODES = {
    "eager": "eager",
    "compile": "the denoiser compiled, called twice at one size and twice at another",
} | trial.DEFAULT_ATTENTION
STEPS = 2
WORDS = ["a", "cat", "on", "the", "mat"]

Pipeline = Any
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """How a pipeline is made and called."""

    name: str
    # On CPU in f32, with random weights.
    build: Callable[[], Pipeline]
    # Which of its components is compiled.
    denoiser: str
    # Arguments at the first size and at another.
    sizes: tuple[Callable[[], Arguments], Callable[[], Arguments]]


def made(name: str, config: dict[str, Any]) -> torch.nn.Module:
    return build(Model(name, config, dict)).eval()


def tokenizer() -> transformers.CLIPTokenizer:
    """CLIP's, with a vocabulary of a few words."""
    entries = ["<|startoftext|>", "<|endoftext|>", *(letter for letter in "acehmnot"), *(f"{c}</w>" for c in "acehmnot")]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=16)


def text_encoder() -> torch.nn.Module:
    config = transformers.CLIPTextConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
        projection_dim=16,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return transformers.CLIPTextModel(config).eval()


def ddim() -> Any:
    return diffusers.DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False)


def flow() -> Any:
    return diffusers.FlowMatchEulerDiscreteScheduler()


def stable_diffusion() -> Pipeline:
    return diffusers.StableDiffusionPipeline(
        vae=made("AutoencoderKL", VAE),
        text_encoder=text_encoder(),
        tokenizer=tokenizer(),
        unet=made("UNet2DConditionModel", UNET_CONDITION),
        scheduler=ddim(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def with_controlnet() -> Pipeline:
    return diffusers.StableDiffusionControlNetPipeline(
        vae=made("AutoencoderKL", VAE),
        text_encoder=text_encoder(),
        tokenizer=tokenizer(),
        unet=made("UNet2DConditionModel", UNET_CONDITION),
        controlnet=made("ControlNetModel", CONTROLNET),
        scheduler=ddim(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def stable_diffusion_3() -> Pipeline:
    return diffusers.StableDiffusion3Pipeline(
        transformer=made("SD3Transformer2DModel", SD3),
        scheduler=flow(),
        vae=made("AutoencoderKL", VAE | {"shift_factor": 0.1}),
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        text_encoder_3=None,
        tokenizer_3=None,
    )


def flux() -> Pipeline:
    return diffusers.FluxPipeline(
        transformer=made("FluxTransformer2DModel", FLUX),
        scheduler=flow(),
        vae=made("AutoencoderKL", VAE | {"shift_factor": 0.1}),
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
    )


def qwen_image() -> Pipeline:
    return diffusers.QwenImagePipeline(
        transformer=made("QwenImageTransformer2DModel", QWEN),
        scheduler=flow(),
        vae=made("AutoencoderKLQwenImage", MODELS["autoencoder-qwen-image"].config),
        text_encoder=None,
        tokenizer=None,
    )


def dit() -> Pipeline:
    return diffusers.DiTPipeline(
        transformer=made("DiTTransformer2DModel", DIT | {"out_channels": 8}), vae=made("AutoencoderKL", VAE), scheduler=ddim()
    )


def prompted(size: int) -> Callable[[], Arguments]:
    return lambda: {
        "prompt": " ".join(WORDS),
        "negative_prompt": "",
        "height": size,
        "width": size,
        "guidance_scale": 3.0,
        "output_type": "pt",
    }


def controlled(size: int) -> Callable[[], Arguments]:
    return lambda: prompted(size)() | {"image": torch.rand(1, 3, size, size)}


def embedded(size: int, pooled: bool, masked: bool = False, **others: Any) -> Callable[[], Arguments]:
    def arguments() -> Arguments:
        given: Arguments = {"prompt_embeds": torch.randn(1, 6, 16), "height": size, "width": size, "output_type": "pt"}
        if pooled:
            given["pooled_prompt_embeds"] = torch.randn(1, 16)
        if masked:
            given["prompt_embeds_mask"] = torch.ones(1, 6, dtype=torch.int64)
        return given | others

    return arguments


def batched(name: str, *values: Any, **others: Any) -> tuple[Callable[[], Arguments], Callable[[], Arguments]]:
    """Pipelines of a fixed image size are called with a new number of images instead."""
    first, second = ({name: value, "output_type": "np"} | others for value in values)
    return (lambda: first, lambda: second)


RECIPES = {
    "ddpm": Recipe(
        "DDPMPipeline",
        lambda: diffusers.DDPMPipeline(made("UNet2DModel", UNET), diffusers.DDPMScheduler()),
        "unet",
        batched("batch_size", 1, 3),
    ),
    "ddim": Recipe(
        "DDIMPipeline",
        lambda: diffusers.DDIMPipeline(made("UNet2DModel", UNET), diffusers.DDIMScheduler()),
        "unet",
        batched("batch_size", 1, 3),
    ),
    "stable-diffusion": Recipe("StableDiffusionPipeline", stable_diffusion, "unet", (prompted(32), prompted(48))),
    "controlnet": Recipe("StableDiffusionControlNetPipeline", with_controlnet, "unet", (controlled(32), controlled(48))),
    "stable-diffusion-3": Recipe(
        "StableDiffusion3Pipeline",
        stable_diffusion_3,
        "transformer",
        (embedded(16, pooled=True, guidance_scale=1.0), embedded(32, pooled=True, guidance_scale=1.0)),
    ),
    "flux": Recipe("FluxPipeline", flux, "transformer", (embedded(16, pooled=True), embedded(32, pooled=True))),
    "qwen-image": Recipe(
        "QwenImagePipeline",
        qwen_image,
        "transformer",
        (
            embedded(16, pooled=False, masked=True, true_cfg_scale=1.0),
            embedded(32, pooled=False, masked=True, true_cfg_scale=1.0),
        ),
    ),
    "dit": Recipe("DiTPipeline", dit, "transformer", batched("class_labels", [3], [3, 5, 7], guidance_scale=1.0)),
}


def cases(options: Options) -> Iterator[CaseSpec]:
    for name, recipe in RECIPES.items():
        skip = None if hasattr(diffusers, recipe.name) else f"Diffusers {diffusers.__version__} has no {recipe.name}"
        for mode, about in MODES.items():
            yield CaseSpec(f"diffusers/pipeline.{name}/{mode}", f"pipeline.{name}", f"{recipe.name}: {about}", skip)


def images(pipe: Pipeline, arguments: Arguments, seed: int) -> Named:
    result = pipe(**arguments, num_inference_steps=STEPS, generator=torch.Generator().manual_seed(seed))
    made_images = result.images
    tensor = torch.from_numpy(made_images) if isinstance(made_images, numpy.ndarray) else made_images
    return {"images": tensor.detach().cpu()}


def built(recipe: Recipe, seed: int, kind: str, dtype: torch.dtype) -> Pipeline:
    seed_cpu(seed)
    pipe = recipe.build()
    pipe.set_progress_bar_config(disable=True)
    return pipe.to(kind) if dtype == torch.float32 else pipe.to(kind, dtype)


def arguments_of(recipe: Recipe, size: int, seed: int, kind: str, dtype: torch.dtype) -> Arguments:
    seed_cpu(seed + size)
    return trial.moved(recipe.sizes[size](), kind, dtype)


def run(case_id: str, name: str, mode: str, context: Context) -> Measured:
    recipe = RECIPES.get(name)
    if recipe is None or mode not in MODES or not hasattr(diffusers, recipe.name):
        raise Skipped(f"this version has no such case: {case_id}")
    seed = seed_of("diffusers", name)

    def on_cpu(size: int, dtype: torch.dtype) -> Named:
        pipe = built(recipe, seed, "cpu", dtype)
        return images(pipe, arguments_of(recipe, size, seed, "cpu", dtype), seed)

    with torch.no_grad(), trial.highest_precision(), trial.attention(mode):
        with operators_used() as used:
            native = trial.on_cpu(lambda: on_cpu(0, torch.float32))
        with trial.drawn_in_single():
            references = trial.in_double(lambda: on_cpu(0, torch.float64), native)
        context.stage("lower")
        kind = context.device.kind
        pipe = built(recipe, seed, kind, torch.float32)
        at = [lambda size=size: arguments_of(recipe, size, seed, kind, torch.float32) for size in (0, 1)]
        figures: dict[str, Any] = {}
        context.stage("compile" if mode == "compile" else "run")
        try:
            if mode == "compile":
                torch._dynamo.reset()
                denoiser = getattr(pipe, recipe.denoiser)
                denoiser.forward = context.compile(denoiser.forward)
            start = trial.counts(context.device)
            begun = time.perf_counter()
            got = images(pipe, at[0](), seed)
            seconds = time.perf_counter() - begun
            found = trial.joined(references, native, got)
            if mode == "compile":
                figures = sizes(pipe, at[0], at[1], seed, context, start[0])
        finally:
            torch._dynamo.reset()
    return Measured(found, seconds, operators=sorted(used), figures=figures)


def sizes(
    pipe: Pipeline, old: Callable[[], Arguments], new: Callable[[], Arguments], seed: int, context: Context, start: int
) -> dict[str, Any]:
    """A second call at the size that is compiled, one at a new size, and that again. Raises Failed where the count is not
    none, one and none."""
    seconds = []
    counted = [trial.counts(context.device)]
    for arguments in (old, new, new):
        begun = time.perf_counter()
        images(pipe, arguments(), seed)
        seconds.append(round(time.perf_counter() - begun, 4))
        counted.append(trial.counts(context.device))
    trial.refuse_recompile(counted[0], counted[1])
    first, graphs = counted[0][0] - start, counted[2][0] - counted[1][0]
    if graphs != first:
        raise Failed(f"a new size compiled {graphs} graphs instead of {first}, as the first did")
    trial.refuse_recompile(counted[2], counted[3])
    return {
        "graphs": first,
        "graphs_at_new_size": graphs,
        "programs_at_new_size": counted[2][1] - counted[1][1],
        "seconds_again": seconds[0],
        "seconds_at_new_size": seconds[1],
        "seconds_at_new_size_again": seconds[2],
    }
