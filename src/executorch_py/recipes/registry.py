"""Who makes recipes: a backend registers a provider for its list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from executorch_py import _arguments

from .recipe import ExportRecipe, RecipeType

__all__ = ["BackendRecipeProvider", "RecipeRegistry", "recipe_registry"]


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
