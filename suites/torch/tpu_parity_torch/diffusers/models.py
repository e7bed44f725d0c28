"""Diffusers' models, small enough to run in seconds: UNets, transformers of the DiT family, autoencoders, ControlNets.

Each has a configuration and inputs by hand, for their sizes depend on each other in ways that no rule knows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import diffusers
import torch

from .. import trial
from ..suite import CaseSpec, Context, Measured, Options, Skipped
from ..trial import Inputs, Trial, call_by_name

MODES = trial.MODES | trial.DEFAULT_ATTENTION


@dataclass(frozen=True)
class Model:
    """A class of Diffusers with a small configuration."""

    name: str
    config: dict[str, Any]
    inputs: Callable[[], Inputs]


def image(batch: int = 1, channels: int = 4, size: int = 16) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)


def step(batch: int = 1, value: int = 7) -> torch.Tensor:
    return torch.full((batch,), value, dtype=torch.int64)


def ids(height: int, width: int, axes: int = 3) -> torch.Tensor:
    """Positions of an image's tokens: row and column in the second and third of the axes."""
    grid = torch.zeros(height, width, axes)
    grid[..., 1] += torch.arange(height)[:, None]
    grid[..., 2] += torch.arange(width)[None, :]
    return grid.reshape(-1, axes)


UNET = {
    "sample_size": 16,
    "in_channels": 3,
    "out_channels": 3,
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    "norm_num_groups": 8,
}
UNET_CONDITION = {
    "sample_size": 16,
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 16,
    "attention_head_dim": 8,
    "norm_num_groups": 8,
}
VAE = {
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
    "up_block_types": ("UpDecoderBlock2D", "UpDecoderBlock2D"),
    "latent_channels": 4,
    "norm_num_groups": 8,
    "sample_size": 16,
}
CONTROLNET = {key: UNET_CONDITION[key] for key in UNET_CONDITION if key not in ("sample_size", "up_block_types")} | {
    "conditioning_embedding_out_channels": (8, 16)
}
DIT = {
    "num_attention_heads": 2,
    "attention_head_dim": 8,
    "in_channels": 4,
    "num_layers": 2,
    "sample_size": 8,
    "num_embeds_ada_norm": 10,
    "norm_num_groups": 8,
}
SD3 = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 8,
    "num_attention_heads": 2,
    "joint_attention_dim": 16,
    "caption_projection_dim": 16,
    "pooled_projection_dim": 16,
    "pos_embed_max_size": 16,
}
FLUX = {
    "in_channels": 16,
    "num_layers": 1,
    "num_single_layers": 1,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "joint_attention_dim": 16,
    "pooled_projection_dim": 16,
    "axes_dims_rope": (4, 4, 8),
}
QWEN = {
    "in_channels": 16,
    "out_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "joint_attention_dim": 16,
    "axes_dims_rope": (4, 4, 8),
}


def text(length: int = 6, width: int = 16) -> torch.Tensor:
    return torch.randn(1, length, width)


MODELS = {
    "unet2d": Model("UNet2DModel", UNET, lambda: {"sample": image(channels=3), "timestep": step()}),
    "unet2d-condition": Model(
        "UNet2DConditionModel",
        UNET_CONDITION,
        lambda: {"sample": image(), "timestep": step(), "encoder_hidden_states": text()},
    ),
    "unet2d-condition-xl": Model(
        "UNet2DConditionModel",
        UNET_CONDITION
        | {
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 64,
            "use_linear_projection": True,
            "transformer_layers_per_block": (1, 2),
        },
        lambda: {
            "sample": image(),
            "timestep": step(),
            "encoder_hidden_states": text(),
            "added_cond_kwargs": {"text_embeds": torch.randn(1, 16), "time_ids": torch.rand(1, 6)},
        },
    ),
    "unet1d": Model(
        "UNet1DModel",
        {
            "sample_size": 32,
            "in_channels": 2,
            "out_channels": 2,
            "extra_in_channels": 64,
            "block_out_channels": (32, 64),
            "down_block_types": ("DownBlock1DNoSkip", "DownBlock1D"),
            "up_block_types": ("UpBlock1D", "UpBlock1DNoSkip"),
        },
        lambda: {"sample": torch.randn(1, 2, 32), "timestep": step()},
    ),
    "controlnet": Model(
        "ControlNetModel",
        CONTROLNET,
        lambda: {
            "sample": image(),
            "timestep": step(),
            "encoder_hidden_states": text(),
            "controlnet_cond": image(channels=3, size=32),
        },
    ),
    "dit": Model(
        "DiTTransformer2DModel",
        DIT,
        lambda: {"hidden_states": image(size=8), "timestep": step(), "class_labels": step(value=3)},
    ),
    "pixart": Model(
        "PixArtTransformer2DModel",
        DIT | {"cross_attention_dim": 16, "caption_channels": 16, "use_additional_conditions": False},
        lambda: {
            "hidden_states": image(size=8),
            "timestep": step(),
            "encoder_hidden_states": text(),
            "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        },
    ),
    "sd3": Model(
        "SD3Transformer2DModel",
        SD3,
        lambda: {
            "hidden_states": image(size=8),
            "encoder_hidden_states": text(),
            "pooled_projections": torch.randn(1, 16),
            "timestep": step(),
        },
    ),
    "flux": Model(
        "FluxTransformer2DModel",
        FLUX,
        lambda: {
            "hidden_states": torch.randn(1, 16, 16),
            "encoder_hidden_states": text(),
            "pooled_projections": torch.randn(1, 16),
            "timestep": torch.tensor([0.5]),
            "img_ids": ids(4, 4),
            "txt_ids": torch.zeros(6, 3),
        },
    ),
    "flux2": Model(
        "Flux2Transformer2DModel",
        {
            "in_channels": 16,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "joint_attention_dim": 16,
            "timestep_guidance_channels": 16,
            "axes_dims_rope": (4, 4, 4, 4),
        },
        lambda: {
            "hidden_states": torch.randn(1, 16, 16),
            "encoder_hidden_states": text(),
            "timestep": torch.tensor([0.5]),
            "img_ids": ids(4, 4, 4),
            "txt_ids": torch.zeros(6, 4),
            "guidance": torch.tensor([3.5]),
        },
    ),
    "qwen-image": Model(
        "QwenImageTransformer2DModel",
        QWEN,
        lambda: {
            "hidden_states": torch.randn(1, 16, 16),
            "encoder_hidden_states": text(),
            "encoder_hidden_states_mask": torch.ones(1, 6, dtype=torch.int64),
            "timestep": torch.tensor([0.5]),
            "img_shapes": [[(1, 4, 4)]],
        },
    ),
    "sana": Model(
        "SanaTransformer2DModel",
        {
            "in_channels": 4,
            "out_channels": 4,
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "num_layers": 2,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 8,
            "cross_attention_dim": 16,
            "caption_channels": 16,
            "sample_size": 8,
        },
        lambda: {"hidden_states": image(size=8), "encoder_hidden_states": text(), "timestep": step()},
    ),
    "wan": Model(
        "WanTransformer3DModel",
        {
            "patch_size": (1, 2, 2),
            "num_attention_heads": 2,
            "attention_head_dim": 12,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": 16,
            "freq_dim": 32,
            "ffn_dim": 32,
            "num_layers": 2,
            "rope_max_seq_len": 32,
        },
        lambda: {
            "hidden_states": torch.randn(1, 4, 2, 8, 8),
            "timestep": step(),
            "encoder_hidden_states": text(),
        },
    ),
    "autoencoder-kl": Model("AutoencoderKL", VAE, lambda: {"sample": image(channels=3)}),
    "autoencoder-tiny": Model(
        "AutoencoderTiny",
        {
            "encoder_block_out_channels": (8, 8),
            "decoder_block_out_channels": (8, 8),
            "num_encoder_blocks": (1, 2),
            "num_decoder_blocks": (2, 1),
        },
        lambda: {"sample": image(channels=3)},
    ),
    "autoencoder-dc": Model(
        "AutoencoderDC",
        {
            "latent_channels": 4,
            "attention_head_dim": 8,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_block_out_channels": (8, 16),
            "decoder_block_out_channels": (8, 16),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
        },
        lambda: {"sample": image(channels=3)},
    ),
    "autoencoder-qwen-image": Model(
        "AutoencoderKLQwenImage",
        {
            "base_dim": 8,
            "z_dim": 4,
            "dim_mult": [1, 2],
            "num_res_blocks": 1,
            "temperal_downsample": [False],
            "latents_mean": [0.0] * 4,
            "latents_std": [1.0] * 4,
        },
        lambda: {"sample": torch.randn(1, 3, 1, 16, 16)},
    ),
    "vq": Model(
        "VQModel",
        {
            "block_out_channels": (16, 32),
            "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
            "up_block_types": ("UpDecoderBlock2D", "UpDecoderBlock2D"),
            "norm_num_groups": 8,
            "num_vq_embeddings": 16,
            "latent_channels": 3,
        },
        lambda: {"sample": image(channels=3)},
    ),
}


def build(model: Model) -> torch.nn.Module:
    """A module with random weights.

    Diffusers starts many final layers at zero, through which nothing would be seen: those get small random numbers."""
    module = getattr(diffusers, model.name)(**model.config)
    for parameter in module.parameters():
        if not parameter.detach().any():
            torch.nn.init.normal_(parameter, std=0.05)
    return module


def cases(options: Options) -> Iterator[CaseSpec]:
    for name, model in MODELS.items():
        skip = None if hasattr(diffusers, model.name) else f"Diffusers {diffusers.__version__} has no {model.name}"
        for mode, about in MODES.items():
            yield CaseSpec(f"diffusers/model.{name}/{mode}", f"model.{name}", f"{model.name}: {about}", skip)


def run(case_id: str, name: str, mode: str, context: Context) -> Measured:
    model = MODELS.get(name)
    if model is None or mode not in MODES or not hasattr(diffusers, model.name):
        raise Skipped(f"this version has no such case: {case_id}")
    return trial.evaluate(Trial(lambda: build(model), model.inputs, call_by_name), case_id, mode, context)
