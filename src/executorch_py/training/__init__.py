"""Training on the device: methods that return gradients, optimizers and checkpoints. Works where torch is not
installed.

Example:
    >>> module = TrainingModule.load("train.pte")  # doctest: +SKIP
    >>> optimizer = AdamW(module.named_parameters(), lr=1e-3)  # doctest: +SKIP
    >>> for images, labels in batches:  # doctest: +SKIP
    ...     loss, predicted = module.forward_backward("forward", (images, labels))
    ...     optimizer.step(module.named_gradients())
    >>> module.save_checkpoint("trained.ptd")  # doctest: +SKIP

How to export such a method stands in docs/how-to/training.md.
"""

from .module import (
    TrainingModule,
    _load_for_executorch_for_training,
    _load_for_executorch_for_training_from_buffer,
)
from .optimizers import SGD, AdamW, Optimizer, get_sgd_optimizer

__all__ = [
    "SGD",
    "AdamW",
    "Optimizer",
    "TrainingModule",
    "_load_for_executorch_for_training",
    "_load_for_executorch_for_training_from_buffer",
    "get_sgd_optimizer",
]
