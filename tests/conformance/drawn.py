"""Tests over drawn programs: the same ones in every run, or as many new ones as an environment variable says."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy


def drawn(variable: str, count: int, **arguments: SearchStrategy) -> Callable[[Callable[..., None]], Any]:
    """The decorator of a test whose arguments are drawn.

    Args:
        variable: An environment variable with the number of new programs to draw, which are made smaller when one
            fails.
        count: How many are drawn without it.
        arguments: What the test is given.
    """
    deeper = int(os.environ.get(variable, "0"))
    configure = settings(
        max_examples=deeper or count,
        derandomize=not deeper,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if deeper else [Phase.generate],
        print_blob=False,
    )
    return lambda test: configure(given(**arguments)(test))
