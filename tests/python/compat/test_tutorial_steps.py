"""The tutorials' steps with our root, one test a step. tests/interop/test_published_names.py runs them in the published package as well."""

import importlib.util
from pathlib import Path

import pytest
import torch

_SPEC = importlib.util.spec_from_file_location("tutorial_steps", Path(__file__).parents[2] / "interop/tutorial_steps.py")
steps = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(steps)


@pytest.mark.parametrize("name", steps.STEPS)
def test_step(name):
    torch.manual_seed(0)
    steps.STEPS[name]()
