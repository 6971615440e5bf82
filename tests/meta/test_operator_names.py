"""Operators that sources, pages and goldens name are in the table; compiler sources name none by a string."""

import bisect
import re
import subprocess
from pathlib import Path

import pytest

from executorch_py.codegen.ops_yaml import read_table
from executorch_py.codegen.tables import primitive_rows

ROOT = Path(__file__).resolve().parents[2]
TABLE = read_table(ROOT / "src/cpp/ops/ops.yaml")
PRIMITIVES = primitive_rows(ROOT / "src/cpp/kernels/prim/prim_table.inc")
NAMES = sorted({schema.name for op in TABLE for schema in (op.schema, op.out) if schema} | set(PRIMITIVES))
QUOTED = re.compile(r'"((?:aten|et|quantized_decomposed|dim_order_ops|executorch_prim)::\w[\w.]*)["(]')

#: Folders whose C++ says `op::convolution` (ops/names.h) where it means "aten::convolution".
BY_NAME = ("src/cpp/passes", "src/cpp/delegation", "src/cpp/ir", "src/cpp/driver", "src/cpp/emit", "src/cpp/planning",
           "backends/xnnpack/compiler", "backends/tosa/compiler", "backends/example/compiler")  # fmt: skip
#: Operators of torch and torchao that quantized programs bring and canonical_quantization takes away.
FOREIGN = {"quantized_decomposed::convert_element_type", "aten::_int_mm"}


def begins_a_name(text: str) -> bool:
    """Whether an operator's name is the text or begins with it: a family in a message, a name without its overload."""
    at = bisect.bisect_left(NAMES, text)
    return at < len(NAMES) and NAMES[at].startswith(text)


def quoted(*globs: str) -> list[tuple[str, int, str]]:
    files = subprocess.run(["git", "ls-files", *globs], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = []
    for file in files.split():
        comment = "#" if file.endswith(".py") else "//"
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1):
            code = line.partition(comment)[0]
            found += [(file, number, name) for name in QUOTED.findall(code)]
    return found


def test_every_quoted_operator_is_in_the_table():
    places = quoted(
        "src/*.cpp", "src/*.h", "src/*.py", "backends/*.cpp", "backends/*.h", "backends/*.py", "quantizer/*.py"
    )
    assert len(places) > 500
    unknown = [
        f"{file}:{line}: {name}" for file, line, name in places if not begins_a_name(name) and name not in FOREIGN
    ]
    assert not unknown, "\n".join(["not in src/cpp/ops/ops.yaml:", *unknown])


def test_pages_benchmarks_and_goldens_name_operators_of_the_table():
    globs = ("docs/*.md", "notebooks/*.md", "benchmarks/*.py", "tests/cpp/*.ir")
    files = subprocess.run(["git", "ls-files", *globs], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [
        (file, name)
        for file in files.split()
        for name in re.findall(r"\baten::[a-z_]\w*(?:\.\w+)?", (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert len(found) > 500
    unknown = sorted({f"{file}: {name}" for file, name in found if not begins_a_name(name) and name not in FOREIGN})
    assert not unknown, "\n".join(["not in src/cpp/ops/ops.yaml:", *unknown])


@pytest.mark.parametrize("folder", BY_NAME)
def test_compiler_sources_name_operators_by_constants(folder):
    places = [
        f"{file}:{line}: {name}"
        for file, line, name in quoted(f"{folder}/*.cpp", f"{folder}/*.h")
        if begins_a_name(name)
    ]
    assert not places, "\n".join(["write op::… of ops/names.h:", *places])


@pytest.mark.parametrize(("name", "known"), [("aten::add.Tensor", True), ("aten::add", True), ("aten::reshap3", False),
                                             ("aten::bogus", False), ("et::quantized_linear", True),
                                             ("executorch_prim::lt", True)])  # fmt: skip
def test_names_are_told_apart(name, known):
    assert begins_a_name(name) == known
