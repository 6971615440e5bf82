"""The environment of Arm's tools for the tests of this folder: tosa-tools and ethos-u-vela."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def tosa_python() -> Path:
    """The Python of .venv-tosa, or of ET_TOSA_PYTHON.

    Without one the calling test is skipped, unless ET_REQUIRE_PEER is set (as the Makefile does): tests cannot go
    missing unseen.
    """
    python = Path(os.environ.get("ET_TOSA_PYTHON", ROOT / ".venv-tosa" / "bin" / "python"))
    if not python.exists():
        if os.environ.get("ET_REQUIRE_PEER"):
            pytest.fail(f"{python} does not exist; `make tosa` sets it up")
        pytest.skip("no environment with tosa-tools and ethos-u-vela (make tosa sets one up)")
    return python


def assert_same_steps(got: torch.Tensor, wanted: torch.Tensor) -> None:
    """Equal, but for one sum of a channel that no multiplier rounds as float32 does: it is one step off.

    docs/how-to/backends_tosa.md says why. Which weights have such a sum is chance, so that a few results of a thousand
    may have it; a wrong factor or a shifted image moves many more.
    """
    off = (got - wanted).abs()
    different = off > 0
    assert int(different.sum()) <= max(1, wanted.numel() // 500), different.nonzero().tolist()
    if different.any():
        step = wanted.unique().diff().min()
        assert float(off.max()) <= 1.01 * float(step), (got[different], wanted[different])
