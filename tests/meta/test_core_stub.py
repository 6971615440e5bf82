"""The stub of the extension module is what the module has."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import core_stub

from executorch_py import _core


def test_stub_is_up_to_date():
    made = core_stub.stub(_core)
    signatures = [line for line in made.splitlines() if "def " in line]
    assert not [line for line in signatures if "::" in line], (
        "a C++ name leaks into a signature: bind the class before the function that uses it"
    )
    assert core_stub.STUB.read_text() == made, "python tools/core_stub.py --write, and look at the difference"
