"""The kernels of a firmware project: which libraries and files the model's operators need, and their tables."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from executorch_py.codegen.ops_yaml import KERNEL_LIBRARIES, Op, TableError, kernel_function, read_table
from executorch_py.codegen.pte_operators import read_pte_operators
from executorch_py.codegen.select_ops import Selection
from executorch_py.codegen.tables import (
    kernels_by_file,
    primitive_rows,
    register_table,
    sources_cmake,
    write_kernel_tables,
)
from executorch_py.errors import InvalidArgumentError, NotFoundError
from executorch_py.sdk import folder as _package

#: The sources that the package carries.
PACKAGED = Path(_package) / "share" / "source"
#: The table of operators that it was built with.
OPERATORS = Path(_package) / "share" / "ops.yaml"


@dataclass(frozen=True)
class Kernels:
    """What a project has of the kernels.

    Attributes:
        selected: Kernel that the model calls -> element types it has in it.
        libraries: Those it has kernels of, the one that is tried first in front.
        prims: Rows of the table of primitive operators.
        sources: Files to begin with, below the root of sources.
        tables: Generated file -> its text.
        definitions: Lines of CMake that give files the element types they are compiled for.
    """

    selected: Mapping[str, set[str] | None]
    libraries: list[str]
    prims: list[str]
    sources: list[str]
    tables: dict[str, str]
    definitions: list[str]


def selection_of(data: bytes) -> dict[str, set[str] | None]:
    """Kernels that a program calls, and the element types it has in them.

    Raises:
        InvalidArgumentError: The bytes are not a program.
    """
    try:
        return dict(read_pte_operators(data))
    except TableError as error:
        raise InvalidArgumentError(str(error)) from None


def choose_kernels(selected: Mapping[str, set[str] | None], plain_kernels: frozenset[str] | None) -> Kernels:
    """The kernels for a model.

    Args:
        selected: Kernels that it calls.
        plain_kernels: Those that some instruction got although kernels/cortex_m has the operator; None keeps all,
            as it is not known yet.

    Raises:
        NotFoundError: The package was built without sources.
        InvalidArgumentError: No library for microcontrollers has a kernel; the message names it.
    """
    if not (PACKAGED / "cpp" / "runtime").is_dir():
        raise NotFoundError(f"{PACKAGED} has no sources; install executorch_py with them, or run `make build`")
    ops = read_table(OPERATORS)
    kernels = {op.kernel_schema.name: op for op in ops if op.kernel}
    prims = primitives()
    if missing := sorted(set(selected) - set(kernels) - set(prims)):
        dtypes = {name: ", ".join(sorted(selected[name] or ())) for name in missing}
        called = ", ".join(f"{name} ({dtypes[name]})" if dtypes[name] else name for name in missing)
        raise InvalidArgumentError(
            f"the model calls {called}: no kernel library for microcontrollers has it; "
            "lower the model with ExecutorchBackendConfig(compatible=True), or write a kernel for it"
        )
    selection = Selection(dict(selected))
    files = {library: kernels_by_file(ops, selection, library) for library in KERNEL_LIBRARIES}
    libraries = [library for library, found in files.items() if found]
    sources = [f"kernels/{library}/{name}" for library in libraries for name in files[library]]
    definitions = [
        line
        for library in libraries
        for line in _definitions(library, sources_cmake(library, files[library], selection))
    ]
    tables = _tables(ops, selection)
    if fast := _fast(selected, kernels):
        libraries.insert(0, "cortex_m")
        sources += fast.values()
        tables["kernels/cortex_m/rows.inc"] = "".join(
            f'ET_CORTEX_M_KERNEL({kernels[name].library}, {Path(file).stem}, "{name}", '
            f"{kernels[name].in_place_bits:#x}, {kernels[name].overlaps_bits:#x})\n"
            for name, file in sorted(fast.items())
        )
    if plain_kernels is not None:  # of the others, only the declarations are needed
        kept = Selection({name: None for name in selected if name not in fast or name in plain_kernels})
        for library in KERNEL_LIBRARIES:
            tables[f"kernels/{library}/register_table.inc"] = register_table(kernels_by_file(ops, kept, library))
    wanted = [row for name, row in prims.items() if name in selected]
    sources += [f"kernels/prim/prim_{kind}.cpp" for kind in ("numbers", "tensors") if wanted]
    sources += [f"kernels/{name}/register.cpp" for name in libraries]
    return Kernels(selected, libraries, wanted, sources, tables, definitions)


def primitives() -> dict[str, str]:
    """Primitive operator -> its row in the table of kernels/prim."""
    return primitive_rows(PACKAGED / "cpp" / "kernels" / "prim" / "prim_table.inc")


def _fast(selected: Mapping[str, set[str] | None], kernels: Mapping[str, Op]) -> dict[str, str]:
    """Kernel -> its file in kernels/cortex_m, where that has one."""
    files = {
        name: f"kernels/cortex_m/{kernel_function(name).removesuffix('_out')}.cpp"
        for name in selected
        if name in kernels
    }
    return {name: file for name, file in files.items() if (PACKAGED / "cpp" / file).is_file()}


def _tables(ops: list[Op], selection: Selection) -> dict[str, str]:
    """The generated files of the kernel libraries."""
    with tempfile.TemporaryDirectory() as folder:
        write_kernel_tables(ops, selection, Path(folder))
        paths = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def kernel_sources(
    kernels: Kernels, namespace: str = "firmware", header_path: str = "kernels.h", prefix: str = ""
) -> dict[str, str]:
    """The header and the source of a function that registers the kernels, by their names.

    With a prefix the header is for users of installed headers, which the source, compiled beside others, must not see.
    """
    includes = ["runtime/kernel.h", *(f"kernels/{name}/register.h" for name in kernels.libraries)]
    calls = [f"et::kernels::{n}::register_{n}_kernels(registry)" for n in kernels.libraries]
    table = ""
    if kernels.prims:
        includes.append("kernels/prim/prim_kernels.h")
        calls.append('registry.add(kPrims, "prim")')
        rows = "\n    ".join(kernels.prims)
        table = (
            "namespace {\n\n"
            "using namespace et::kernels::prim;  // NOLINT(google-build-using-namespace): rows of its table\n"
            f"constexpr et::runtime::Kernel kPrims[] = {{\n    {rows}\n}};\n\n}}  // namespace\n\n"
        )
    header = f"""// Written by executorch_py: the kernels that were selected.
#pragma once

#include "{prefix}runtime/kernel.h"

namespace {namespace} {{

/// Adds them all. Errors: RegistrationExceedingMaxKernels, which cannot happen with an empty registry.
et::Error register_kernels(et::runtime::KernelRegistry& registry);

}}  // namespace {namespace}
"""
    included = "".join(f'#include "{name}"\n' for name in includes)
    body = "".join(f"  ET_RETURN_IF_ERROR({call});\n" for call in calls)
    own = "" if prefix else f'#include "{header_path}"\n\n'
    source = f"""{own}{included}
{table}namespace {namespace} {{

et::Error register_kernels([[maybe_unused]] et::runtime::KernelRegistry& registry) {{
{body}  return et::Error::Ok;
}}

}}  // namespace {namespace}
"""
    return {"kernels.h": header, "kernels.cpp": source}


def _definitions(library: str, text: str) -> list[str]:
    """The lines of sources.cmake that give a file its element types, with the path of this project."""
    lines = []
    for line in text.splitlines():
        if line.startswith("set_source_files_properties("):
            lines.append(line.replace("properties(", f"properties(src/kernels/{library}/", 1))
        elif line.startswith("set(ET_PORTABLE_DTYPE_MASK"):
            mask = line.split()[1].rstrip(")")
            lines.append(
                "set_source_files_properties(src/kernels/portable/convert.cpp PROPERTIES "
                f"COMPILE_DEFINITIONS ET_DTYPE_MASK={mask})"
            )
    return lines
