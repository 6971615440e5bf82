"""Pruning: weights become zero, or channels and heads go and a smaller dense model is left. See docs/how-to/pruning.md.

Names are loaded on first use, so that importing this package does not import torch.

Example:
    >>> from executorch_py import pruning
    >>> pruner = pruning.Pruner(model, amount=0.8, schedule=pruning.Schedule("cubic", steps=500))  # doctest: +SKIP
    >>> pruner.step()  # in the training loop, after optimizer.step()  # doctest: +SKIP
    >>> pruner.finish()  # doctest: +SKIP
"""

from executorch_py import _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, __file__)
