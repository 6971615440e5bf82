"""What single types of transformers want beside the general sizes and inputs of architectures.py: one table.

    "mamba2": {"num_heads": 8}               an attribute of the configuration, or of one inside it ("text_config.x")
    "siglip2*": {"> spatial_shapes": [[4, 4]]}   an input: a list is its values, a tuple its shape
    "musicgen*": {"class": "ForCausalLM"}        how its class ends, where AutoModel takes another one

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
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_ROPE_OF_LAYERS = {"full_attention": _ROPE, "sliding_attention": _ROPE}
_QWEN4 = {
    "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 4,
    "indexer_compress_ratio": 2,
}  # fmt: skip
_STAGES = ["stage1", "stage2", "stage3", "stage4"]
_LCNET_V4 = {
    "backbone_config.out_features": _STAGES, "backbone_config.depths": [1, 1, 1, 1],
    "backbone_config.block_configs": [
        [[3, 96, 96, 1, True]], [[3, 96, 96, 2, False]], [[3, 96, 192, 2, False]], [[3, 192, 384, 2, False]],
    ],
}  # fmt: skip
_RATIOS = {"longratio": 7, "midratio": 5, "shortratio": 3}
#: Kernel, stride and padding of crossing strips (pp_ocrv6_medium_det).
_INTRACLASS = {
    "reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0],
    **{f"vertical_long_to_small_conv_{k}": [[n, 1], [1, 1], [n // 2, 0]] for k, n in _RATIOS.items()},
    **{f"horizontal_small_to_long_conv_{k}": [[1, n], [1, 1], [0, n // 2]] for k, n in _RATIOS.items()},
    **{f"symmetric_conv_long_{k}": [[n, n], [1, 1], [n // 2, n // 2]] for k, n in _RATIOS.items()},
}  # fmt: skip

RULES: dict[str, dict[str, Any]] = {
    "apertus1p5*": {"vision_config.base_channels": 32, "vision_config.codebook_size": 256,
                    "audio_config.codebook_size": 256},
    "audioflamingo3_encoder": {"> input_features_mask": (1, 3000)},
    "autoformer": _SERIES,
    "axk1": {"n_group": 1, "topk_group": 1},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 16},
    "blip-2": {"image_token_index": 150, "num_query_tokens": 4, "> input_ids": [[*[150] * 4, *range(5, 13)]]},
    "blip_2_qformer": {"> query_embeds": (1, 4, 64), "> encoder_hidden_states": (1, 6, 64), "> attention_mask": (1, 4)},
    "blt": {
        "encoder_hash_byte_group_vocab": 1000, "global_config.encoder_cross_output_size": 128,
        "decoder_config.hidden_size_global": 64,
    },
    "canary": {"> input_features": (1, 120, 128)},
    "chameleon": {"vocabulary_map": {"<image>": 100}},
    "clap": {"> input_features": (1, 1, 1001, 64)},
    "clvp": {"> input_features": (1, 80, 120)},
    "codegen": {"rotary_dim": 16},
    "cohere_asr": {"> input_features": (1, 120, 128)},
    "cohere_compass": {"text_config.rope_parameters": _ROPE_OF_LAYERS},
    "cohere_compass_text": {"rope_parameters": _ROPE_OF_LAYERS},
    "conditional_detr": {"backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False},
    "csm": {"codec_config.upsample_groups": 64},
    "d_fine": _DETECTOR,
    "dab-detr": {"backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False},
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "decision_transformer": {
        "> states": (1, 4, 17), "> actions": (1, 4, 4), "> rewards": (1, 4, 1), "> returns_to_go": (1, 4, 1),
        "> timesteps": [[0, 1, 2, 3]], "> attention_mask": (1, 4),
    },
    "deepseek_ocr2": {"text_config.mlp_layer_types": ["dense", "sparse"], "text_config.num_experts_per_tok": 2},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "deformable_detr": {"backbone_config": _RESNET, "use_timm_backbone": False},
    "deimv2": _DETECTOR,
    "depth_pro": {
        "patch_size": 56, "intermediate_hook_ids": [1, 0], "image_model_config.image_size": 56,
        "patch_model_config.image_size": 56, "> pixel_values": (1, 3, 224, 224),
    },
    "detr": {"backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False},
    "dia": {"> decoder_input_ids": (1, 6, 9)},
    "diffusion_gemma": {
        "text_config.num_experts": 4, "text_config.top_k_experts": 2, "text_config.moe_intermediate_size": 96,
        "> decoder_input_ids": (1, 6),
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "dots3_note": {"text_config.head_dim": 64, "text_config.num_key_value_heads": 4},
    "dots3_note_text": {"head_dim": 64, "num_key_value_heads": 4},
    "efficientnet": {"width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280, "image_size": 64},
    "emu3": {"vocabulary_map": {"<image>": 100, "<|visual token 000000|>": 101}, "vq_config.base_channels": 32},
    "ernie4_5_moe": {"moe_k": 2},
    "ernie4_5_vl_moe": {
        "text_config.rope_parameters": {**_M_ROPE, "mrope_section": [3, 3, 2]},
        "text_config.moe_intermediate_size": [96, 96], "text_config.moe_k": 2,
    },
    "esm": {"vocab_size": 160, "pad_token_id": 1},
    "esmc": {"vocab_size": 160},
    "evolla": {"class": "ForProteinText2Text"},
    "falcon_h1": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_ssm": 128},
    "fun_asr_nano_encoder": {"> input_features": (1, 20, 560), "> input_features_mask": (1, 20)},
    "funnel": {"block_sizes": [1, 1, 1], "block_repeats": [1, 1, 1], "architectures": []},
    "gemma3n_audio": {"> audio_mel": (1, 96, 128), "> audio_mel_mask": [[False] * 96]},
    "gemma3n_text": {
        "num_hidden_layers": 4, "num_kv_shared_layers": 2, "intermediate_size": [96] * 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "activation_sparsity_pattern": [0.95, 0.0, 0.0, 0.0],
    },
    "gemma4*text": {"per_layer_config": {}},
    "gemma4_audio": {"> input_features": (1, 96, 128), "> input_features_mask": [[True] * 96]},
    "gemma4_vision": {"> pixel_values": (1, 36, 768), "> pixel_position_ids": [[[i % 6, i // 6] for i in range(36)]]},
    "glm46v": {"text_config.rope_parameters": _HALF_M_ROPE},
    "glm4v": {"text_config.rope_parameters": _HALF_M_ROPE},
    "glm4v*_text": {"rope_parameters": _HALF_M_ROPE},
    "glm4v_moe": {"text_config.rope_parameters": _HALF_M_ROPE},
    "glm_image": {"text_config.rope_parameters": _HALF_M_ROPE},
    "glm_image_text": {"rope_parameters": _HALF_M_ROPE},
    "glmga": {"text_config.rope_parameters": _HALF_M_ROPE},
    "gptj": {"rotary_dim": 16},
    "granite4_vision": {"downsample_rate": "1/2", "deepstack_layer_map": [[0, 0]], "spatial_target_layers": [1]},
    "granite_speech5_*": {"> input_features": (1, 120, 320)},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 16},
    "*grounding-dino": {f"backbone_config.{key}": value for key, value in _SWIN.items()} | {"init_std": 0.15},
    "higgs_audio_v2_tokenizer": {"> input_values": (1, 1, 4000)},
    "hunyuan_v1_*": {"head_dim": 16},
    "hunyuan_vl": {"text_config.head_dim": 16, "text_config.rope_parameters": _M_ROPE},
    "hunyuan_vl_text": {"head_dim": 16, "rope_parameters": _M_ROPE},
    "idefics": {"> pixel_values": (1, 1, 3, 224, 224), "> image_attention_mask": (1, 12, 1)},
    "informer": _SERIES,
    "inkling2_vision": {"> pixel_values": (16, 40, 40, 3), "> image_grid_thw": [[1, 4, 4]]},
    "instructblip": {
        "image_token_index": 150, "num_query_tokens": 4, "> qformer_input_ids": (1, 5),
        "> input_ids": [[*[150] * 4, *range(5, 13)]],
    },
    "instructblipvideo": {
        "video_token_index": 150, "num_query_tokens": 4, "> qformer_input_ids": (1, 5),
        "> pixel_values": (1, 2, 3, 224, 224), "> input_ids": [[*[150] * 8, *range(5, 9)]],
    },
    "kimi_k25_vision": {"> pixel_values": (16, 3, 14, 14), "> grid_thw": [[1, 4, 4]]},
    "kimi_linear": {"num_key_value_heads": 4, "num_experts_per_token": 2},
    "kosmos-2": {
        "latent_query_num": 4, "> pixel_values": (1, 3, 224, 224), "> input_ids": (1, 12),
        "> image_embeds_position_mask": [[0, *[1] * 4, *[0] * 7]],
    },
    "kyutai_speech_to_text": {"> input_ids": (1, 12, 33), "codec_config.upsample_groups": 64},
    "lasr_ctc": {"> input_features": (1, 120, 128)},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "llava": {
        "image_token_index": 150, "image_token_id": 150, "vision_config.image_size": 56,
        "> pixel_values": (1, 3, 56, 56),
        "> input_ids": [[*[150] * 16, *range(7, 19)]], "> attention_mask": (1, 28),
    },
    "lw_detr": {
        **_DETECTOR, "backbone_config.out_features": ["stage1", "stage2"], "backbone_config.image_size": 64,
        "projector_in_channels": [64], "projector_out_channels": 64, "projector_scale_factors": [1.0],
        "num_feature_levels": 1, "num_queries": 8, "> pixel_values": (1, 3, 64, 64),
    },
    "lxmert": {"> visual_feats": (1, 5, 2048), "> visual_pos": (1, 5, 4)},
    "mamba2": {"num_heads": 8},
    "mimi_decoder": {"upsample_groups": 64, "> latents": (1, 64, 10)},
    "minicpm_ocr_vision": {"insert_layer_id": 0, "> pixel_values": (1, 3, 16, 256), "> target_sizes": [[4, 4]]},
    "minicpmv4_7_vision": {"insert_layer_id": 0, "> pixel_values": (1, 3, 16, 256), "> target_sizes": [[4, 4]]},
    "ministral": {"head_dim": 16},
    "mistral4": {"head_dim": 32, "num_key_value_heads": 4},
    "moonshine_streaming": {"num_key_value_heads": 4, "> input_values": (1, 4000)},
    "muse_*_vision": {"> pixel_values": (16, 1176), "> grid_thw": [[1, 4, 4]]},
    "muse_glimmer_assistant": {"> noise_embeds": (1, 16, 64), "> context_hidden_states": (1, 12, 320)},
    "muse_spark_audio": {"num_hidden_layers": 4, "hidden_sizes": [16, 32, 64, 64], "> input_values": (1, 3840)},
    "musicgen*": {"class": "ForConditionalGeneration", "> decoder_input_ids": (4, 6)},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron3_*": {"> input_features": (1, 120, 128)},
    "nemotron3_5_asr": {"> input_features": (1, 120, 80)},
    "nemotron_h": {"n_groups": 2},
    "neucodec": {
        "quantization_dim": 128, "num_key_value_heads": 4, "semantic_model_config.feature_projection_input_dim": 160,
        "> input_values": (1, 1, 3200), "> input_features": (1, 10, 160),
    },
    "oneformer": {
        "backbone_config": ("swin", {**_SWIN, "out_features": _STAGES}), "> pixel_values": (1, 3, 64, 64),
        "> task_inputs": (1, 77),
    },
    "paddleocr_vl": {"text_config.rope_parameters": _M_ROPE},
    "perceiver": {"d_latents": 64, "num_latents": 16, "> inputs": (1, 20, 64)},
    "pi0": {
        "vlm_config.image_token_index": 150, "vlm_config.vision_config.image_size": 28, "> action_embeds": (1, 5, 64),
        "> pixel_values": (1, 1, 3, 28, 28), "> pixel_attention_mask": [[True]],
        "> input_ids": [[*[150] * 4, *range(5, 13)]], "> attention_mask": (1, 12),
    },
    "pocket_tts_audio_tokenizer_decoder": {"upsample_groups": 64, "> latents": (1, 64, 10)},
    "pp_doclayout_v3": {**_DETECTOR, "initializer_range": 0.2, "x4_feat_dim": 128},
    "pp_doclayout_v4": {**_DETECTOR, "initializer_range": 0.2},
    "pp_ocrv5_mobile_rec": {"> pixel_values": (1, 3, 96, 64)},
    "pp_ocrv6_medium_det": {
        **_LCNET_V4, "scale_factor_list": [1, 2, 4, 8], "kernel_list": [3, 2, 2], "neck_out_channels": 64,
        "intraclass_block_config": _INTRACLASS,
    },
    "pp_ocrv6_small_det": {**_LCNET_V4, "layer_list_out_channels": [96, 96, 192, 384]},
    "qwen*_omni*_thinker": {"vision_start_token_id": 150, "text_config.rope_parameters": _M_ROPE},
    "qwen2*_vl_text": {"rope_parameters": _M_ROPE},
    "qwen2_5_vl": {"text_config.rope_parameters": _M_ROPE},
    "qwen2_vl": {"text_config.rope_parameters": _M_ROPE},
    "qwen4_exp": _under("text_config", _QWEN4),
    "qwen4_exp_text": _QWEN4,
    "rf_detr": {**_DETECTOR, "num_queries": 8, "backbone_config.out_features": ["stage2"]},
    "rt_detr*": _DETECTOR,
    "sam2": {**_under("vision_config", _SAM2), "prompt_encoder_config.image_size": 64},
    "sam2_hiera_det_model": _HIERA,
    "sam2_vision_model": _SAM2,
    "seggpt": {
        "image_size": [64, 32], "> pixel_values": (1, 3, 32, 32), "> prompt_pixel_values": (1, 3, 32, 32),
        "> prompt_masks": (1, 3, 32, 32),
    },
    "sew*": {"num_feat_extract_layers": 13},
    "siglip2": {"text_config.projection_size": 64, **_PATCHES},
    "siglip2_vision_model": _PATCHES,
    "speecht5": {"> input_values": (1, 20, 64), "> decoder_input_values": (1, 6, 64)},
    "step3p7": {"text_config.sliding_window": 8},
    "t5gemma2_encoder": {"text_config.dropout_rate": 0.0},
    "table-transformer": {"backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False},
    "time_series_transformer": _SERIES,
    "timesfm": {"> past_values": (1, 128), "> past_values_padding": [[0] * 128], "> freq": [[0]]},
    "tvp": {
        "backbone_config": _LAST_OF_RESNET, "use_timm_backbone": False, "num_frames": 2,
        "> pixel_values": (1, 2, 3, 448, 448),
    },
    "udop": {"> bbox": (1, 12, 4)},
    "uvdoc": {"backbone_config.out_features": [f"stage{i}" for i in range(1, 7)]},
    "vibevoice": {"audio_config.num_filters": 4, "semantic_model_config.num_filters": 4},
    "vibevoice_acoustic_tokenizer*": {"num_filters": 4},
    "vibevoice_acoustic_tokenizer_decoder": {"> hidden_states": (1, 64, 4)},
    "vibevoice_acoustic_tokenizer_encoder": {"> hidden_states": (1, 1, 6400)},
    "vibevoice_asr": {"acoustic_tokenizer_encoder_config.num_filters": 4,
                      "semantic_tokenizer_encoder_config.num_filters": 4},
    "video_llama_3_vision": {"> pixel_values": (16, 768), "> grid_thw": [[1, 4, 4]], "> merge_sizes": [2]},
    "vits": {"vocab_size": 160, "noise_scale_duration": 0.0, "noise_scale": 0.0},  # noise decides how long the sound is
    "voxtral_realtime": {"> input_features": (1, 128, 96)},
    "xcodec": {"> input_values": (1, 1, 4000)},
    "xcodec2": {
        "quantization_dim": 128, "num_key_value_heads": 4, "semantic_model_config.feature_projection_input_dim": 160,
        "> input_values": (1, 1, 3200), "> input_features": (1, 10, 160),
    },
    "xmod": {"default_language": "en_XX"},
    "zamba": {"attention_hidden_size": 128},
    "zamba2": {"n_mamba_heads": 8, "mamba_headdim": 16, "attention_hidden_size": 128},
}  # fmt: skip


def apply_rules(name: str, config: Any) -> None:
    """Sets what the type's rules say about its configuration."""
    for key, value in _rules(name).items():
        if key.startswith(">") or key == "class":
            continue
        *path, attribute = key.split(".")
        owner = config
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, attribute, _configuration(*value) if isinstance(value, tuple) else value)


def model_of(name: str, config: Any) -> torch.nn.Module:
    """The model of a configuration: what AutoModel makes, or the class of the type's rules."""
    import transformers

    ending = _rules(name).get("class")
    if ending is None:
        return transformers.AutoModel.from_config(config)
    return getattr(transformers, type(config).__name__.removesuffix("Config") + ending)(config)


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
