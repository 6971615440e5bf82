"""Recipes: a model's whole way to a file as one object, under the published names (``executorch.export``).

>>> from executorch_py.recipes import ExportRecipe, export
>>> recipe = ExportRecipe.get_recipe(a_member_of_a_backends_list)  # doctest: +SKIP
>>> session = export(model, [(x,)], recipe)  # doctest: +SKIP
>>> session.save_to_pte("model")  # doctest: +SKIP

recipe.py   what a recipe says; recipes by name: backends register who makes them
session.py  the stages, and the session that runs them
"""

from .recipe import (
    AOQuantizationConfig,
    BackendRecipeProvider,
    ExportRecipe,
    LoweringRecipe,
    Mode,
    QuantizationRecipe,
    RecipeRegistry,
    RecipeType,
    StageType,
    recipe_registry,
)
from .session import ExportSession, export

__all__ = [
    "AOQuantizationConfig",
    "BackendRecipeProvider",
    "ExportRecipe",
    "ExportSession",
    "LoweringRecipe",
    "Mode",
    "QuantizationRecipe",
    "RecipeRegistry",
    "RecipeType",
    "StageType",
    "export",
    "recipe_registry",
]
