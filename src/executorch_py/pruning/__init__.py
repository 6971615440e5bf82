"""Pruning: weights become zero, or channels and heads go and a smaller dense model is left. See docs/how-to/pruning.md.

Names are loaded on first use, so that importing this package does not import torch.

Example:
    >>> from executorch_py import pruning
    >>> pruner = pruning.Pruner(model, amount=0.8, schedule=pruning.Schedule("cubic", steps=500))  # doctest: +SKIP
    >>> pruner.step()  # in the training loop, after optimizer.step()  # doctest: +SKIP
    >>> pruner.finish()  # doctest: +SKIP
"""

import importlib
from typing import Any

# module -> its public names
_EXPORTS: dict[str, tuple[str, ...]] = {
    "comparison": ("PruningReport", "report"),
    "masks": ("LayerSparsity", "make_permanent", "masked_parameters", "sparsity"),
    "neurons": ("NeuronPruning", "prune_heads", "prune_neurons"),
    "pruner": ("Pruner", "prune_weights"),
    "schedule": ("Schedule",),
}

_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
