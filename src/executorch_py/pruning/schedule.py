"""How the part of zeros grows while a model is trained.

>>> Schedule("cubic", steps=100).fraction(50)
0.875
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from executorch_py.errors import InvalidArgumentError

#: Progress in (0, 1) -> part of the way to the final sparsity.
_CURVES: dict[str, Callable[[float], float]] = {
    "one_shot": lambda progress: 1.0,
    "linear": lambda progress: progress,
    "cubic": lambda progress: 1 - (1 - progress) ** 3,
    "cosine": lambda progress: (1 - math.cos(math.pi * progress)) / 2,
}


@dataclass(frozen=True)
class Schedule:
    """Which part of the final sparsity a model has after a number of steps.

    Attributes:
        curve: "one_shot" (all at the first step), "linear", "cubic" (fast at first, when there is much to remove: M.
            Zhu, S. Gupta, "To prune, or not to prune", 2017), "cosine", or a function from progress in [0, 1] to [0,
            1].
        steps: Steps from the first change to the last; what a step is, a batch or an epoch, is the caller's choice.
        start: Steps before the first change.
        every: Masks change at each so manieth step only, so that training can recover in between.

    Example:
        >>> schedule = Schedule("linear", steps=10, start=5)
        >>> [schedule.fraction(step) for step in (0, 5, 10, 15, 99)]
        [0.0, 0.0, 0.5, 1.0, 1.0]
    """

    curve: str | Callable[[float], float] = "one_shot"
    steps: int = 1
    start: int = 0
    every: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.curve, str) and self.curve not in _CURVES:
            raise InvalidArgumentError(
                f"there is no schedule '{self.curve}'; there are {', '.join(_CURVES)}, or give a function"
            )
        for name, least in (("steps", 1), ("start", 0), ("every", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise InvalidArgumentError(f"schedule: {name} is {value!r}; it must be a whole number from {least} on")

    def fraction(self, step: int) -> float:
        """The part of the way after ``step`` steps: 0 before the start, 1 from start + steps on."""
        if step < self.start or (step == self.start and self.curve != "one_shot"):
            return 0.0
        if step >= self.start + self.steps:
            return 1.0
        at = step - (step - self.start) % self.every
        curve = _CURVES[self.curve] if isinstance(self.curve, str) else self.curve
        value = float(curve((at - self.start) / self.steps))
        if not 0 <= value <= 1:
            raise InvalidArgumentError(f"the schedule's function gave {value} at step {step}; it must give 0 to 1")
        return value
