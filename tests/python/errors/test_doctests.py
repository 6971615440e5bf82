"""The examples in the docstrings of the modules that need no model file run as written."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["errors", "pytree"])
def test_examples(name):
    result = doctest.testmod(importlib.import_module(f"executorch_py.{name}"))
    assert result.attempted > 0 and result.failed == 0
