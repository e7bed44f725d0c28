"""What the rules for small configurations cannot know: fields by model type, each for a reason that stands beside it."""

from typing import Any

FIELDS: dict[str, dict[str, Any]] = {
    # Both kinds of layer in two of them; the library's own pattern is a full one after five with a sliding window.
    "gemma3_text": {"layer_types": ["sliding_attention", "full_attention"]},
    "gemma4_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "global_head_dim": 32,
        "hidden_size_per_layer_input": 16,
    },
    # Two of each kind, and the latter two reuse the former's keys and values.
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "intermediate_size": 96,
        "activation_sparsity_pattern": [0.5, 0.0, 0.5, 0.0],
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": 128,
        "laurel_rank": 16,
    },
    # hidden_size * expand = num_heads * head_dim.
    "mamba2": {"num_heads": 8},
    # The multimodal sections of a rotary embedding add up to half of the head's dimension.
    "qwen2_vl_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}},
    "qwen2_5_vl_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}},
    "qwen3_vl_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}},
    "qwen3_vl_moe_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}},
}

# A kind of a model that its configuration's default leaves out: (model type, fields of the configuration, of its text model).
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma4_text-moe": (
        "gemma4_text",
        {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32},
    ),
    "gemma4-moe": (
        "gemma4",
        {"text_config": {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32}},
    ),
}
