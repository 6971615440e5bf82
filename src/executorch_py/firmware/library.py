"""Libraries of sources: the kernels that a selection needs, with the runtime, in a folder with one CMakeLists.txt.

    etpy select model.pte more.txt --sources folder --name my_kernels

writes a folder that another project adds (``add_subdirectory``) and that needs no Python from then on.
``etpy firmware`` puts one into its projects. executorch_py_select of the CMake package has the kernels alone, on the
package's runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from executorch_py.codegen.kernel_form import CPP_KEYWORDS
from executorch_py.codegen.kernel_library import write_if_changed
from executorch_py.codegen.ops_yaml import TableError
from executorch_py.codegen.published_yaml import operator_table
from executorch_py.codegen.select_ops import read_selections
from executorch_py.errors import InvalidArgumentError

from .backends import Backend
from .features import features_of
from .kernels import PACKAGED, Kernels, choose_kernels, kernel_sources, primitives
from .sources import SourceTree

_TEMPLATES = Path(__file__).resolve().parent / "template"
#: Of the runtime, what only hosts have.
HOSTED = frozenset({"runtime/platform_posix.cpp", "aten/tensor.cpp", "aten/tensor.h"})
#: Compiled for size: kernels whose loops stand in files beside them, or that a model calls at its ends, and what checks
#: arguments.
_SMALL = frozenset(
    f"kernels/quantized/{name}.cpp"
    for name in ("affine", "average_windows", "recurrent", "recurrent_steps", "register")
) | frozenset(
    f"kernels/cortex_m/{name}.cpp"
    for name in (
        "cat", "clone_dim_order", "constant_pad_nd", "dequantize_per_tensor", "kernels", "permute_copy",
        "quantize_per_tensor", "quantized_adaptive_avg_pool2d", "quantized_add", "quantized_avg_pool2d",
        "quantized_linear", "quantized_mean", "quantized_sub", "register", "select_copy_int", "slice_copy_tensor",
        "split_copy_tensor", "split_with_sizes_copy", "transpose_copy_int", "unbind_copy_int",
    )
)  # fmt: skip


#: The platform layer, of which a project may have a port.
_PLATFORM = (
    "platform",
    "task_pool",
    *(f"ports/{name}" for name in ("freertos", "posix", "semihosting", "uart", "zephyr")),
)
#: Folders whose sources the installed libraries have compiled.
_RUNTIME = ("base/", "numerics/", "runtime/", "schema/", "threads/")


def template(file: str, /, folder: Path = _TEMPLATES, **values: str) -> str:
    """A file of template/, or of another folder, with its @words@ replaced."""
    text = (folder / file).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def source_tree(generated: Path) -> SourceTree:
    """The sources that the package carries, and `generated`, which holds copies of them from the last time."""
    return SourceTree((PACKAGED / "generated", PACKAGED / "cpp", PACKAGED / "third_party", generated))


def copy_sources(
    folder: Path, kernels: Kernels, first: Sequence[str], without: frozenset[str] = HOSTED, own: Sequence[str] = ()
) -> dict[str, Path]:
    """Copies what files need into ``folder``, with the tables of the kernels; what else lies there goes.

    Args:
        folder: The sources go into its ``src``, those of others into its ``third_party``.
        kernels: The kernels.
        first: Files to begin with, below a root of sources.
        without: Files that are left out.
        own: Files of ``src`` that the caller writes.

    Returns:
        File below ``src`` or ``third_party`` -> what it is a copy of.
    """
    generated = folder / "src"
    for path, text in kernels.tables.items():
        write_if_changed(generated / path, text)
    found = source_tree(generated).closure(first, without=without)
    for path, source in found.items():
        copy = folder / ("third_party" if path.startswith("flatbuffers/") else "src") / path
        if source != copy:
            write_if_changed(copy, source.read_text(encoding="utf-8"))
    _drop_others(generated, {*found, *own})
    return found


def hot_properties(kernels: Kernels, compiled: Sequence[str]) -> str:
    """Lines of CMake that have the kernels that compute compiled for speed."""
    places = tuple(f"kernels/{library}/" for library in kernels.libraries if library != "portable") or ("kernels/",)
    hot = "\n".join(f"  src/{path}" for path in compiled if path.startswith(places) and path not in _SMALL)
    return template("hot_sources.cmake.in", sources=hot) if hot else ""


def write_library(
    folder: Path,
    kernels: Kernels,
    features: int | None,
    name: str = "",
    has_runtime: bool = True,
    backends: Sequence[Backend] = (),
    extra: Sequence[str] = (),
    traces: bool = False,
) -> None:
    """Writes sources and their CMakeLists.txt; what an earlier call wrote and nothing needs any more goes.

    Args:
        folder: Where they go.
        kernels: The kernels.
        features: What the runtime has of runtime/features.h; None: everything.
        name: A namespace and header for registering the kernels, ``name/register.h``; "": none.
        has_runtime: With the runtime, as a library ``executorch``; else a library ``name`` on the package's runtime.
        backends: What runs delegates.
        extra: Files beside these; one that only hosts have takes the place of the bare platform.
        traces: The runtime records events.
    """
    first = [*kernels.sources, "threads/single_thread.cpp", "base/crc32.h", *extra]
    first += [f"runtime/{path.name}" for path in sorted((PACKAGED / "cpp" / "runtime").glob("*.cpp"))]
    first += [source for backend in backends for source in backend.sources]
    first += [f"platform/{name}.cpp" for name in _PLATFORM] if has_runtime else []
    without = (HOSTED - set(extra)) | ({"runtime/platform_bare.cpp"} if HOSTED & set(extra) else set())
    own = [f"{name}/register.cpp"] if name else []
    found = copy_sources(folder, kernels, first, without, own)
    macros = [
        f"set_source_files_properties({' '.join(f'src/{source}' for source in backend.sources)} PROPERTIES "
        f'COMPILE_DEFINITIONS "{";".join(backend.definitions)}")'
        for backend in backends
        if backend.definitions
    ]
    left_out = ("platform/",) if has_runtime else _RUNTIME
    compiled = sorted(path for path in found if path.endswith(".cpp") and not path.startswith(left_out))
    if name:
        prefix = "" if has_runtime else "executorch_py/"
        header, registering = kernel_sources(kernels, name, f"{name}/register.h", prefix).values()
        write_if_changed(folder / "include" / name / "register.h", header)
        write_if_changed(folder / "src" / name / "register.cpp", registering)
    write_if_changed(
        folder / "CMakeLists.txt",
        template(
            "executorch.cmake.in" if has_runtime else "kernels.cmake.in",
            name=name,
            kernel_count=str(len(kernels.selected)),
            features="" if features is None else f" ET_FEATURES={features}",
            without_tracer="" if traces else " $<$<NOT:$<BOOL:${EXECUTORCH_COST}>>:ET_NO_EVENT_TRACER=1>",
            dtypes=", ".join(sorted(set().union(*(d for d in kernels.selected.values() if d)))) or "no tensors",
            sources="\n".join(f"  src/{path}" for path in [*compiled, *own]),
            hot_properties=hot_properties(kernels, compiled),
            definitions="\n".join([*kernels.definitions, *macros]),
        ),
    )


def _drop_others(generated: Path, kept: set[str]) -> None:
    """Removes generated files that nothing includes."""
    for path in sorted(generated.rglob("*"), reverse=True):
        if path.is_file() and path.relative_to(generated).as_posix() not in kept:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def write_selected(
    folder: Path,
    files: Sequence[Path],
    name: str,
    *,
    others: Sequence[str] = (),
    has_runtime: bool = True,
) -> int:
    """Writes a library with the kernels that files select (codegen/select_ops.py); returns how many there are.

    Args:
        folder: Where it goes.
        files: Lists, tables and programs.
        name: Namespace and header: ``name::register_kernels(registry)`` of ``name/register.h``.
        others: Kernels that another library has; names may have ``*``.
        has_runtime: See write_library.

    Raises:
        InvalidArgumentError: A file is not well formed, or a kernel is missing; each is named with file and dtypes.
    """
    if not name.isidentifier() or name in CPP_KEYWORDS:
        raise InvalidArgumentError(f"{name!r} is no name of a namespace")
    try:
        selection = read_selections(files, operator_table(), others)
    except TableError as error:
        raise InvalidArgumentError(str(error)) from None
    entries = {k: v for k, v in selection.entries.items() if not any(fnmatchcase(k, other) for other in others)}
    programs = [path.read_bytes() for path in files if path.suffix == ".pte"]
    features = None
    if len(programs) == len(files):
        features = 0
        for data in programs:
            features |= int(features_of(data))
    else:  # what a list's models do beside calling kernels is not known
        entries |= dict.fromkeys(primitives())
    write_library(folder, choose_kernels(entries, None), features, name, has_runtime)
    return len(entries)
