"""A metric of the user's own: a function that gets a callable model and gives a number, such as the accuracy on a test
set.

>>> measured(lambda model: model(2.0), abs, "the float model")  # the model here is abs
2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from executorch_py.errors import InvalidTypeError
from executorch_py.graphs.state import state_kept

__all__ = ["Metric", "measured"]

#: Gets a callable with the model's arguments and results, and gives a number. It has its own data.
Metric = Callable[[Callable[..., Any]], Any]


def measured(metric: Metric, model: Callable[..., Any], what: str) -> float:
    """The metric's number for a model.

    Args:
        metric: The user's function.
        model: What it is called with, without gradients.
        what: Which model it is, for the error.

    Raises:
        InvalidTypeError: It gives something else.
    """
    with torch.no_grad(), state_kept(model):
        value = metric(model)
    if (isinstance(value, torch.Tensor) and value.numel() == 1) or (
        hasattr(value, "item") and getattr(value, "size", 0) == 1
    ):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidTypeError(
            f"the metric must give a number, for {what} it gave {type(value).__name__}: {str(value)[:60]}"
        )
    return float(value)
