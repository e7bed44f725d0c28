"""Small configurations by rule: every field of a configuration class is shrunk by what its name says it is.

The rules know no model. They come in groups (GROUPS), so that a model which one of them breaks can be made without that group;
which groups that are stands in the table (models.json). Only what no rule can say is in `exceptions.py`.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

from . import exceptions

HIDDEN = 64
INTERMEDIATE = 96
HEADS = 4
KEY_VALUE_HEADS = 2
HEAD_DIM = 16
LAYERS = 2
EXPERTS = 4
EXPERTS_PER_TOKEN = 2
VOCABULARY = 128
POSITIONS = 128
IMAGE = 64
RANK = 32
# The narrowest of a list of widths.
NARROWEST = 16
# Of the initial weights: at the usual 0.02 a narrow model's layers hardly change what passes through them.
SPREAD = 0.1
# Tokens below this are plain text; those that stand for images and the like lie above it.
PLAIN_TOKENS = 96

GROUPS = ("spread", "widths", "lists", "images", "heads", "positions", "layers")

TOKENS = {"pad": 0, "bos": 1, "eos": 2, "decoder_start": 1, "image": 120, "video": 121, "audio": 122, "unk": 3, "mask": 4}

# (Group, names, value for a whole number). The first that fits is taken. Each is a ceiling: what is smaller stays.
CEILINGS: tuple[tuple[str, str, int], ...] = (
    (
        "heads",
        r"(?!.*(dim|size)).*(kv_heads|key_value_heads|num_kv_heads|num_key_value_heads)|num_key_value_groups",
        KEY_VALUE_HEADS,
    ),
    ("heads", r"(?!.*(dim|size)).*(attention_heads|_heads|n_head|num_heads|nhead)|n_heads", HEADS),
    (
        "heads",
        r".*(head_dim|head_size|dim_head|d_kv|dim_key|qk_nope_head_dim|qk_rope_head_dim|v_head_dim)|qk_head_dim|"
        r"linear_.*head_dim",
        HEAD_DIM,
    ),
    ("widths", r".*(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts)", EXPERTS),
    (
        "widths",
        r".*(experts_per_tok|top_k_experts|moe_topk|moe_top_k|moe_k|experts_per_token)|num_selected_experts",
        EXPERTS_PER_TOKEN,
    ),
    ("widths", r"n_group", 2),
    ("widths", r"topk_group", 1),
    ("widths", r"n_shared_experts|num_shared_experts", 1),
    (
        "layers",
        r"(?!.*(dim|size|offset|_id|norm|period|type|feature)).*(hidden_layers|num_layers|n_layers?|encoder_layers|"
        r"decoder_layers|_layers)",
        LAYERS,
    ),
    ("layers", r"depth|layers|num_blocks|num_hidden_groups|.*_depth|depth_.*layers", LAYERS),
    ("layers", r".*(layer_period|attention_interval|sliding_window_pattern|_period)|full_attention_interval", 2),
    ("layers", r".*(layer_offset|first_k_dense_replace|num_dense_layers)", 1),
    ("widths", r".*(lora_rank|_rank|lora_r)", RANK),
    (
        "widths",
        r".*(intermediate_size|ffn_dim|mlp_dim|d_ff|ffn_hidden_size|dim_feedforward|feedforward_dim|n_inner|d_inner|"
        r"ff_dim|feed_forward.*size|ffn_size)|inner_dim",
        INTERMEDIATE,
    ),
    (
        "widths",
        r".*(hidden_size|d_model|embed_dim|embedding_size|projection_dim|n_embd|model_dim|emb_dim|embedding_dim|"
        r"hidden_dim|output_dim|hidden_channels)|dim|decoder_dim|d_embed|width|proj_dim|proj_size|"
        r"classifier_proj_size|mask_feature_size|.*fusion_hidden_size|out_hidden_size|output_channels|"
        r"output_proj_dims|adapter_out_dim|lru_width|decoder_channels|pooler_size|rnn_dim|.*_hidden_dims?",
        HIDDEN,
    ),
    ("widths", r".*(num_queries|query_num|num_latents|n_latents|query_length|num_query_tokens)", 16),
    ("widths", r".*(codebook_size|num_embeddings|num_centroids)", 32),
    ("widths", r".*(codebook_dim|codebook_hidden.*)", 16),
    ("widths", r"num_filters|.*upsample_initial_channel", 32),
    ("widths", r"audio_vocab_size|.*_vocab_size.*|vocab_size.*|char_vocab_size|entity_vocab_size", VOCABULARY),
    ("widths", r"state_size|mamba_d_state|ssm_state_size|d_state|time_step_rank", 16),
    ("widths", r"num_conv_pos_embeddings", 16),
    ("widths", r"index_topk", 4),
    ("heads", r"rotary_dim", 8),
    ("widths", r"num_groups", 8),
    ("images", r"mm_tokens_per_image", 4),
    ("layers", r"num_kv_shared_layers", 0),
    ("positions", r".*(max_source_positions)", 32),
    (
        "positions",
        r".*(max_position_embeddings|n_positions|max_target_positions|max_seq_len|max_sequence_length|"
        r"max_2d_position_embeddings|_position_embeddings|n_ctx)",
        POSITIONS,
    ),
    (
        "positions",
        r".*(chunk_size|attention_chunk_size|sliding_window|sliding_window_size|local_attention|attention_window|"
        r"context_size|window_size_left)",
        8,
    ),
    (
        "images",
        r"image_size|input_size|img_size|max_image_size|resolution|crop_size|pretrain_img_size|input_resolution|"
        r".*_image_size",
        IMAGE,
    ),
    ("images", r"num_frames|frames_per_clip|tubelet_frames", 4),
    ("images", r"max_length", 64),
)


def _scaled(values: list[int]) -> list[int]:
    """Widths in the same proportions, the narrowest of them at NARROWEST, multiples of 8."""
    divisor = max(min(values) / NARROWEST, 1)
    return [max(8, int(value / divisor + 4) // 8 * 8) for value in values]


def _list(name: str, values: list[int]) -> list[int] | None:
    """What becomes of a list of whole numbers, None where no rule fits."""
    if re.fullmatch(
        r".*(depths|num_block_repeats|layers_per_block|num_blocks|layer_repeats|depth|num_hidden_layers|encoder_layers)", name
    ):
        return [min(value, 1) for value in values]
    if re.fullmatch(r".*heads", name):
        return [max(1, value // min(values)) for value in values]
    if re.fullmatch(
        r".*(hidden_sizes|embed_dims?|channels|hidden_dims?|dims?|out_features_dim|hidden_size|embedding_size|_size)", name
    ) and not re.search(r"kernel|patch|stride|window|image|pool|crop|grid|input_size", name):
        return _scaled(values) if min(values) > NARROWEST else None
    if re.fullmatch(r"image_size|img_size", name):
        return [min(value, IMAGE) for value in values]
    return None


def _number(name: str, value: int, groups: Collection[str]) -> int:
    if (token := re.fullmatch(r"(?:.*_)?([a-z]+(?:_[a-z]+)?)_(?:token_id|token_index)", name)) or name in ("pad_index",):
        return _token(name, token.group(1) if token else "pad")
    if name == "patch_size" or name == "vision_patch_size":
        return 16 if value > 8 and "images" in groups else value
    for group, pattern, ceiling in CEILINGS:
        if re.fullmatch(pattern, name):
            return min(value, ceiling) if group in groups else value
    return value


def _token(name: str, kind: str) -> int:
    """The token that stands for a kind of thing: the same wherever the name is, different ones for different names."""
    for known, token in TOKENS.items():
        if kind == known or kind.endswith("_" + known):
            return token
    # 97…119: spread by the name, which is the same in every configuration of a model.
    return PLAIN_TOKENS + 1 + sum(name.encode()) % 23


def small_value(name: str, value: Any, groups: Collection[str]) -> Any:
    """A field's value in a small configuration."""
    if name in ("initializer_range", "init_std", "initializer_std") and isinstance(value, float) and "spread" in groups:
        return max(value, SPREAD)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and value > 0:
        return _number(name, value, groups)
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in value)
    ):
        shrunk = _list(name, list(value)) if "lists" in groups else None
        return value if shrunk is None else type(value)(shrunk)
    return value


def _default(field: dataclasses.Field) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def small_arguments(
    config_class: type, without: Collection[str] = (), given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What to construct a small configuration of a class with; `given` values, where there are any, take a default's place."""
    groups = set(GROUPS) - set(without)
    given = given or {}
    subs = getattr(config_class, "sub_configs_defaults", {})
    attribute_map = getattr(config_class, "attribute_map", {})
    # A field may go under a common name in attribute_map: `n_layer` is `num_hidden_layers`.
    common = {own: name for name, own in attribute_map.items()}
    found: dict[str, Any] = {}
    for field in dataclasses.fields(config_class):
        if field.name in subs or field.name.startswith("_"):
            continue
        before = given.get(field.name, _default(field))
        value = small_value(field.name, before, groups)
        if value == before and field.name in common:
            value = small_value(common[field.name], before, groups)
        if value != _default(field) or field.name in given:
            found[field.name] = value
    _keep_equal(config_class, found)
    for name, spec in subs.items():
        found[name] = _sub_config(spec, without, given.get(name))
    for name, value in given.items():
        found.setdefault(name, value)
    found.update(exceptions.FIELDS.get(config_class.model_type, {}))
    return found


def _keep_equal(config_class: type, found: dict[str, Any]) -> None:
    """Where a model has as many heads for keys and values as for queries, so has the small one."""
    defaults = {field.name: _default(field) for field in dataclasses.fields(config_class)}
    many, shared = "num_attention_heads", "num_key_value_heads"
    if shared in found and many in found and defaults[many] == defaults[shared]:
        found[shared] = found[many]


def _sub_config(spec: Any, without: Collection[str], given: Any) -> Any:
    if given is not None and not isinstance(given, dict):
        return given
    given = {**(spec.init_kwargs or {}), **(given or {})}
    model_type = given.pop("model_type", None) or spec.model_type
    config_class = spec.config_class
    if not dataclasses.is_dataclass(config_class):
        config_class = spec.get_config_class(model_type)
    return config_class(**small_arguments(config_class, without, given))


def small_config(config_class: type, without: Collection[str] = ()) -> Any:
    """A small configuration of a class.

    Raises whatever the class raises at values that do not fit each other."""
    return config_class(**small_arguments(config_class, without))
