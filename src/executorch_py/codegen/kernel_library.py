#!/usr/bin/env python3
"""Makes the C++ around a library of kernels from its table of operators, at configure time.

    kernel_library.py --name my_ops --ops ops.yaml --out build/my_ops [--namespace my_ops] [--priority kPriorityUser]

The table has the format of src/cpp/ops/ops.yaml. An entry needs a `schema`, and has an `out` where the operator has an
out variant. Its `specialised` kernels are tried first, in their order, for the calls that they fit:

    - schema: "my::blur(Tensor self, float sigma) -> Tensor"
      dtypes: float
      specialised: [blur_nhwc_out self=f32/channels_last, blur_f32_out self=f32]

A published table, functions.yaml or custom_ops.yaml, does as well (published_yaml.py), with kernels written as it
wants.

Written under --out (a file is touched only when its content changes):
    <name>/kernels.h    declarations of all kernels; their sources include it
    <name>/register.h   register_kernels(registry), for programs that link the library
    <name>/register.cpp the table of kernels
    <name>/plugin.cpp   the same table as a plug-in (runtime/plugin.h)
For: executorch_py_add_kernel_library of the CMake package and backends with kernels of their own. Not for: the portable
kernels (tools/gen_tables.py).
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script, by CMake
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from executorch_py.codegen import published_library
from executorch_py.codegen.kernel_form import CPP_KEYWORDS, KernelForm, declaration
from executorch_py.codegen.ops_yaml import MEMORY_ORDERS, Op, Schema, Specialisation, TableError, dtype_mask, read_table
from executorch_py.codegen.published_yaml import is_published, read_published

_HEAD = "// Generated from {table} by executorch_py/codegen/kernel_library.py. Do not edit.\n"


def write_if_changed(path: Path, text: str) -> None:
    """Writes ``text``, unless the file holds it already (so that nothing is rebuilt)."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Row:
    """One row of the table of kernels."""

    form: KernelForm
    function: str
    in_place: int = 0  # bit i: an output may reuse the memory of parameter i
    specialisation: Specialisation | None = None

    @property
    def declaration(self) -> str:
        """The C++ declaration of the row's function."""
        return declaration(self.form.schema).replace(f"Error {self.form.function}(", f"Error {self.function}(", 1)


def rows_of(ops: list[Op]) -> list[Row]:
    """The rows of a library. Of equal priority the last is tried first, so a general kernel stands before its special
    ones.

    Raises:
        TableError: No kernel can be written for an entry, or two have the same function.
    """
    rows: list[Row] = []
    functions: dict[str, str] = {}
    for op in ops:
        try:
            form = KernelForm.of(op.schema, op.out)
        except TableError as error:
            raise TableError(f"line {op.line}: {error}") from None
        if form.name in functions.values():
            continue  # several operators may share a kernel
        if form.changed and op.specialised:
            raise TableError(
                f"line {op.line}: {op.schema.name}: an operator that works in place has no specialised kernels"
            )
        _check_demands(form.schema, op)
        bits = op.in_place_bits
        special = [Row(form, one.function, bits, one) for one in reversed(op.specialised)]
        for row in (Row(form, form.function, bits), *special):
            if row.function in functions:
                raise TableError(
                    f"line {op.line}: {form.name} and {functions[row.function]} have the same kernel function "
                    f"{row.function}"
                )
            functions[row.function] = form.name
            rows.append(row)
    return rows


def _check_demands(schema: Schema, op: Op) -> None:
    """Every demand is for a tensor of the kernel, and no two kernels have the same ones."""
    where = f"line {op.line}: {schema.name}"
    tensors = {a.name for a in schema.arguments if a.letter in "Ttvw"}
    seen: dict[object, str] = {}
    for one in op.specialised:
        for argument, _, _ in one.demands:
            if argument not in tensors:
                raise TableError(
                    f"{where}: {one.function} asks for '{argument}', which is no tensor of the kernel; there are "
                    f"{', '.join(sorted(tensors))}"
                )
        demands = frozenset((name, frozenset(dtypes), order) for name, dtypes, order in one.demands)
        if demands in seen:
            raise TableError(f"{where}: {one.function} asks for what {seen[demands]} does, and is never chosen")
        seen[demands] = one.function


def kernels_header(rows: list[Row], namespace: str, head: str) -> str:
    """<name>/kernels.h."""
    lines = [
        f"{head}#pragma once\n",
        '#include "executorch_py/runtime/kernel_types.h"\n',
        f"namespace {namespace} {{\n",
        "using namespace ::et;           // Error, Result, ScalarType, Span",
        "using namespace ::et::kernels;  // KernelContext, Tensor, Scalar, IntArrayRef, resize_tensor\n",
    ]
    for row in rows:
        wanted = f", for {row.specialisation.text}" if row.specialisation else ""
        lines += [f"/// {row.form.name}{wanted}", row.declaration]
    return "\n".join(lines) + f"\n\n}}  // namespace {namespace}\n"


def register_header(namespace: str, head: str) -> str:
    """<name>/register.h."""
    return (
        f'{head}#pragma once\n\n#include "executorch_py/runtime/kernel.h"\n\nnamespace {namespace} {{\n\n'
        "/// The kernels of this library.\n::et::runtime::KernelTable kernel_table();\n\n"
        "/// Adds them. Errors: those of KernelRegistry::add.\n"
        f"::et::Error register_kernels(::et::runtime::KernelRegistry& registry);\n\n}}  // namespace {namespace}\n"
    )


def _demands(name: str, schema: Schema, one: Specialisation) -> str:
    positions = {a.name: i for i, a in enumerate(schema.arguments)}
    rows = []
    for argument, dtypes, order in one.demands:
        spelling = dict(zip(("", *MEMORY_ORDERS), ("kAny", "kContiguous", "kChannelsLast"), strict=True))[order]
        rows.append(f"{{{positions[argument]}, MemoryOrder::{spelling}, {dtype_mask(dtypes):#x}u}}")
    return f"constexpr TensorDemand {name}[] = {{{', '.join(rows)}}};  // {one.text}\n"


def register_source(rows: list[Row], library: str, namespace: str, priority: str, head: str) -> str:
    """<name>/register.cpp."""
    demands, entries, variants = "", "", ""
    for row in rows:
        name = f'"{row.form.name}", {priority}'
        if row.specialisation:
            label = f"k_{row.function}"
            demands += _demands(label, row.form.schema, row.specialisation)
            entries += f"    make_specialised_kernel<&{row.function}, {label}, {row.in_place:#x}u>({name}),\n"
        elif row.form.changed:
            entries += f"    make_in_place_kernel<&{row.function}, {row.form.changed:#x}u>({name}),\n"
        else:
            entries += f"    make_kernel<&{row.function}, {row.in_place:#x}u>({name}),\n"
        variants += f'    "{row.specialisation.text if row.specialisation else ""}",\n'
    return (
        f'{head}#include "{library}/register.h"\n\n#include "{library}/kernels.h"\n'
        '#include "executorch_py/runtime/in_place_kernel.h"\n#include "executorch_py/runtime/specialised_kernel.h"\n\n'
        f"namespace {namespace} {{\nnamespace {{\n\nusing namespace ::et::runtime;\n\n{demands}\n"
        f"constexpr Kernel kKernels[] = {{\n{entries}}};\n\n"
        f"constexpr const char* kVariants[] = {{\n{variants}}};\n\n}}  // namespace\n\n"
        f'::et::runtime::KernelTable kernel_table() {{ return {{kKernels, "{library}", kVariants}}; }}\n\n'
        "::et::Error register_kernels(::et::runtime::KernelRegistry& registry) { return registry.add(kernel_table()); "
        "}\n\n"
        f"}}  // namespace {namespace}\n"
    )


def plugin_source(library: str, namespace: str, head: str) -> str:
    """<name>/plugin.cpp."""
    return (
        f'{head}#include "executorch_py/runtime/plugin.h"\n\n#include "{library}/register.h"\n\nnamespace {{\n\n'
        "const ::et::runtime::Plugin& plugin() {\n"
        f"  const ::et::runtime::KernelTable table = {namespace}::kernel_table();\n"
        "  static const ::et::runtime::Plugin kPlugin = {table.library, table.kernels.data(), table.kernels.size(),\n"
        "                                                nullptr, 0, table.variants};\n"
        "  return kPlugin;\n}\n\n}  // namespace\n\nET_EXPORT_PLUGIN(plugin())\n"
    )


def _rows_of_table(path: Path) -> list[Row]:
    ops = read_table(path)
    try:
        rows = rows_of(ops)
    except TableError as error:
        raise TableError(f"{path.name}: {error}") from None
    if not rows:
        raise TableError(f"{path.name} has no operator")
    return rows


def main() -> int:
    """Runs the generator; the exit status is 1 when the table is not well formed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--name", required=True, help="the library's name, also its C++ namespace")
    parser.add_argument("--ops", type=Path, required=True, help="the table of operators")
    parser.add_argument("--fallback", type=Path, help="a published table for the operators that --ops has not")
    parser.add_argument("--out", type=Path, required=True, help="root of the generated files")
    parser.add_argument("--namespace", help="another namespace")
    parser.add_argument("--priority", default="kPriorityUser", help="a constant of runtime/kernel.h, or a number")
    arguments = parser.parse_args()
    namespace = arguments.namespace or arguments.name
    try:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", arguments.name):
            raise TableError(f"'{arguments.name}' is no name of a library: small letters, digits and _")
        if namespace in {"et", "std", *CPP_KEYWORDS}:
            raise TableError(f"'{namespace}' is no namespace of a library: C++ or the runtime has the word already")
        head = _HEAD.format(table=arguments.ops.name)
        names = arguments.name, namespace, arguments.priority, head
        if is_published(arguments.ops.read_text(encoding="utf-8")):
            kernels = read_published(arguments.ops)
            if arguments.fallback:
                kernels = published_library.merged(kernels, read_published(arguments.fallback))
            header = published_library.kernels_header(kernels, head)
            source = published_library.register_source(kernels, *names)
        elif arguments.fallback:
            raise TableError(f"{arguments.ops.name} is no published table, and has no fallback")
        else:
            rows = _rows_of_table(arguments.ops)
            header = kernels_header(rows, namespace, head)
            source = register_source(rows, *names)
    except (TableError, OSError) as error:
        print(f"kernel_library.py: {error}", file=sys.stderr)
        return 1
    folder = arguments.out / arguments.name
    write_if_changed(folder / "kernels.h", header)
    write_if_changed(folder / "register.h", register_header(namespace, head))
    write_if_changed(folder / "register.cpp", source)
    write_if_changed(folder / "plugin.cpp", plugin_source(arguments.name, namespace, head))
    return 0


if __name__ == "__main__":
    sys.exit(main())
