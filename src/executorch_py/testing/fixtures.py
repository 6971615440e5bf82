"""pytest fixtures: ``pytest_plugins = ["executorch_py.testing.fixtures"]`` in a ``conftest.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from executorch_py import _core, testing
from executorch_py.module import Module, load
from executorch_py.runtime import Runtime

__all__ = ["lower_and_load", "runtime", "single_thread"]


@pytest.fixture
def runtime() -> Runtime:
    """The process's runtime."""
    return Runtime.get()


@pytest.fixture
def single_thread() -> Iterator[None]:
    """Runs the test with one thread, for results that must not depend on how work is split."""
    before = _core.num_threads()
    _core.set_num_threads(1)
    yield
    _core.set_num_threads(before)


@pytest.fixture
def lower_and_load() -> Callable[..., Module]:
    """``lower_and_load(model, inputs, kwargs=None, **options)``: the lowered model as a callable."""

    def make(*args: Any, **options: Any) -> Module:
        return load(testing.lower(*args, **options).buffer)

    return make
