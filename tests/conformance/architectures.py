"""Published architectures as a database: torchvision's models and one small model of every type in transformers.

Weights are random, sizes small: layers are few, widths narrow, vocabularies short, so that a case takes seconds. What
is tried is the graph: every operator, view and mask that the architecture's authors wrote. A type whose configuration
does not shrink (sizes that depend on each other in ways of its own) is built with fewer layers only; one that still
does not build is reported as "eager refuses".
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .architecture_rules import apply_rules, model_of, ruled_inputs

#: Parameters beyond which a model is left out: its case would take minutes.
MOST_PARAMETERS = 100_000_000

#: Attributes of configurations, by pattern, and what they become. The first match counts; lists keep their length.
_SIZES: tuple[tuple[str, int], ...] = (
    (r"(.*_)?(num|n)_(key_value|kv)_heads|num_query_groups", 2),
    (r"qk_head_dim", 32),
    (r".*(attention_heads|_heads|n_head|num_heads)", 4),
    (r".*(head_dim|d_kv|kv_channels|head_size)", 16),
    (r"(.*_)?(layers|num_.*layers|num_blocks|n_layers?|depth|.*_depth|num_.*_blocks)", 2),
    (r".*vocab_size.*", 160),
    (r"num_queries", 20),
    (r".*(intermediate_size|ffn_dim|d_ff|mlp_dim|ffn_hidden_size|n_inner|dim_feedforward)", 96),
    (r"(.*_)?(hidden_size|d_model|embed_dim|n_embd|hidden_dim|embedding_size|projection_dim|dim|width)", 64),
    (r"(.*_)?(num_experts|num_local_experts|n_routed_experts|moe_num_experts)", 4),
    (r"(.*_)?(num_experts_per_tok|moe_topk|num_selected_experts)", 2),
)  # fmt: skip
_VOCABULARY = 160
_Sizes = tuple[tuple[re.Pattern, int], ...]
_SMALL: _Sizes = tuple((re.compile(pattern + r"\Z"), size) for pattern, size in _SIZES)
#: All heads have keys of their own, where the attention is made that way only.
_FULL_HEADS: _Sizes = ((re.compile(r"(.*_)?(num|n)_(key_value|kv)_heads\Z"), 4), *_SMALL)
#: Few layers and a short vocabulary, all else as published.
_SHALLOW: _Sizes = tuple(
    (re.compile(pattern + r"\Z"), size)
    for pattern, size in (
        (r"(.*_)?(layers|num_.*layers|num_blocks|n_layers?|depths?)", 2),
        (r".*vocab_size.*", _VOCABULARY),
        (r"num_queries", 20),
    )
)
_ATTEMPTS = (_SMALL, _FULL_HEADS, _SHALLOW)


@functools.cache
def architecture_entries() -> dict[str, Callable[[], tuple[nn.Module, tuple, dict[str, Any]]]]:
    """Makers by name ("torchvision.resnet18", "transformers.bert"): each gives a module in evaluation mode and its
    inputs.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("examples.models")  # defines the operator names that torchvision asks for
        from torchvision.models import list_models
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    entries: dict[str, Callable[[], tuple[nn.Module, tuple, dict[str, Any]]]] = {}
    for name in sorted(list_models()):
        if not name.startswith("quantized_") and "rcnn" not in name and name not in _DETECTORS:
            entries[f"torchvision.{name}"] = functools.partial(_torchvision, name)
    for name in sorted(MODEL_MAPPING_NAMES):
        entries[f"transformers.{name}"] = functools.partial(_transformers, name)
    return entries


#: Their last step is an operator of torchvision's own compiled part (nms), which docs/how-to/custom_operators.md brings
#: as a plug-in.
_DETECTORS = frozenset({"fcos_resnet50_fpn", "retinanet_resnet50_fpn", "retinanet_resnet50_fpn_v2",
                        "ssd300_vgg16", "ssdlite320_mobilenet_v3_large"})  # fmt: skip


def _torchvision(name: str) -> tuple[nn.Module, tuple, dict[str, Any]]:
    from torchvision.models import get_model, get_model_builder

    taken = inspect.signature(get_model_builder(name)).parameters
    extra = {"weights_backbone": None} if "weights_backbone" in taken else {}
    model = get_model(name, weights=None, **extra).eval()
    module = type(model).__module__
    if ".optical_flow" in module:
        return model, (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)), {"num_flow_updates": 2}
    if ".video" in module:
        frames, size = (16, 224) if "mvit" in name or name == "s3d" else (8, 112)
        return model, (torch.rand(1, 3, frames, size, size),), {}
    size = 299 if "inception" in name else 64 if ".segmentation" in module else 224
    return model, (torch.rand(1, 3, size, size),), {}


def _transformers(name: str) -> tuple[nn.Module, tuple, dict[str, Any]]:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    transformers.logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    failed: Exception | None = None
    for sizes in _ATTEMPTS:
        try:
            config = _changed(CONFIG_MAPPING[name](), sizes)
            apply_rules(name, config)
            with torch.device("meta"):
                parameters = sum(p.numel() for p in model_of(name, config).parameters())
            if parameters > MOST_PARAMETERS:
                raise ValueError(f"{parameters / 1e6:.0f} million parameters after shrinking")
            model = _stirred(model_of(name, config).eval())
            return model, (), _working_inputs(model, config, ruled_inputs(name))
        except Exception as error:
            failed = failed or error
    assert failed is not None
    raise failed


def small_language_model(name: str) -> nn.Module:
    """A decoder of transformers that predicts the next token and keeps keys and values."""
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = _changed(CONFIG_MAPPING[name](), _SMALL)
    apply_rules(name, config)
    config.use_cache = True
    return _stirred(AutoModelForCausalLM.from_config(config).eval())


def export_as_transformers_does(
    model: nn.Module, kwargs: dict[str, Any]
) -> tuple[torch.export.ExportedProgram, dict[str, Any]]:
    """What transformers' own exporter makes, and the inputs of that. It computes beforehand what depends on numbers in
    the data (positions of an image's pieces, lengths of sequences), and puts other functions where torch.export cannot
    follow."""
    from transformers.exporters.exporter_dynamo import DynamoConfig, DynamoExporter

    inputs = dict(kwargs)  # what is computed beforehand is put there
    program, _ = DynamoExporter().export_program(model, inputs, DynamoConfig())
    return program, inputs


def _stirred(model: nn.Module) -> nn.Module:
    """The model with noise in parameters that begin as one number: zeros hide what is computed, equal scores have no
    order.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel() > 1 and (parameter == parameter.flatten()[0]).all():
                parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def _changed(config: Any, sizes: _Sizes) -> Any:
    """A configuration with small numbers in place of its own, nested ones included."""
    from transformers import PretrainedConfig

    for key, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            _changed(value, sizes)
            continue
        size = next((size for pattern, size in sizes if pattern.match(key)), None)
        if key.endswith("_token_id") and isinstance(value, int) and value >= _VOCABULARY:
            setattr(config, key, 100 + value % 50)
        elif isinstance(value, dict) and "mrope_section" in value and sizes is not _SHALLOW:
            setattr(config, key, {**value, "mrope_section": [2, 3, 3]})  # half of a head
        elif size is None or isinstance(value, bool):
            continue
        elif isinstance(value, int) and value > size:
            setattr(config, key, size)
        elif key.endswith("depths") and isinstance(value, (list, tuple)):
            setattr(config, key, type(value)(min(depth, 1) for depth in value))
    config.use_cache = False
    types = vars(config).get("layer_types")
    if isinstance(types, list) and types and hasattr(config, "num_hidden_layers"):
        kinds = sorted(set(types), key=types.index)
        config.layer_types = [kinds[i % len(kinds)] for i in range(config.num_hidden_layers)]
    return config


def _working_inputs(model: nn.Module, config: Any, ruled: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Inputs that eager takes: what the signature asks for, then with an image, too (a model of two kinds may need
    both).
    """
    parameters = inspect.signature(model.forward).parameters
    failed: Exception | None = None
    for more in ((), ("pixel_values",), ("input_ids",), ("bbox",), ("pixel_values", "input_ids", "attention_mask")):
        names = [name for name in (*_needed(model, config, parameters), *more, *ruled) if name in parameters]
        for choice in range(_CHOICES):
            try:
                kwargs = {n: ruled[n] if n in ruled else _input(n, choice, config) for n in dict.fromkeys(names)}
                with torch.no_grad():
                    model(**kwargs)
                return kwargs
            except Exception as error:
                failed = failed or error
    assert failed is not None
    raise failed


def _needed(model: nn.Module, config: Any, parameters: Any) -> list[str]:
    """Inputs of the forward method: its main one, and those that it has no default for."""
    main = model.main_input_name
    names = [main] if isinstance(main, str) else list(main)
    names += [n for n, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if getattr(config, "is_encoder_decoder", False):
        names.append("decoder_input_ids")
    if "input_ids" in names:
        names.append("attention_mask")
    return names


#: How many forms an input may have (images, then videos; a spectrogram in either order); the last form of one with
#: fewer stays.
_CHOICES = 4


def _input(name: str, choice: int, config: Any) -> torch.Tensor:
    forms = _forms(name, config)
    if not forms:
        raise ValueError(f"no rule makes the input {name!r}")
    shape = forms[min(choice, len(forms) - 1)]
    if name.endswith("_ids"):
        return torch.randint(3, 90, shape)
    if name.endswith("grid_thw"):
        return torch.tensor([[1, 4, 4]])
    if name == "bbox":
        return torch.randint(0, 50, shape).sort(-1).values
    if name.endswith("_mask"):
        return torch.ones(shape, dtype=torch.int64)
    return torch.rand(shape) if name.startswith("pixel") else torch.randn(shape)


def _forms(name: str, config: Any) -> list[tuple[int, ...]]:
    text = getattr(config, "text_config", None) or config
    vision = getattr(config, "vision_config", None) or config
    size = getattr(vision, "image_size", 64) or 64
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    image = (getattr(vision, "num_channels", 3), height, width)
    bins = next((v for v in (getattr(config, key, None) for key in _BINS) if isinstance(v, int)), 80)
    frames = getattr(vision, "num_frames", None) or getattr(vision, "frames_per_clip", None) or 8
    channels = getattr(config, "in_channels", None) or getattr(config, "in_chans", None) or image[0]
    patch = getattr(config, "patch_size", 16)
    patches = (16, channels * getattr(config, "temporal_patch_size", 1) * patch**2 if isinstance(patch, int) else 0)
    forms: dict[str, list[tuple[int, ...]]] = {
        "input_ids": [(1, 12)],
        "decoder_input_ids": [(1, 6)],
        "attention_mask": [(1, 12)],
        "bbox": [(1, 12, 4)],
        "inputs_embeds": [(1, 12, getattr(text, "hidden_size", 64))],
        "pixel_values": [(1, *image), (1, frames, *image), (1, 2, *image), patches],
        "hidden_states": [patches],
        "grid_thw": [(1, 3)],
        "image_grid_thw": [(1, 3)],
        "pixel_values_videos": [(1, frames, *image)],
        "pixel_mask": [(1, height, width)],
        "input_values": [(1, 4000), (1, 1, 4000), (1, 120, bins), (1, 1024, 128)],
        "waveform": [(1, 4000)],
        "input_features": [(1, 120, bins), (1, bins, 120), (1, bins, 3000), (1, 1, 1001, 64)],
        "input_features_mask": [(1, 120), (1, 120), (1, 3000)],
        "past_values": [
            (1, 32, 1),
            (1, getattr(config, "context_length", 32), getattr(config, "num_input_channels", 1)),
            (1, 128),
        ],
    }
    return forms.get(name, [])


_BINS = ("num_mel_bins", "feature_size", "input_feat_per_channel", "feature_projection_input_dim", "input_dim")
