"""What single types of transformers want beside the general sizes and inputs of architectures.py: one table.

    "mamba2": {"num_heads": 8}                     an attribute of the configuration, or of one inside it ("text_config.x")
    "siglip2*": {"> spatial_shapes": [[4, 4]]}     an input: a list is its values, a tuple its shape

Names are shell patterns, all that match count.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import torch

#: Networks that others are built on, small: the default ones ask for the package timm.
_RESNET = (
    "resnet",
    {
        "embedding_size": 16, "hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1], "layer_type": "basic",
        "out_features": ["stage2", "stage3", "stage4"],
    },
)  # fmt: skip
_LAST_OF_RESNET = ("resnet", {**_RESNET[1], "out_features": ["stage4"]})
_HIERA = {
    "image_size": [64, 64], "hidden_size": 16, "num_attention_heads_per_stage": [1, 1, 2, 2],
    "embed_dim_per_stage": [16, 32, 64, 128], "blocks_per_stage": [1, 1, 2, 1],
    "num_attention_heads": 1, "global_attention_blocks": [3], "window_size_per_stage": [4, 4, 4, 2],
}  # fmt: skip
_PATCHES = {"> pixel_values": (1, 16, 768), "> pixel_attention_mask": (1, 16), "> spatial_shapes": [[4, 4]]}
_M_ROPE = {"mrope_section": [2, 3, 3], "rope_type": "default", "rope_theta": 10000.0}


_HALF_M_ROPE = {**_M_ROPE, "mrope_section": [1, 1, 2], "partial_rotary_factor": 0.5}


def _under(prefix: str, rules: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{key}": value for key, value in rules.items()}


_SAM2 = {
    **_under("backbone_config", _HIERA),
    "backbone_channel_list": [128, 64, 32, 16],
    "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
}

#: Narrow and with weights large enough that the best queries are not chosen by rounding.
_DETECTOR = {"decoder_in_channels": [64] * 3, "initializer_range": 0.05}
_SERIES = {
    "prediction_length": 8, "context_length": 16, "lags_sequence": [1, 2, 3], "num_time_features": 1, "feature_size": 6,
    "> past_values": (1, 19), "> past_time_features": (1, 19, 1), "> past_observed_mask": (1, 19),
    "> future_values": (1, 8), "> future_time_features": (1, 8, 1),
}  # fmt: skip
_SWIN = {"embed_dim": 24, "num_heads": [1, 2, 2, 4], "depths": [1, 1, 1, 1]}

RULES: dict[str, dict[str, Any]] = {
    "audioflamingo3_encoder": {"> input_features_mask": (1, 3000)},
    "axk1": {"n_group": 1, "topk_group": 1},
    "autoformer": _SERIES,
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 16},
    "blip-2": {"image_token_index": 150, "num_query_tokens": 4, "> input_ids": [[*[150] * 4, *range(5, 13)]]},
    "canary": {"> input_features": (1, 120, 128)},
    "chameleon": {"vocabulary_map": {"<image>": 100}},
    "clap": {"> input_features": (1, 1, 1001, 64)},
    "clvp": {"> input_features": (1, 80, 120)},
    "codegen": {"rotary_dim": 16},
    "cohere_asr": {"> input_features": (1, 120, 128)},
    "conditional_detr": {"backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False},
    "d_fine": _DETECTOR,
    "dab-detr": {"backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False},
    "decision_transformer": {
        "> states": (1, 4, 17), "> actions": (1, 4, 4), "> rewards": (1, 4, 1), "> returns_to_go": (1, 4, 1),
        "> timesteps": [[0, 1, 2, 3]], "> attention_mask": (1, 4),
    },
    "deepseek_v2": {"num_experts_per_tok": 2},
    "deformable_detr": {"backbone_config": _RESNET, "use_timm_backbone": False},
    "deimv2": _DETECTOR,
    "detr": {"backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False},
    "dia": {"> decoder_input_ids": (1, 6, 9)},
    "efficientnet": {"width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280, "image_size": 64},
    "ernie4_5_moe": {"moe_k": 2},
    "esm": {"vocab_size": 160, "pad_token_id": 1},
    "esmc": {"vocab_size": 160},
    "falcon_h1": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_ssm": 128},
    "funnel": {"block_sizes": [1, 1, 1], "block_repeats": [1, 1, 1], "architectures": []},
    "gemma3n_text": {
        "num_hidden_layers": 4, "num_kv_shared_layers": 2, "intermediate_size": [96] * 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2, "activation_sparsity_pattern": [0.95, 0.0, 0.0, 0.0],
    },
    "gemma4*text": {"per_layer_config": {}},
    "glm4v": {"text_config.rope_parameters": _HALF_M_ROPE},
    "glm4v_moe": {"text_config.rope_parameters": _HALF_M_ROPE},
    "glm4v*_text": {"rope_parameters": _HALF_M_ROPE},
    "gptj": {"rotary_dim": 16},
    "granite_speech5_*": {"> input_features": (1, 120, 320)},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 16},
    "*grounding-dino": {f"backbone_config.{key}": value for key, value in _SWIN.items()} | {"init_std": 0.15},
    "informer": _SERIES,
    "kosmos-2": {
        "latent_query_num": 4, "> pixel_values": (1, 3, 224, 224), "> input_ids": (1, 12),
        "> image_embeds_position_mask": [[0, *[1] * 4, *[0] * 7]],
    },
    "llava": {
        "image_token_index": 150, "image_token_id": 150, "vision_config.image_size": 56, "> pixel_values": (1, 3, 56, 56),
        "> input_ids": [[*[150] * 16, *range(7, 19)]], "> attention_mask": (1, 28),
    },
    "lasr_ctc": {"> input_features": (1, 120, 128)},
    "lxmert": {"> visual_feats": (1, 5, 2048), "> visual_pos": (1, 5, 4)},
    "mamba2": {"num_heads": 8},
    "ministral": {"head_dim": 16},
    "muse_spark_audio": {"> input_values": (1, 3840)},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron3_*": {"> input_features": (1, 120, 128)},
    "nemotron_h": {"n_groups": 2},
    "paddleocr_vl": {"text_config.rope_parameters": _M_ROPE},
    "perceiver": {"d_latents": 64, "num_latents": 16, "> inputs": (1, 20, 64)},
    "pp_doclayout_v4": {**_DETECTOR, "initializer_range": 0.2},
    "qwen*_omni*_thinker": {"vision_start_token_id": 150, "text_config.rope_parameters": _M_ROPE},
    "qwen2_vl": {"text_config.rope_parameters": _M_ROPE},
    "qwen2_5_vl": {"text_config.rope_parameters": _M_ROPE},
    "qwen2*_vl_text": {"rope_parameters": _M_ROPE},
    "rt_detr*": _DETECTOR,
    "sam2": {**_under("vision_config", _SAM2), "prompt_encoder_config.image_size": 64},
    "sam2_vision_model": _SAM2,
    "sam2_hiera_det_model": _HIERA,
    "sew*": {"num_feat_extract_layers": 13},
    "siglip2": {"text_config.projection_size": 64, **_PATCHES},
    "siglip2_vision_model": _PATCHES,
    "speecht5": {"> input_values": (1, 20, 64), "> decoder_input_values": (1, 6, 64)},
    "step3p7": {"text_config.sliding_window": 8},
    "table-transformer": {"backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False},
    "time_series_transformer": _SERIES,
    "timesfm": {"> past_values": (1, 128), "> past_values_padding": [[0] * 128], "> freq": [[0]]},
    "tvp": {
        "backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False, "num_frames": 2,
        "> pixel_values": (1, 2, 3, 448, 448),
    },
    "udop": {"> bbox": (1, 12, 4)},
    "vibevoice_acoustic_tokenizer*": {"num_filters": 4},
    "vits": {"vocab_size": 160, "noise_scale_duration": 0.0, "noise_scale": 0.0},  # noise decides how long the sound is
    "xmod": {"default_language": "en_XX"},
    "zamba": {"attention_hidden_size": 128},
    "zamba2": {"n_mamba_heads": 8, "mamba_headdim": 16, "attention_hidden_size": 128},
}  # fmt: skip


def apply_rules(name: str, config: Any) -> None:
    """Sets what the type's rules say about its configuration."""
    for key, value in _rules(name).items():
        if key.startswith(">"):
            continue
        *path, attribute = key.split(".")
        owner = config
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, attribute, _configuration(*value) if isinstance(value, tuple) else value)


def ruled_inputs(name: str) -> dict[str, torch.Tensor]:
    """The inputs that the type's rules make."""
    made = {}
    for key, value in _rules(name).items():
        if key.startswith(">"):
            name_of_input = key.lstrip("> ")
            made[name_of_input] = torch.tensor(value) if isinstance(value, list) else _numbers(name_of_input, value)
    return made


def _rules(name: str) -> dict[str, Any]:
    return {
        key: value for pattern, rules in RULES.items() if fnmatchcase(name, pattern) for key, value in rules.items()
    }


def _configuration(kind: str, changed: dict[str, Any]) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[kind](**changed)


def _numbers(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    if name.endswith("_ids"):
        return torch.randint(3, 90, shape)
    return torch.ones(shape, dtype=torch.int64) if name.endswith("_mask") else torch.rand(shape)
