"""The one list of error codes: documented, and each code produced somewhere in the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import executorch_py as et
from executorch_py import cli
from tools import error_reference

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r'^ET_ERROR\((\w+), (0x\w+), ([\w-]+), "(.*)"\)$', re.MULTILINE)
NO_CLASS = "\N{EN DASH}"  # how the table shows a code that has no Python class
CODES = ENTRY.findall((ROOT / "src/cpp/base/error_codes.def").read_text())

# Codes that only others can produce, with the reason.
UNPRODUCED = {
    "Ok": "no error",
    "Internal": "a bug of ours; produced by Result's own test",
    "AlreadyLoaded": "kept for the published list; our objects are loaded when they are made",
    "NotImplemented": "kept for the published list; backends may return it",
    "DelegateMemoryAllocationFailed": "returned by backends",
    "DelegateInvalidHandle": "returned by backends",
}


def test_codes_are_documented() -> None:
    table = (ROOT / "docs/reference/error_handling.md").read_text()
    for name, value, python_class, meaning in CODES:
        row = f"| {name} | {value} | {NO_CLASS if python_class == '-' else python_class} | {meaning} |"
        assert row in table, f"docs/reference/error_handling.md lacks: {row}"


def test_the_page_on_errors_is_that_of_the_table() -> None:
    assert set(error_reference.ADVICE) == {name for name, *_ in CODES if name != "Ok"}
    assert (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8") == error_reference.page(), (
        "python tools/error_reference.py > docs/reference/errors.md"
    )


def test_what_the_page_tells_to_call_exists() -> None:
    """Commands, options and names of the package that stand in backticks."""
    text = error_reference.page()
    commands = set(cli._parser()._subparsers._group_actions[0].choices)
    assert set(re.findall(r"`etpy (\w+)", text)) <= commands
    assert all(hasattr(et, name) for name in re.findall(r"`executorch_py\.(\w+)`", text))
    program_or_method = (et.Method, et.Program, et.Runtime)
    for name in re.findall(r"\.(load_method|load_plugin|cancel|new_session|method_names|named_data)\b", text):
        assert any(hasattr(kind, name) for kind in program_or_method)


def test_values_are_unique() -> None:
    values = [int(value, 16) for _, value, _, _ in CODES]
    assert len(values) == len(set(values))


@pytest.mark.parametrize("name", [name for name, *_ in CODES if name not in UNPRODUCED])
def test_code_is_produced_by_a_test(name: str) -> None:
    sources = list((ROOT / "tests/cpp").rglob("*.cpp"))
    assert any(f"Error::{name}" in path.read_text() for path in sources), f"no C++ test expects Error::{name}"
