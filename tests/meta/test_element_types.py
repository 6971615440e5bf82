"""Element types stand in one list, src/cpp/base/dtype.def. All else is generated from it or reads it."""

import re

import pytest
from repository import ROOT, tracked_files

import executorch_py as et
from executorch_py.codegen.element_types import ELEMENT_TYPES
from executorch_py.graphs.dtypes import dtype_code, dtype_of

#: The published file schema, which `test_files_have_the_same_numbers` compares with the list.
LISTS = {"src/cpp/base/dtype.def", "src/cpp/schema/program.fbs"}
COMPLEX = {"ComplexFloat", "ComplexDouble"}  # between operators only, in no file
WINDOW = 30  # lines that a list may take


def names_together(text: str) -> int:
    """The most element types that a few lines of a text name, by one kind of name."""
    lines = [set(re.findall(r"\w+", line)) for line in text.splitlines()]
    most = 0
    for kind in ("name", "text", "word"):
        names = {getattr(one, kind) for one in ELEMENT_TYPES}
        places = [(number, line & names) for number, line in enumerate(lines) if line & names]
        for start, _ in places:
            most = max(most, len(set().union(*(found for at, found in places if start <= at < start + WINDOW))))
    return most


def test_no_source_file_lists_them_again():
    folders = ("src/", "backends/", "quantizer/", "tools/")
    files = [path.relative_to(ROOT).as_posix() for path in tracked_files()]
    sources = [
        name for name in files if name.startswith(folders) and name.endswith((".py", ".h", ".cpp", ".fbs", ".def"))
    ]
    assert len(sources) > 1000
    found = {name for name in sources if names_together((ROOT / name).read_text(encoding="utf-8")) >= 12}
    assert found == LISTS, "read ELEMENT_TYPES, or include base/dtype.def or base/visit_dtype.h"


@pytest.mark.parametrize("kind", ["name", "text", "word"])
def test_a_second_list_is_found(kind):
    rows = [f"  case {getattr(one, kind)}: return {one.nbytes};" for one in ELEMENT_TYPES if one.name not in COMPLEX]
    assert names_together("\n".join(rows)) == len(ELEMENT_TYPES) - len(COMPLEX)


def test_files_have_the_same_numbers():
    schema = (ROOT / "src/cpp/schema/program.fbs").read_text(encoding="utf-8")
    enum = re.findall(r"(\w+) = (\d+)", schema.partition("enum ScalarType")[2].partition("}")[0])
    ours = {one.name: one.number for one in ELEMENT_TYPES if one.name not in COMPLEX}
    assert ours.items() <= {name: int(number) for name, number in enum}.items()


def test_python_has_them_all():
    assert {one.name: one.number for one in ELEMENT_TYPES} == {one.name: one.value for one in et.ScalarType}
    assert [dtype_code(dtype_of(one)) for one in et.ScalarType] == list(et.ScalarType)
    assert [dtype_of(one.number).itemsize for one in ELEMENT_TYPES] == [one.nbytes for one in ELEMENT_TYPES]
    assert len(ELEMENT_TYPES) == (ROOT / "src/cpp/base/dtype.def").read_text(encoding="utf-8").count("\nET_DTYPE(")
