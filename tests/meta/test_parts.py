"""What tests/conftest.py leaves out: of a sweep every N-th case of a function stays, of the rest everything."""

import importlib.util

import pytest
from repository import ROOT

_SPEC = importlib.util.spec_from_file_location("options_of_tests", ROOT / "tests" / "conftest.py")
options = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(options)


def test_a_part_of_a_sweep():
    sweep = "tests/ops/test_indexing.py"
    names = [*(f"{sweep}::one[{i}]" for i in range(7)), f"{sweep}::two", "tests/x.py::a[0]", "tests/x.py::a[1]"]
    kept = options.parts({sweep: "3"}, names)
    assert sorted(set(names) - kept) == [f"{sweep}::one[{i}]" for i in (1, 2, 4, 5)]


def test_a_function_that_is_left_out():
    file = "tests/ops/test_indexing.py"
    names = [f"{file}::slow[0]", f"{file}::slow[1]", f"{file}::quick"]
    assert options.parts({f"{file}::slow": "0"}, names) == {f"{file}::quick"}
    assert options.parts({f"{file}::slow": "0", file: "2"}, names) == {f"{file}::quick"}


def test_cases_that_begin_alike_are_left_out_together():
    test = "tests/ops/test_indexing.py::one"
    names = [f"{test}[{case}]" for case in ("m3-a", "m3-b-c", "m33-a", "m4-a")]
    assert options.parts({f"{test}[m3-": "0"}, names) == {f"{test}[m33-a]", f"{test}[m4-a]"}
    assert options.parts({f"{test}[m3-": "0", f"{test}[m3-b-": "1"}, names) == set(names[1:])


def test_lines_that_name_nothing_are_errors():
    with pytest.raises(pytest.UsageError, match=r"tests/gone\.py"):
        options.parts({"tests/gone.py": "3"}, [])
    with pytest.raises(pytest.UsageError, match=r"tests/gone\.py"):
        options.chosen(["tests/gone.py"], ["tests/here.py::a"])
