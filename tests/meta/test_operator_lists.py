"""What sort of operator something is stands in ops.yaml only: no source file keeps a list, none counts arguments.

A list is four operators or more by name. In Python names without a namespace count where they are most of a list. A
table that gives each operator code of its own is none: a function, another operator, a node of a backend. It says what
to do with the operator, not what sort of operator it is.
"""

import ast
import functools
import re
from collections.abc import Iterator

import pytest
from repository import ROOT, tracked_files

from executorch_py.operator_facts import OPERATORS

MOST = 3
COMPILER = ("src/cpp/passes/", "src/cpp/delegation/", "src/cpp/driver/", "src/cpp/emit/", "src/cpp/planning/",
            "src/cpp/ir/", "backends/")  # fmt: skip

#: File and first operator of a list that is code's own -> why no column says it.
OWN_LISTS = {
    ("src/cpp/passes/recognise_activations.cpp", "add_Tensor"): "what its polynomials are read of (note 16)",
    ("src/cpp/passes/propagate_dim_order.cpp", "mean_dim"): "reductions whose kernels take images in any order",
    ("src/cpp/passes/work.cpp", "linear"): "products, whose work follows from their sizes",
    ("src/executorch_py/export/decompose/complex_numbers.py", "full.default"): "where a complex number may stand",
    ("src/executorch_py/pruning/channels.py", "batch_norm"): "a rule for each of torch's packets",
    ("src/executorch_py/pruning/channel_operators.py", "upsample_linear1d"): "the same",
    ("src/executorch_py/export/decompose/rewrites.py", "bartlett_window"): "all overloads of these have one rule",
    ("quantizer/rules/expansion.py", "linear.default"): "what stays whole inside of what it spells out",
}
#: The same, of names that stand alone.
OWN_LISTS |= {
    ("src/executorch_py/devtools/inspector/record_map.py", "_clone_dim_order"): "kernels of the runtime, by file",
    ("src/executorch_py/devtools/inspector/record_map.py", "permute_copy"): "what one pass adds beside a softmax",
    ("src/executorch_py/devtools/quantization/matching.py", "view"): "names of torch's overloads that are one operator",
    ("src/executorch_py/devtools/quantization/matching.py", "conv1d"): "what prepare_pt2e folds a batch norm into",
    ("src/executorch_py/export/dialect/operators.py", "lstm"): "loops over time; a column would have these four only",
    ("src/executorch_py/export/importer/numbers.py", "sqrt"): "functions of Python's math, on sizes",
    ("src/executorch_py/export/importer/numbers.py", "bitwise_and"): "operators on sizes",
    ("src/executorch_py/firmware/library.py", "cat"): "source files that are compiled for size",
    ("src/executorch_py/graphs/macs.py", "lstm"): "a rule for each, in a table of rules",
    ("src/executorch_py/graphs/nodes.py", "alias"): "operators of captured graphs, of which most have no row",
    ("backends/xnnpack/operator_config.py", "conv1d"): "what the published name of a configuration covers here",
}
_PYTHON_NAME = re.compile(r"(?:torch\.ops\.)?(?:aten|et|quantized_decomposed)\.(\w+(?:\.\w+)?)")
_QUOTED_NAME = re.compile(r"(?:aten|et|quantized_decomposed)::(\w+(?:\.\w+)?)")
_CPP_NAME = re.compile(r'op::(\w+)|"(?:aten|et|quantized_decomposed)::([\w.]+)"')


@functools.cache
def known_names() -> frozenset[object]:
    """Names of the table's operators without namespace, with and without overload."""
    names = [name.split("::")[1] for name in OPERATORS]
    return frozenset((*names, *(name.split(".")[0] for name in names)))


def operator_name(node: ast.expr | None, is_quoted_alone: bool = False) -> str | None:
    """The operator that an expression names. In a call of ops() a text without namespace is one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = _QUOTED_NAME.fullmatch(node.value)
        return found[1] if found else node.value if is_quoted_alone else None
    found = _PYTHON_NAME.fullmatch(ast.unparse(node)) if isinstance(node, ast.Attribute) else None
    return found[1] if found else None


def python_lists(text: str) -> Iterator[list[str]]:
    """The operators of each list, set, tuple, dict of plain values, and call of ops()."""
    for node in ast.walk(ast.parse(text)):
        items: list[ast.expr | None] = []
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ops"
        if isinstance(node, (ast.List, ast.Set, ast.Tuple)):
            items = list(node.elts)
        elif isinstance(node, ast.Dict):
            items = [key for key, value in zip(node.keys, node.values, strict=True) if isinstance(value, ast.Constant)]
        elif is_call:
            items = list(node.args)
        if found := [name for one in items if (name := operator_name(one, is_call))]:
            yield found
        alone = [one.value for one in items if isinstance(one, ast.Constant) and one.value in known_names()]
        if not is_call and 2 * len(alone) > len(items):
            yield alone


def cpp_lists(text: str, with_tables: bool = True) -> Iterator[list[str]]:
    """The operators of each `{a, b, …}`, and of tables whose rows are `{a, constant}`: of backends, their own nodes."""
    code = re.sub(r"//.*", "", text)
    row = r"\{\s*op::\w+\s*,\s*[\w:]+\s*\}"
    name = r'(?:op::\w+|"(?:aten|et|quantized_decomposed)::[\w.]+")'
    table = [rf"{row}(?:\s*,\s*{row})+"] if with_tables else []
    for pattern in (rf"\{{\s*{name}(?:\s*,\s*{name})*\s*,?\s*\}}", *table):
        for found in re.finditer(pattern, code):
            rows = re.findall(r"\{\s*op::(\w+)", found[0]) if found[0].count("{") > 1 else []
            yield rows or [a or b for a, b in _CPP_NAME.findall(found[0])]


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(folders) and name.endswith((".py", ".cpp", ".h")):
            yield name, path.read_text(encoding="utf-8")


def test_no_source_keeps_a_list_of_operators():
    found = {}
    count = 0
    for name, text in sources(*COMPILER, "src/executorch_py/", "quantizer/"):
        count += 1
        lists = python_lists(text) if name.endswith(".py") else cpp_lists(text, not name.startswith("backends/"))
        found.update({(name, names[0]): names for names in lists if len(names) > MOST})
    assert count > 500
    assert found.keys() == OWN_LISTS.keys(), (
        f"make it a column or a query of ops.yaml: {found.keys() ^ OWN_LISTS.keys()}"
    )


@pytest.mark.parametrize("text", [
    "MOVES = {aten.view.default, aten.permute.default, torch.ops.aten.t.default, aten.select.int}",
    "MOVES = ops('view.default', 'permute.default', 't.default', 'select.int')",
    "PLACES = {aten.full.default: 1, aten.full_like.default: 1, aten.new_full.default: 2, aten.fill.Scalar: 1}",
    "if name in ('aten::view', 'aten::permute', 'aten::t', 'et::swish'): pass",
    "MOVES = frozenset(('view', 'permute', 't', 'select', 'a word', 'another'))",
])  # fmt: skip
def test_a_list_in_python_is_found(text):
    assert max(len(names) for names in python_lists(text)) == 4


@pytest.mark.parametrize("text", [
    "if (is_one_of(op, {op::view, op::permute_copy,\n op::t, op::select_int})) {",
    'constexpr std::string_view kMoves[] = {"aten::view", op::permute, op::t, op::select_int};',
    "kKinds[] = {{op::view, Kind::moves}, {op::t, Kind::moves},\n"
    " {op::exp, Kind::function}, {op::log, Kind::function}};",
])  # fmt: skip
def test_a_list_in_cpp_is_found(text):
    assert max(len(names) for names in cpp_lists(text)) == 4


def test_tables_of_code_are_no_lists():
    python = "RULES = {aten.a.default: _a, aten.b.default: _b, aten.c.default: _c, aten.d.default: lambda node: node}"
    assert not [names for names in python_lists(python) if len(names) > MOST]
    cpp = (
        '{op::a, "A", true, &a, &emit_a}, {op::b, "B", true, &b, &emit_b}, '
        '{op::c, "C", true, &c}, {op::d, "D", true, &d}'
    )
    assert not [names for names in cpp_lists(cpp) if len(names) > MOST]


POSITION = re.compile(r"args\(\)\[[1-9]|\b(?:arg|type|is_constant)\([1-9]|\bargs\[[1-9]\]")


def test_arguments_behind_the_first_have_names():
    """`ops::Convolution(node).stride()`: a typed view does not compile when the schema changes."""
    places = [
        f"{name}:{number}: {line.strip()}"
        for name, text in sources(*COMPILER)
        if name.endswith((".cpp", ".h")) and "/runtime/" not in name and "/kernels/" not in name
        for number, line in enumerate(text.splitlines(), 1)
        if POSITION.search(line.partition("//")[0])
    ]
    assert not places, "\n".join(places)


BY_HAND = re.compile(r"\bzip\(.*\._schema|\blen\(\w+\.args\) *[<>]")


def test_arguments_in_python_have_one_reader():
    """``arguments_of`` of graphs/nodes.py knows names and defaults; no other file puts them together by hand."""
    places = [
        f"{name}:{number}: {line.strip()}"
        for name, text in sources("src/executorch_py/", "quantizer/", "backends/")
        if name.endswith(".py") and name != "src/executorch_py/graphs/nodes.py"
        for number, line in enumerate(text.splitlines(), 1)
        if BY_HAND.search(line)
    ]
    assert not places, "\n".join(places)
