"""Writes a firmware project: model, kernels, runtime, start-up and linker script in one folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from executorch_py.codegen.kernel_library import write_if_changed
from executorch_py.codegen.ops_yaml import KERNEL_LIBRARIES, TableError, kernel_function, read_table
from executorch_py.codegen.pte_operators import read_pte_operators
from executorch_py.codegen.select_ops import Selection
from executorch_py.codegen.tables import kernels_by_file, register_table, sources_cmake, write_kernel_tables
from executorch_py.errors import InvalidArgumentError, NotFoundError
from executorch_py.sdk import folder as _package

from .sources import SourceTree
from .targets import Target

_TEMPLATES = Path(__file__).resolve().parent / "template"
#: Of the runtime, what only hosts have.
_HOSTED = frozenset({"runtime/platform_posix.cpp", "aten/tensor.cpp", "aten/tensor.h"})


@dataclass(frozen=True)
class Pools:
    """Sizes of the static memory of one method, in bytes."""

    method: int
    temp: int
    arenas: tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """What a project is made of."""

    data: bytes
    method: str
    inputs: Sequence[bytes]  # of each tensor input; nothing for one that is no tensor
    outputs: Sequence[bytes]  # what the host computed


def source_tree(generated: Path) -> SourceTree:
    """The sources that the package carries, and `generated`, which holds copies of them from the last time.

    Raises:
        NotFoundError: The package was built without them.
    """
    root = Path(_package) / "share" / "source"
    if not (root / "cpp" / "runtime").is_dir():
        raise NotFoundError(f"{root} has no sources; install executorch_py with them, or run `make build`")
    return SourceTree((root / "generated", root / "cpp", root / "third_party", generated))


def selection_of(data: bytes) -> dict[str, set[str] | None]:
    """Kernels that a program calls, and the element types it has in them.

    Raises:
        InvalidArgumentError: The bytes are not a program.
    """
    try:
        return dict(read_pte_operators(data))
    except TableError as error:
        raise InvalidArgumentError(str(error)) from None


def _array(name: str, data: bytes, section: str = "") -> str:
    """A C array of bytes."""
    lines = [", ".join(map(str, data[i : i + 24])) for i in range(0, len(data), 24)] or ["0"]
    place = f'__attribute__((section("{section}"))) ' if section else ""
    body = ",\n    ".join(lines)
    return f"alignas(16) {place}extern const unsigned char {name}[] = {{\n    {body}}};\n"


def model_sources(model: Model) -> dict[str, str]:
    """model.h and model.cpp."""
    header = f"""// Written by `etpy firmware`: the model, its example inputs and what a host computed from them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firmware {{

struct Bytes {{
  const uint8_t* data;
  size_t size;
}};

inline constexpr const char* kMethod = "{model.method}";
inline constexpr size_t kModelBytes = {len(model.data)};
extern const unsigned char kModel[];  // the .pte file, aligned to 16
inline constexpr size_t kNumInputs = {len(model.inputs)};
extern const Bytes kInputs[];
inline constexpr size_t kNumOutputs = {len(model.outputs)};
extern const Bytes kOutputs[];

}}  // namespace firmware
"""
    parts = ['#include "model.h"\n\nnamespace firmware {\n', _array("kModel", model.data, ".model")]
    for kind, arrays in (("Input", model.inputs), ("Output", model.outputs)):
        parts += ["namespace {"] + [_array(f"k{kind}{i}", data).replace("extern ", "") for i, data in enumerate(arrays)]
        rows = [f"{{k{kind}{i}, {len(data)}}}" for i, data in enumerate(arrays)] or ["{nullptr, 0}"]
        parts += ["}  // namespace", f"extern const Bytes k{kind}s[] = {{{', '.join(rows)}}};\n"]
    return {"model.h": header, "model.cpp": "\n".join(parts) + "\n}  // namespace firmware\n"}


def memory_header(pools: Pools, origin: str) -> str:
    """memory.h: sizes of the static pools."""
    arenas = tuple((size + 15) // 16 * 16 for size in pools.arenas)
    listed = ", ".join(map(str, arenas)) or "0"
    return f"""// Written by `etpy firmware`: bytes of static memory. {origin}
#pragma once

#include <cstddef>

namespace firmware {{

inline constexpr size_t kMethodPoolBytes = {max(pools.method, 16)};
inline constexpr size_t kTempPoolBytes = {max(pools.temp, 16)};
inline constexpr size_t kNumArenas = {len(arenas)};
inline constexpr size_t kArenas[] = {{{listed}}};
inline constexpr size_t kArenaBytes = {max(sum(arenas), 16)};

}}  // namespace firmware
"""


def kernel_sources(libraries: Iterable[str], prims: Sequence[str]) -> dict[str, str]:
    """kernels.h and kernels.cpp: registers the model's kernels.

    Args:
        libraries: Kernel libraries, of which the project has no other kernels than the model's.
        prims: Rows of the table of primitive operators.
    """
    includes = [f"kernels/{name}/register.h" for name in libraries]
    calls = [f"et::kernels::{n}::register_{n}_kernels(registry)" for n in libraries]
    table = ""
    if prims:
        includes.append("kernels/prim/prim_kernels.h")
        calls.append('registry.add(kPrims, "prim")')
        rows = "\n    ".join(prims)
        table = (
            "namespace {\n\nusing namespace et::kernels::prim;  // NOLINT(google-build-using-namespace): rows of its table\n"
            f"constexpr et::runtime::Kernel kPrims[] = {{\n    {rows}\n}};\n\n}}  // namespace\n\n"
        )
    header = """// Written by `etpy firmware`: the kernels that the model calls.
#pragma once

#include "runtime/kernel.h"

namespace firmware {

/// Adds them all. Errors: RegistrationExceedingMaxKernels, which cannot happen with an empty registry.
et::Error register_kernels(et::runtime::KernelRegistry& registry);

}  // namespace firmware
"""
    included = "".join(f'#include "{name}"\n' for name in includes)
    body = "".join(f"  ET_RETURN_IF_ERROR({call});\n" for call in calls)
    source = f"""#include "kernels.h"

{included}
{table}namespace firmware {{

et::Error register_kernels([[maybe_unused]] et::runtime::KernelRegistry& registry) {{
{body}  return et::Error::Ok;
}}

}}  // namespace firmware
"""
    return {"kernels.h": header, "kernels.cpp": source}


def _template(name: str, **values: str) -> str:
    text = (_TEMPLATES / name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


class Project:
    """A folder with a firmware project. Files that are the user's to change are written once."""

    def __init__(self, folder: Path, target: Target) -> None:
        """`folder` is made when it is not there."""
        self.folder = folder
        self.target = target

    def write(self, model: Model, pools: Pools, origin: str, plain_kernels: frozenset[str] | None = None) -> None:
        """Writes everything. A file is touched only when its content changes.

        Args:
            model: The model.
            pools: Sizes of its memory.
            origin: A sentence on where these are from.
            plain_kernels: Those of kernels/quantized that some instruction got although kernels/cortex_m has the
                operator; None keeps all, as it is not known yet.

        Raises:
            InvalidArgumentError: The model calls a kernel that no library for microcontrollers has; the message names it.
        """
        selected = selection_of(model.data)
        libraries, prims = self._write_library(selected, plain_kernels)
        files = {
            **model_sources(model),
            **kernel_sources(libraries, prims),
            "memory.h": memory_header(pools, origin),
            "main.cpp": _template("main.cpp"),
            "CMakeLists.txt": self._cmake(),
            "board/board.h": _template("board/board.h"),
        }
        if self.target.is_host:
            files["board/host.cpp"] = _template("board/host.cpp")
        else:
            files["board/cortex_m.cpp"] = _template("board/cortex_m.cpp")
            files["board/cortex_m.ld"] = self._linker_script(len(model.data))
            files["toolchain.cmake"] = _template("toolchain.cmake.in", cpu=self.target.cpu, flags=self.target.flags)
        for name, text in files.items():
            self._write(name, text)

    def write_readme(self, report: str) -> None:
        """README.md: how to build and run it, and its figures."""
        self._write("README.md", _template("README.md.in", target=self.target.name, report=report))

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        write_if_changed(path, text)

    def _cmake(self) -> str:
        options = ""
        if not self.target.is_host:
            options = (
                "target_link_options(firmware PRIVATE -T ${CMAKE_CURRENT_SOURCE_DIR}/board/cortex_m.ld -Wl,--gc-sections)\n"
                "set_target_properties(firmware PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/board/cortex_m.ld)"
            )
        emulator = " ".join(self.target.emulator())
        run = f"\nadd_custom_target(run COMMAND {emulator} $<TARGET_FILE:firmware> USES_TERMINAL VERBATIM)\n"
        return _template(
            "CMakeLists.txt.in",
            target=self.target.name,
            board_source="host.cpp" if self.target.is_host else "cortex_m.cpp",
            link_options=options + (run if emulator or self.target.is_host else ""),
        )

    def _linker_script(self, model_size: int) -> str:
        """Large models go where flash of their own stands."""
        regions = {region.name: region for region in self.target.regions}
        room = regions["FLASH"].length - (160 << 10)  # for code and the examples
        place = "FLASH" if model_size <= room or "DDR" not in regions else "DDR"
        lines = [
            f"  {r.name:<6}({r.access}) : ORIGIN = {r.origin:#010x}, LENGTH = {r.length >> 10}K"
            for r in self.target.regions
            if r.name in ("FLASH", "RAM", place)
        ]
        return _template("board/cortex_m.ld.in", board=self.target.board, regions="\n".join(lines), model_region=place)

    def _write_library(
        self, selected: Mapping[str, set[str] | None], plain_kernels: frozenset[str] | None
    ) -> tuple[list[str], list[str]]:
        """executorch/: sources and their CMakeLists.txt. Returns its kernel libraries, and rows of primitive operators."""
        generated = self.folder / "executorch" / "src"
        share = Path(_package) / "share"
        sources = share / "source" / "cpp"
        ops = read_table(share / "ops.yaml")
        rows = (sources / "kernels" / "prim" / "prim_table.inc").read_text(encoding="utf-8")
        prims = {row.split('"')[1]: row for row in rows.splitlines() if row.startswith("{")}
        kernels = {op.kernel_schema.name: op for op in ops if op.kernel}
        missing = sorted(set(selected) - set(kernels) - set(prims))
        if missing:
            raise InvalidArgumentError(
                f"the model calls {', '.join(missing)}: no kernel library for microcontrollers has it; "
                "lower the model with ExecutorchBackendConfig(compatible=True), or write a kernel for it"
            )
        fast = {
            name: f"kernels/cortex_m/{function}.cpp"
            for name in selected
            if name in kernels
            for function in [kernel_function(name).removesuffix("_out")]
            if (sources / "kernels" / "cortex_m" / f"{function}.cpp").is_file()
        }
        selection = Selection(dict(selected))
        write_kernel_tables(ops, selection, generated)
        if plain_kernels is not None:  # of the others, only the declarations are needed
            kept = Selection({name: None for name in selected if name not in fast or name in plain_kernels})
            rows = register_table(kernels_by_file(ops, kept, "quantized"))
            write_if_changed(generated / "kernels" / "quantized" / "register_table.inc", rows)
        tables = {library: kernels_by_file(ops, selection, library) for library in KERNEL_LIBRARIES}
        libraries = [library for library, files in tables.items() if files]
        first = [f"kernels/{library}/{name}" for library in libraries for name in tables[library]]
        if fast:
            libraries.insert(0, "cortex_m")  # found first
            lines = [
                f"ET_CORTEX_M_KERNEL({Path(file).stem}, {kernels[name].in_place_bits:#x})"
                for name, file in sorted(fast.items())
            ]
            self._write("executorch/src/kernels/cortex_m/rows.inc", "\n".join(lines) + "\n")
            first += fast.values()
        wanted_prims = [row for name, row in prims.items() if name in selected]
        if wanted_prims:
            first += ["kernels/prim/prim_numbers.cpp", "kernels/prim/prim_tensors.cpp"]
        first += [f"kernels/{name}/register.cpp" for name in libraries]
        first += [f"runtime/{path.name}" for path in sorted((sources / "runtime").glob("*.cpp"))]
        found = source_tree(generated).closure([*first, "threads/single_thread.cpp"], without=_HOSTED)
        for name, path in found.items():
            self._copy(path, generated.parent / ("third_party" if name.startswith("flatbuffers/") else "src") / name)
        _drop_others(generated, found)
        places = tuple(f"kernels/{name}/" for name in libraries if name != "portable") or ("kernels/",)
        compiled = sorted(name for name in found if name.endswith(".cpp"))
        masks = [
            line
            for library, files in tables.items()
            if files
            for line in _definitions(library, sources_cmake(library, files, selection))
        ]
        self._write(
            "executorch/CMakeLists.txt",
            _template(
                "executorch.cmake.in",
                kernel_count=str(len(selected)),
                dtypes=", ".join(sorted(set().union(*(d for d in selected.values() if d)))) or "no tensors",
                sources="\n".join(f"  src/{name}" for name in compiled),
                hot_sources="\n".join(f"  src/{name}" for name in compiled if name.startswith(places)),
                definitions="\n".join(masks),
            ),
        )
        return libraries, wanted_prims

    def _copy(self, path: Path, to: Path) -> None:
        if path != to:
            write_if_changed(to, path.read_text(encoding="utf-8"))


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


def _drop_others(generated: Path, kept: Mapping[str, Path]) -> None:
    """Removes generated files that nothing includes."""
    for path in sorted(generated.rglob("*"), reverse=True):
        if path.is_file() and path.relative_to(generated).as_posix() not in kept:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()
