"""C++ names for what the operator table holds: operators, the places of their arguments, typed views of their nodes.

For: tools/gen_tables.py. Three headers follow from the table, so that a misspelt operator or argument does not compile:

    ops/names.h        op::convolution                            "aten::convolution"; op::add_out, "aten::add.out";
                       op::executorch_prim_add_Scalar             of the runtime's own operators (kernels/prim)
    ops/arguments.h    ops::arguments::convolution::kStride       3
    ir/op_views.h      ops::Convolution(node).stride()            node.args()[3]

Operators of other namespaces carry theirs: `op::et_quantized_linear`, `ops::EtQuantizedLinear`.

Example:
    >>> identifier("aten::add.Tensor"), identifier("et::quantized_linear"), view_name("aten::_softmax")
    ('add_Tensor', 'et_quantized_linear', 'Softmax_')
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from executorch_py.codegen.kernel_form import CPP_KEYWORDS
from executorch_py.codegen.ops_yaml import Op, TableError


def identifier(name: str) -> str:
    """The C++ name of an operator or kernel."""
    text = re.sub(r"[:.]+_*|__+", "_", name.removeprefix("aten::"))  # C++ reserves names with two underscores
    return f"{text}_" if text in CPP_KEYWORDS else text


def _camel(text: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in text.split("_") if word)


def view_name(name: str) -> str:
    """The class of an operator's view; `_` is behind it where the operator's name begins with one."""
    base = name.split("::")[1].split(".")[0]
    return _camel(identifier(name)) + "InPlace" * base.endswith("_") + "_" * base.startswith("_")


def _require_distinct(what: str, pairs: Iterable[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for made, name in pairs:
        if seen.setdefault(made, name) != name:
            raise TableError(f"{name} and {seen[made]} have the same {what}, {made}")


def names_header(ops: list[Op], primitives: Iterable[str]) -> str:
    """ops/names.h."""
    names = sorted({schema.name for op in ops for schema in (op.schema, op.out) if schema}.union(primitives))
    _require_distinct("name in C++", ((identifier(name), name) for name in names))
    lines = [f'inline constexpr char {identifier(name)}[] = "{name}";' for name in names]
    about = "/// Names of operators and kernels: a misspelt one does not compile."
    return "#pragma once\n\n" + "\n".join([about, "namespace et::op {", *lines, "}  // namespace et::op\n"])


def _arguments(op: Op) -> list[str]:
    """Names of the operator's arguments, then its kernel's outputs where the kernel has the same arguments."""
    names = [argument.name for argument in op.schema.arguments]
    kernel = [argument.name for argument in op.kernel_schema.arguments]
    return kernel if kernel[: len(names)] == names else names


def arguments_header(ops: list[Op]) -> str:
    """ops/arguments.h."""
    lines = [
        "#pragma once\n",
        "#include <cstddef>\n",
        "/// Where the arguments of operators stand, and those of their kernels.",
    ]
    lines += ["namespace et::ops::arguments {"]
    for op in ops:
        if op.schema.arguments:
            names = ", ".join(f"k{_camel(name)}" for name in _arguments(op))
            lines.append(f"namespace {identifier(op.schema.name)} {{\nenum : size_t {{ {names} }};\n}}")
    return "\n".join([*lines, "}  // namespace et::ops::arguments\n"])


def views_header(ops: list[Op]) -> str:
    """ir/op_views.h."""
    _require_distinct("view", ((view_name(op.schema.name), op.schema.name) for op in ops))
    lines = ["#pragma once\n", '#include "ir/graph.h"', '#include "ops/arguments.h"\n']
    lines += [
        "/// Nodes of an operator with their arguments by name. The node is one with all its arguments, or one of an "
        "operator",
        "/// whose first arguments are the same: the copying form, another overload.",
    ]
    lines += ["namespace et::ops {"]
    for op in ops:
        if not op.schema.arguments:
            continue
        name = view_name(op.schema.name)
        lines += [f"/// {op.schema.text}", f"struct {name} {{", "  const ir::Node& node;"]
        lines += [f"  explicit {name}(const ir::Node& of) : node(of) {{}}"]
        for place, argument in enumerate(op.schema.arguments):
            method = f"{argument.name}_" if argument.name in {*CPP_KEYWORDS, "node"} else argument.name
            lines.append(f"  const ir::Argument& {method}() const {{ return node.args()[{place}]; }}")
        lines.append("};")
    return "\n".join([*lines, "}  // namespace et::ops\n"])
