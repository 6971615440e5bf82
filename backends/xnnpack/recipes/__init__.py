"""Recipes for XNNPACK (``executorch_py.recipes``): importing this module registers them.

>>> recipe = ExportRecipe.get_recipe(XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from executorch_py.errors import InvalidArgumentError
from executorch_py.recipes import (
    AOQuantizationConfig,
    BackendRecipeProvider,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    RecipeType,
    recipe_registry,
)
from executorch_py.recipes.recipe import symmetric_quantizer

from ..configs import get_xnnpack_edge_compile_config, get_xnnpack_executorch_backend_config
from ..partitioner import XnnpackPartitioner
from ..preprocess import Precision

__all__ = ["XNNPACKRecipeProvider", "XNNPackRecipeType", "get_xnnpack_recipe", "recipe_registry"]


class XNNPackRecipeType(RecipeType):
    """The recipes."""

    FP32 = "xnnpack_fp32"
    PT2E_INT8_DYNAMIC_PER_CHANNEL = "xnnpack_pt2e_int8_dynamic_per_channel"
    PT2E_INT8_STATIC_PER_CHANNEL = "xnnpack_pt2e_int8_static_per_channel"
    PT2E_INT8_STATIC_PER_TENSOR = "xnnpack_pt2e_int8_static_per_tensor"
    TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL = "xnnpack_torchao_int8da_int4w_per_channel"
    TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR = "xnnpack_torchao_int8da_int4w_per_tensor"

    @classmethod
    def get_backend_name(cls) -> str:
        """Name of the backend."""
        return "xnnpack"


_OPTIONS: dict[RecipeType, dict[str, bool]] = {
    XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL: {"is_per_channel": True, "is_dynamic": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL: {"is_per_channel": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR: {},
}


class XNNPACKRecipeProvider(BackendRecipeProvider):
    """Makes them. ``group_size`` is a keyword of the int4 recipes, 32 unless given."""

    @property
    def backend_name(self) -> str:
        """Name of the backend."""
        return XNNPackRecipeType.get_backend_name()

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """All of the list."""
        return list(XNNPackRecipeType)

    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """Makes one."""
        if not self.supports_recipe(recipe_type):
            return None
        weights_of_4_bits = recipe_type.name.startswith("TORCHAO")
        group_size = kwargs.pop("group_size", None)
        if kwargs or (group_size is not None and not weights_of_4_bits):
            names = ", ".join([*kwargs, *(["group_size"] if group_size is not None else [])])
            raise InvalidArgumentError(f"the recipe {recipe_type.name} has no keyword {names}")
        quantization, precisions = None, None
        if weights_of_4_bits:
            per_channel = recipe_type is XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL
            quantization = QuantizationRecipe(ao_quantization_configs=[_int4(group_size or 32, per_channel)])
            precisions = Precision.DYNAMIC_QUANT
        elif recipe_type in _OPTIONS:
            quantization = QuantizationRecipe(quantizers=[symmetric_quantizer(**_OPTIONS[recipe_type])])
            precisions = None
        return ExportRecipe(
            name=recipe_type.value,
            quantization_recipe=quantization,
            lowering_recipe=LoweringRecipe(
                partitioners=_partitioners(precisions), edge_compile_config=get_xnnpack_edge_compile_config()
            ),
            executorch_backend_config=get_xnnpack_executorch_backend_config(),
        )


def _partitioners(precision: Precision | None) -> list[XnnpackPartitioner]:
    """With a precision, what has it first, in parts of its own; then everything."""
    return [*([XnnpackPartitioner(config_precisions=precision)] if precision else []), XnnpackPartitioner()]


def _int4(group_size: int, is_per_channel: bool) -> AOQuantizationConfig:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerAxis, PerGroup

    granularity = PerAxis(0) if is_per_channel else PerGroup(group_size)
    return AOQuantizationConfig(
        Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=granularity)
    )


def get_xnnpack_recipe(recipe_type: XNNPackRecipeType, **kwargs: Any) -> ExportRecipe:
    """The recipe, as ``ExportRecipe.get_recipe`` gives it."""
    return ExportRecipe.get_recipe(recipe_type, **kwargs)


recipe_registry.register_backend_recipe_provider(XNNPACKRecipeProvider())
