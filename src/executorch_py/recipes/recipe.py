"""What a recipe says: how a model is quantized, lowered and compiled; and who makes recipes by name."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from executorch_py import _arguments
from executorch_py.errors import InvalidArgumentError
from executorch_py.exir.backend.partitioner import Partitioner
from executorch_py.lowering.config import EdgeCompileConfig, ExecutorchBackendConfig

__all__ = [
    "AOQuantizationConfig",
    "BackendRecipeProvider",
    "ExportRecipe",
    "LoweringRecipe",
    "Mode",
    "QuantizationRecipe",
    "RecipeRegistry",
    "RecipeType",
    "StageType",
    "recipe_registry",
    "symmetric_quantizer",
]


class StageType(str, enum.Enum):
    """A step of a session."""

    SOURCE_TRANSFORM = "source_transform"
    QUANTIZE = "quantize"
    TORCH_EXPORT = "torch_export"
    TO_EDGE_TRANSFORM_AND_LOWER = "to_edge_transform_and_lower"
    TO_EDGE = "to_edge"
    EDGE_PROGRAM_MANAGER_TRANSFORM = "edge_program_manager_transform"
    TO_BACKEND = "to_backend"
    TO_EXECUTORCH = "to_executorch"


class Mode(str, enum.Enum):
    """For whom a program is made."""

    DEBUG = "debug"
    RELEASE = "release"


class RecipeType(str, enum.Enum):
    """Base of a backend's list of recipes; a member's class says the backend."""

    @classmethod
    def get_backend_name(cls) -> str:
        """Name of the backend.

        Raises:
            NotImplementedError: The class does not say.
        """
        raise NotImplementedError(f"{cls.__name__} must have a class method get_backend_name()")


@dataclass
class AOQuantizationConfig:
    """A configuration of torchao's ``quantize_``, and which modules it is for.

    Attributes:
        ao_base_config: The configuration.
        filter_fn: A module and its path -> whether it is quantized; None: torchao's default.
    """

    ao_base_config: Any
    filter_fn: Callable[[torch.nn.Module, str], bool] | None = None


@dataclass
class QuantizationRecipe:
    """How a model is quantized.

    Attributes:
        quantizers: Of torchao's PT2E flow.
        ao_quantization_configs: What ``quantize_`` does before export.
        is_qat: Train instead of calibrating.
        dynamic_batch_size: The first dimension may vary while calibrating.
        calibration_inputs_fn: Gives inputs to calibrate with; None: the examples.
        train_fn: Trains the prepared model (``is_qat``).
        pre_prepare_passes: Functions of a GraphModule that give one, before the flow prepares it; likewise the others.
    """

    quantizers: list[Any] | None = None
    ao_quantization_configs: list[AOQuantizationConfig] | None = None
    is_qat: bool = False
    dynamic_batch_size: bool = False
    calibration_inputs_fn: Callable[[], Iterable[tuple[Any, ...]]] | None = None
    train_fn: Callable[[torch.fx.GraphModule], None] | None = None
    pre_prepare_passes: list[Callable[..., Any]] | None = None
    post_prepare_passes: list[Callable[..., Any]] | None = None
    pre_convert_passes: list[Callable[..., Any]] | None = None
    post_convert_passes: list[Callable[..., Any]] | None = None

    def get_quantizers(self) -> list[Any] | None:
        """The quantizers."""
        return self.quantizers


@dataclass
class LoweringRecipe:
    """How an exported program is lowered.

    Attributes:
        partitioners: For all methods, or by method.
        edge_transform_passes: Functions of a method's name and program that give passes.
        edge_manager_transform_passes: Functions of the EdgeProgramManager that give passes, after ``to_edge``.
        edge_compile_config: Options of ``to_edge``.
    """

    partitioners: Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]] | None = None
    edge_transform_passes: list[Callable[..., Any]] | None = None
    edge_manager_transform_passes: list[Callable[..., Any]] | None = None
    edge_compile_config: EdgeCompileConfig | None = None


@dataclass
class ExportRecipe:
    """The whole way.

    Attributes:
        name: For people.
        quantization_recipe: None: the model is not quantized.
        aten_transform_passes: Functions of a method's name and exported program that give a program.
        source_transform_in_place: ``quantize_`` changes the caller's model.
        lowering_recipe: None: no partitioners.
        executorch_backend_config: Options of ``to_executorch``.
        pipeline_stages: The steps; None: source transform, quantize, export, lower, compile.
        mode: For people.
        strict: As of ``torch.export.export``.
    """

    name: str | None = None
    quantization_recipe: QuantizationRecipe | None = None
    aten_transform_passes: list[Callable[..., Any]] | None = None
    source_transform_in_place: bool = False
    lowering_recipe: LoweringRecipe | None = None
    executorch_backend_config: ExecutorchBackendConfig | None = None
    pipeline_stages: list[StageType] | None = None
    mode: Mode = field(default=Mode.RELEASE)
    strict: bool = True

    @classmethod
    def get_recipe(cls, recipe: RecipeType, **kwargs: Any) -> ExportRecipe:
        """The recipe that a backend makes for this member of its list; keywords as the backend says.

        Raises:
            InvalidArgumentError: It is no member of such a list, or the backend makes none.
        """
        if not isinstance(recipe, RecipeType):
            raise InvalidArgumentError(f"{recipe!r:.60} is no RecipeType; take a member of a backend's list of recipes")
        backend = recipe.get_backend_name()
        made = recipe_registry.create_recipe(recipe, backend, **kwargs)
        if made is None:
            known = ", ".join(one.name for one in recipe_registry.get_supported_recipes(backend)) or "none"
            raise InvalidArgumentError(f"the backend '{backend}' has no recipe {recipe.name}; it has {known}")
        return made

    @classmethod
    def combine(cls, recipes: Sequence[ExportRecipe], recipe_name: str | None = None) -> ExportRecipe:
        """One recipe with the partitioners, quantizers and passes of several, in their order.

        Raises:
            InvalidArgumentError: There are none; one has its own stages, or partitioners by method; two differ in
                options of lowering or of the compiler.
        """
        if not recipes:
            raise InvalidArgumentError("there are no recipes to combine")
        if any(one.pipeline_stages for one in recipes):
            raise InvalidArgumentError("recipes with pipeline_stages of their own cannot be combined")
        lowering = [one.lowering_recipe for one in recipes if one.lowering_recipe is not None]
        quantization = [one.quantization_recipe for one in recipes if one.quantization_recipe is not None]
        if any(isinstance(one.partitioners, Mapping) for one in lowering):
            raise InvalidArgumentError("recipes with partitioners by method cannot be combined")
        return cls(
            name=recipe_name or "_".join(one.name or "recipe" for one in recipes),
            quantization_recipe=_joined_quantization(quantization) if quantization else None,
            aten_transform_passes=_joined(one.aten_transform_passes for one in recipes),
            source_transform_in_place=any(one.source_transform_in_place for one in recipes),
            lowering_recipe=_joined_lowering(lowering) if lowering else None,
            executorch_backend_config=_same(
                "executorch_backend_config", [one.executorch_backend_config for one in recipes]
            ),
            mode=recipes[0].mode,
            strict=all(one.strict for one in recipes),
        )


def _joined(lists: Iterable[Any]) -> list[Any] | None:
    return [one for several in lists for one in several or []] or None


def _same(what: str, values: list[Any]) -> Any:
    given = [one for one in values if one is not None]
    if any(one != given[0] for one in given):
        raise InvalidArgumentError(f"the recipes have different {what}; give all of them one")
    return given[0] if given else None


def _joined_lowering(several: list[LoweringRecipe]) -> LoweringRecipe:
    return LoweringRecipe(
        _joined(one.partitioners for one in several),
        _joined(one.edge_transform_passes for one in several),
        _joined(one.edge_manager_transform_passes for one in several),
        _same("edge_compile_config", [one.edge_compile_config for one in several]),
    )


def _joined_quantization(several: list[QuantizationRecipe]) -> QuantizationRecipe:
    return QuantizationRecipe(
        quantizers=_joined(one.quantizers for one in several),
        ao_quantization_configs=_joined(one.ao_quantization_configs for one in several),
        is_qat=_same("is_qat", [one.is_qat for one in several]),
        dynamic_batch_size=any(one.dynamic_batch_size for one in several),
        calibration_inputs_fn=_same("calibration_inputs_fn", [one.calibration_inputs_fn for one in several]),
        train_fn=_same("train_fn", [one.train_fn for one in several]),
        pre_prepare_passes=_joined(one.pre_prepare_passes for one in several),
        post_prepare_passes=_joined(one.post_prepare_passes for one in several),
        pre_convert_passes=_joined(one.pre_convert_passes for one in several),
        post_convert_passes=_joined(one.post_convert_passes for one in several),
    )


def symmetric_quantizer(**options: bool) -> Any:
    """The package's quantizer for int8 with symmetric weights; options as of ``get_symmetric_quantization_config``."""
    from executorch_py.quantizer import get_symmetric_quantization_config
    from executorch_py.quantizer.flow.flow import _quantizer

    return _quantizer(get_symmetric_quantization_config(**options))


class BackendRecipeProvider(ABC):
    """Makes the recipes of one backend."""

    @property
    @abstractmethod
    def backend_name(self) -> str:
        """Name of the backend, as its list of recipes says it."""

    @abstractmethod
    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """The members that it can make."""

    @abstractmethod
    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """Makes a recipe; None: it cannot."""

    def supports_recipe(self, recipe_type: RecipeType) -> bool:
        """Whether it can make this one."""
        return recipe_type in self.get_supported_recipes()


class RecipeRegistry:
    """The providers by backend."""

    def __init__(self) -> None:
        self._providers: dict[str, BackendRecipeProvider] = {}

    def register_backend_recipe_provider(self, provider: BackendRecipeProvider) -> None:
        """Registers a provider; the last one of a backend counts."""
        _arguments.instance("provider", provider, BackendRecipeProvider, "a BackendRecipeProvider")
        self._providers[provider.backend_name] = provider

    def create_recipe(self, recipe_type: RecipeType, backend: str, **kwargs: Any) -> ExportRecipe | None:
        """A recipe of a backend; None when the backend is not known or cannot make it."""
        provider = self._providers.get(backend)
        if provider is None or not provider.supports_recipe(recipe_type):
            return None
        return provider.create_recipe(recipe_type, **kwargs)

    def get_supported_recipes(self, backend: str) -> list[RecipeType]:
        """The recipes of a backend; none when it is not known."""
        provider = self._providers.get(backend)
        return [] if provider is None else list(provider.get_supported_recipes())

    def list_backends(self) -> list[str]:
        """The backends that have recipes."""
        return list(self._providers)


#: The one of this process.
recipe_registry = RecipeRegistry()
