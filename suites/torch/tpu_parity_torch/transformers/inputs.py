"""Synthetic inputs by the signature of a model's forward pass. A plan says which arguments, of which form; values are seeded.

A plan maps an argument's name to a form (`{"input_ids": "tokens", "pixel_values": "image"}`). `plans` proposes them, the
likeliest first; models.json has which of them a model takes. Text holds as many image, video and audio tokens as its form
says (`tokens.image4`).
"""

import inspect
import itertools
import re
from collections.abc import Iterator
from typing import Any

import torch

from .small import PLAIN_TOKENS, TOKENS

BATCH = 2
LENGTH = 8
TARGET = 5
SAMPLES = 1600
FRAMES = 4
MOST_PLANS = 24

Plan = dict[str, str]

# The forms that an argument may be of, the likeliest first.
FORMS: dict[str, tuple[str, ...]] = {
    "input_ids": ("tokens",),
    "decoder_input_ids": ("target",),
    "attention_mask": ("ones",),
    "decoder_attention_mask": ("target_ones",),
    "inputs_embeds": ("hidden",),
    "hidden_states": ("hidden", "hidden_image", "image"),
    "encoder_hidden_states": ("hidden",),
    "encoder_embeds": ("hidden",),
    "pixel_values": ("image", "frames", "patches", "one_image", "flat_patches", "boards"),
    "pixel_values_videos": ("frames", "patches"),
    "flattened_patches": ("numbered_patches",),
    "pixel_mask": ("image_ones",),
    "image_grid_thw": ("grid",),
    "grid_thw": ("grid",),
    "grid_hws": ("grid2",),
    "image_sizes": ("sizes",),
    "spatial_shapes": ("grid2",),
    "pixel_position_ids": ("patch_positions",),
    "image_position_ids": ("patch_positions",),
    "pixel_attention_mask": ("patch_ones", "image_ones"),
    "input_features": ("mel", "mel_last", "one_mel"),
    "input_features_mask": ("mel_ones",),
    "input_values": ("wave", "mel_last", "one_wave", "mel", "spectrogram"),
    "audio_values": ("one_wave", "wave"),
    "audio": ("wave", "one_wave"),
    "input": ("image", "mel", "wave"),
    "x": ("hidden", "image"),
    "spectrogram": ("mel_last", "mel"),
    "bbox": ("boxes",),
    "past_values": ("series",),
    "past_time_features": ("series_features",),
    "past_observed_mask": ("series_ones",),
    "future_values": ("future",),
    "future_time_features": ("future_features",),
    "qformer_input_ids": ("tokens",),
    "query_embeds": ("hidden",),
    "context_input_ids": ("tokens",),
    "visual_feats": ("visual",),
    "visual_pos": ("visual_boxes",),
    "token_type_ids": ("zeros",),
    "mm_token_type_ids": ("kinds",),
    "position_ids": ("positions",),
    "audio_codes": ("codes",),
    "task_inputs": ("tokens",),
    "states": ("states",),
    "audio_mel": ("mel_last",),
    "audio_mel_mask": ("no_mel",),
    "pixel_values_masked": ("image",),
    "speech_inputs": ("one_wave", "wave"),
    "feature": ("image", "hidden"),
    "features": ("hidden", "image"),
    "grid_sizes": ("grid",),
    "cu_seqlens": ("bounds",),
}  # fmt: skip

# What a model that can see or hear is shown, though its signature does not demand it.
SENSES = (
    "pixel_values", "flattened_patches", "input_features", "input_values", "image_grid_thw", "bbox", "image_position_ids",
    "spatial_shapes", "image_sizes", "pixel_attention_mask", "mm_token_type_ids", "qformer_input_ids", "past_values",
)  # fmt: skip


class NoInputs(Exception):
    """No rule makes an argument that the forward pass demands."""


def plans(model: Any, config: Any) -> Iterator[Plan]:
    """Plans for a model, the fullest first.

    Raises NoInputs, naming the argument."""
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    if unknown := [name for name in required if name not in FORMS]:
        raise NoInputs(f"no rule makes its argument {unknown[0]}")
    main = model.main_input_name if model.main_input_name in parameters else None
    base = list(dict.fromkeys(required + ([main] if main in FORMS else [])))
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in parameters:
        base.append("decoder_input_ids")
    senses = [name for name in SENSES if name in parameters]
    text = ["input_ids"] if "input_ids" in parameters else []
    choices = [
        base + senses + text,
        base + text + [n for n in senses if n in ("pixel_values", "input_features")],
        base + text,
        base,
    ]
    seen: list[Plan] = []
    for names in choices:
        names = list(dict.fromkeys(names))
        forms = [FORMS[name] for name in names]
        # All in their likeliest form, then one after the other, then together.
        for combination in itertools.islice(itertools.product(*forms), MOST_PLANS):
            plan = dict(zip(names, combination, strict=True))
            if plan and plan not in seen:
                seen.append(plan)
                yield plan


class Sizes:
    """The sizes that inputs must have, found in a configuration and its parts under their many names."""

    def __init__(self, config: Any):
        self.config = config
        self.parts = _parts(config)

    def first(self, *names: str, default: Any) -> Any:
        for part in self.parts:
            for name in names:
                value = getattr(part, name, None)
                if isinstance(value, int | list | tuple) and not isinstance(value, bool):
                    return value
        return default

    def number(self, *names: str, default: int) -> int:
        value = self.first(*names, default=default)
        return value if isinstance(value, int) else int(value[0])

    @property
    def image(self) -> tuple[int, int]:
        size = self.first("image_size", "img_size", "input_size", "crop_size", "input_resolution", default=64)
        return (size, size) if isinstance(size, int) else (int(size[0]), int(size[-1]))

    @property
    def channels(self) -> int:
        number = self.number("num_channels", "in_channels", "in_chans", default=3)
        return number if number <= 4 else 3

    @property
    def patch(self) -> int:
        return self.number("patch_size", "vision_patch_size", default=16)

    @property
    def mel(self) -> int:
        return self.number(
            "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "mel_dim", "model_in_dim", default=80
        )

    @property
    def mel_frames(self) -> int:
        if length := self.number("max_length", default=0):
            return length if length <= 64 else 64
        return 2 * min(self.number("max_source_positions", default=32), 64)

    @property
    def hidden(self) -> int:
        return self.number("hidden_size", "d_model", "n_embd", "embed_dim", "dim", default=64)

    @property
    def vocabulary(self) -> int:
        return min(self.number("vocab_size", default=PLAIN_TOKENS), PLAIN_TOKENS)


def _parts(config: Any) -> list[Any]:
    found = [config]
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None and not isinstance(part, dict):
            found.extend(_parts(part))
    return found


def _floats(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator)


def make(plan: Plan, config: Any, seed: int) -> dict[str, torch.Tensor]:
    """The arguments of a plan, on CPU, numbers in f32. The same seed gives the same values."""
    generator = torch.Generator().manual_seed(seed)
    sizes = Sizes(config)
    made = {name: _form(form, sizes, generator) for name, form in plan.items()}
    if "mm_token_type_ids" in made and "input_ids" in made:
        made["mm_token_type_ids"] = sum(
            (made["input_ids"] == TOKENS[kind]).long() * number for number, kind in ((1, "image"), (2, "video"), (3, "audio"))
        )
    return made


def _text(form: str, sizes: Sizes, generator: torch.Generator) -> torch.Tensor:
    """Plain tokens, after them the tokens that stand for what is seen and heard, then plain ones again."""
    tokens = torch.randint(5, max(sizes.vocabulary, 6), (BATCH, LENGTH), generator=generator)
    placed = [
        torch.full((BATCH, int(count)), getattr(sizes.config, f"{kind}_token_id", None) or TOKENS[kind])
        for kind, count in re.findall(r"\.(image|video|audio)(\d+)", form)
    ]
    return torch.cat([tokens[:, :2], *placed, tokens[:, 2:]], dim=1)


def _form(form: str, sizes: Sizes, generator: torch.Generator) -> torch.Tensor:
    if form.startswith("tokens"):
        return _text(form, sizes, generator)
    height, width = sizes.image
    patch, channels = sizes.patch, sizes.channels
    across, down = max(width // patch, 1), max(height // patch, 1)
    series = sizes.number("context_length", default=24)
    if lags := sizes.first("lags_sequence", default=None):
        series += max(lags)
    future = sizes.number("prediction_length", default=8)
    per_patch = channels * patch * patch
    whole = torch.long
    match form:
        case "target":
            return torch.randint(5, max(sizes.vocabulary, 6), (BATCH, TARGET), generator=generator)
        case "ones":
            return torch.ones(BATCH, LENGTH, dtype=whole)
        case "target_ones":
            return torch.ones(BATCH, TARGET, dtype=whole)
        case "zeros" | "kinds":
            return torch.zeros(BATCH, LENGTH, dtype=whole)
        case "positions":
            return torch.arange(LENGTH).expand(BATCH, LENGTH).clone()
        case "hidden":
            return _floats(generator, BATCH, LENGTH, sizes.hidden)
        case "hidden_image":
            return _floats(generator, BATCH, sizes.hidden, 8, 8)
        case "image":
            return _floats(generator, BATCH, channels, height, width)
        case "one_image":
            return _floats(generator, BATCH, 1, channels, height, width)
        case "boards":
            return _floats(generator, BATCH, 5, channels, height, width)
        case "frames":
            frames = sizes.number("num_frames", "frames_per_clip", default=FRAMES)
            return _floats(generator, BATCH, frames, channels, height, width)
        case "patches":
            return _floats(generator, BATCH * across * down, per_patch * sizes.number("temporal_patch_size", default=1))
        case "flat_patches":
            return _floats(generator, BATCH, across * down, per_patch)
        case "numbered_patches":
            places = torch.cartesian_prod(torch.arange(1, 5), torch.arange(1, 5)).float()
            return torch.cat([places.expand(BATCH, 16, 2), _floats(generator, BATCH, 16, per_patch)], dim=2)
        case "patch_positions":
            return torch.cartesian_prod(torch.arange(across), torch.arange(down)).expand(BATCH, across * down, 2).clone()
        case "patch_ones":
            return torch.ones(BATCH, across * down, dtype=whole)
        case "image_ones":
            return torch.ones(BATCH, height, width, dtype=whole)
        case "grid":
            return torch.tensor([[1, down, across]] * BATCH)
        case "grid2":
            return torch.tensor([[down, across]] * BATCH)
        case "sizes":
            return torch.tensor([[height, width]] * BATCH)
        case "mel":
            return _floats(generator, BATCH, sizes.mel, sizes.mel_frames)
        case "mel_last":
            return _floats(generator, BATCH, sizes.mel_frames, sizes.mel)
        case "one_mel" | "spectrogram":
            return _floats(generator, BATCH, 1, sizes.mel_frames, sizes.mel)
        case "mel_ones":
            return torch.ones(BATCH, sizes.mel_frames, dtype=torch.bool)
        case "no_mel":
            return torch.zeros(BATCH, sizes.mel_frames, dtype=torch.bool)
        case "bounds":
            return torch.arange(BATCH + 1) * across * down
        case "wave":
            return 0.3 * _floats(generator, BATCH, SAMPLES)
        case "one_wave":
            return 0.3 * _floats(generator, BATCH, 1, SAMPLES)
        case "boxes":
            corner = torch.randint(0, 50, (BATCH, LENGTH, 2), generator=generator)
            return torch.cat([corner, corner + torch.randint(1, 50, corner.shape, generator=generator)], dim=2)
        case "series":
            channels = sizes.number("num_input_channels", default=0)
            return _floats(generator, BATCH, series, channels) if channels else _floats(generator, BATCH, series)
        case "series_features":
            return _floats(generator, BATCH, series, sizes.number("num_time_features", default=1))
        case "series_ones":
            return torch.ones(BATCH, series)
        case "future":
            return _floats(generator, BATCH, future)
        case "future_features":
            return _floats(generator, BATCH, future, sizes.number("num_time_features", default=1))
        case "visual":
            return _floats(generator, BATCH, 6, sizes.number("visual_feat_dim", default=64))
        case "visual_boxes":
            return torch.rand((BATCH, 6, 4), generator=generator)
        case "codes":
            return torch.randint(0, 16, (BATCH, sizes.number("num_codebooks", default=4), LENGTH), generator=generator)
        case "states":
            return _floats(generator, BATCH, LENGTH, sizes.number("state_dim", default=17))
    raise NoInputs(f"no such form: {form}")


def labels(form: str, inputs: dict[str, torch.Tensor], config: Any) -> torch.Tensor:
    """What a model's own loss is taken against."""
    if form == "tokens":
        return inputs["decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"].clone()
    if form == "classes":
        return torch.arange(BATCH) % max(int(getattr(config, "num_labels", 2) or 2), 1)
    if form == "transcript":
        return torch.randint(5, PLAIN_TOKENS, (BATCH, 3), generator=torch.Generator().manual_seed(1))
    raise NoInputs(f"no such labels: {form}")
