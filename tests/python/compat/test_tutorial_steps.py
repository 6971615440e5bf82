"""The tutorials' steps with our root, one test a step; tests/interop runs them in the published package as well."""

import pytest
import torch

from tests.interop.steps import STEPS


@pytest.mark.parametrize("name", STEPS)
def test_step(name):
    torch.manual_seed(0)
    STEPS[name]()
