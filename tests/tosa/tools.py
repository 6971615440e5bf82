"""The environment of Arm's tools for the tests of this folder: tosa-tools and ethos-u-vela."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
