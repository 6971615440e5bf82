"""Writes a firmware project: model, kernels, runtime, start-up and linker script in one folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from executorch_py.codegen.kernel_library import write_if_changed
from executorch_py.errors import InvalidStateError

from .backends import backend_sources, backends_of
from .features import features_of
from .kernels import choose_kernels, kernel_sources, selection_of
from .library import template, write_library
from .targets import Target

#: In the project: digests of the user's files as they were written, to know which of them changed.
_WRITTEN = ".written"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Pools:
    """Sizes of the static memory of one method, in bytes."""

    method: int
    temp: int
    arenas: tuple[int, ...]
    events: int = 0  # 0: the project has no tracer


@dataclass(frozen=True)
class Model:
    """What a project is made of: a program with one test case, or with those of a bundle."""

    data: bytes
    method: str
    inputs: Sequence[bytes]  # of each tensor input; nothing for one that is no tensor
    outputs: Sequence[bytes]  # what the host computed
    bundle: bytes | None = None  # the file with `data` in it, whose test cases take the place of these
    tolerance: tuple[float, float] = (1e-4, 1e-5)  # of a bundle's outputs: relative to the value, and beside it
    has_floats: bool = True  # an output is torch.float32, which is compared by value

    @property
    def file(self) -> bytes:
        """What stands in flash."""
        return self.data if self.bundle is None else self.bundle


def byte_array(name: str, data: bytes) -> str:
    """A C array of bytes."""
    lines = [", ".join(map(str, data[i : i + 24])) for i in range(0, len(data), 24)] or ["0"]
    body = ",\n    ".join(lines)
    return f"alignas(16) extern const unsigned char {name}[] = {{\n    {body}}};\n"


def model_sources(model: Model) -> dict[str, str]:
    """model.h and model.cpp."""
    tables = int.from_bytes(model.data[16:24], "little") if model.data[8:12] == b"eh00" else len(model.data)
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
inline constexpr size_t kModelBytes = {len(model.file)};
inline constexpr size_t kProgramBytes = {len(model.data)};
inline constexpr size_t kProgramTablesBytes = {tables};  // header and tables; weights follow
inline constexpr uint32_t kProgramTablesChecksum = {zlib.crc32(model.data[:tables]):#010x};
inline constexpr uint32_t kProgramChecksum = {zlib.crc32(model.data):#010x};
// The {".pte" if model.bundle is None else ".bpte"} file, aligned to 16.
extern const unsigned char kModel[] __attribute__((section(".model")));
inline constexpr size_t kNumInputs = {len(model.inputs)};
extern const Bytes kInputs[];
inline constexpr size_t kNumOutputs = {len(model.outputs)};
extern const Bytes kOutputs[];
inline constexpr bool kHasFloats = {str(model.has_floats).lower()};  // an output is float, which may differ a little
// How much the outputs of a bundle's test cases may differ: kAtol + kRtol * |expected|.
inline constexpr double kRtol = {model.tolerance[0]!r}, kAtol = {model.tolerance[1]!r};

}}  // namespace firmware
"""
    parts = ['#include "model.h"\n\nnamespace firmware {\n', byte_array("kModel", model.file)]
    for kind, arrays in (("Input", model.inputs), ("Output", model.outputs)):
        parts += ["namespace {"] + [
            byte_array(f"k{kind}{i}", data).replace("extern ", "") for i, data in enumerate(arrays)
        ]
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
inline constexpr size_t kEventBytes = {pools.events};

}}  // namespace firmware
"""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Makes the folder, and keeps others out: two that write and compile there make an image of both's files.

    Raises:
        InvalidStateError: Another thread or process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of the open folder: ends with the process
        except BlockingIOError:
            raise InvalidStateError(
                f"{folder}: another `etpy firmware` writes and builds here; wait for its end, or give another folder"
            ) from None
        yield
    finally:
        os.close(handle)


class Project:
    """A folder with a firmware project. Its `main.cpp` and `board/` are the user's: once changed, they stay."""

    def __init__(self, folder: Path, target: Target) -> None:
        """`folder` is made when it is not there."""
        self.folder = folder
        self.target = target
        self.program = target.program

    def changed_files(self) -> tuple[str, ...]:
        """The user's files that are not as the last call of write() left them; one that was removed is none of them."""
        known = self.folder / _WRITTEN
        rows = known.read_text(encoding="utf-8").splitlines() if known.is_file() else []
        written = {name: digest for digest, _, name in (row.partition(" ") for row in rows)}
        files = {name: self.folder / name for name in sorted(written)}
        return tuple(name for name, path in files.items() if path.is_file() and _digest(path) != written[name])

    def write(self, model: Model, pools: Pools, origin: str, plain_kernels: frozenset[str] | None = None) -> None:
        """Writes everything but files that the user changed. A file is touched only when its content changes.

        Args:
            model: The model.
            pools: Sizes of its memory.
            origin: A sentence on where these are from.
            plain_kernels: Those that some instruction got although kernels/cortex_m has the operator; None keeps all,
                as it is not known yet.

        Raises:
            InvalidArgumentError: The model calls kernels or delegates that firmware has not; they are named.
        """
        kernels = choose_kernels(selection_of(model.data), plain_kernels)
        backends = backends_of(model.data)
        extra = ["devtools/etdump.cpp"] * bool(pools.events) + ["devtools/bundled_program.cpp"] * bool(model.bundle)
        if pools.events and not self.target.is_bare:  # its clock
            extra.append("runtime/platform_posix.cpp")
        write_library(
            self.folder / "executorch", kernels, int(features_of(model.data)),
            backends=backends, extra=extra, traces=bool(pools.events),
        )  # fmt: skip
        model_files = model_sources(model)
        files = {
            **model_files,
            **kernel_sources(kernels),
            **backend_sources(backends),
            "memory.h": memory_header(pools, origin),
            **{
                name: template(name)
                for name in ("main.cpp", "cases.h", "report.h", "report.cpp", "trace.h", "cost.h", "cost.cpp")
            },
            "cases.cpp": template("cases_examples.cpp" if model.bundle is None else "cases_bundled.cpp"),
            "CMakeLists.txt": self._cmake(model_files, traces=bool(pools.events)),
            **board_files(self.target, len(model.file)),
        }
        if self.target.is_bare:
            files["toolchain.cmake"] = toolchain_file(self.target)
        if self.target.is_page:
            files["toolchain.cmake"] = template("page/toolchain.cmake.in", flags=self.target.flags)
            files |= {name: template(f"page/{name}") for name in ("page.cpp", "index.html")}
        if pools.events:
            files["trace.cpp"] = template("trace.cpp")
        kept = self.changed_files()
        for name, text in files.items():
            if name not in kept:
                self._write(name, text)
        # What is kept differs from its digest from then on, whatever a later version of the package writes.
        users = {name: text for name, text in files.items() if name == "main.cpp" or name.startswith("board/")}
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in users.items()}
        self._write(_WRITTEN, "".join(f"{digest} {name}\n" for name, digest in digests.items()))

    def write_readme(self, report: str) -> None:
        """README.md: how to build and run it, and its figures."""
        self._write("README.md", template("README.md.in", target=self.target.name, report=report))

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        write_if_changed(path, text)

    def _cmake(self, model_files: Mapping[str, str], traces: bool) -> str:
        options = ""
        if self.target.is_page:
            options = template("page/page.cmake.in")
        if self.target.is_bare:
            options = link_options("firmware")
        emulator = " ".join(self.target.emulator())
        run = f"\nadd_custom_target(run COMMAND {emulator} $<TARGET_FILE:firmware> USES_TERMINAL VERBATIM)\n"
        return template(
            "CMakeLists.txt.in",
            target=self.target.name,
            digests="\n".join(
                f"  {name} {hashlib.sha256(text.encode()).hexdigest()}" for name, text in sorted(model_files.items())
            ),
            trace_source="trace.cpp " if traces else "",
            trace_definition="FIRMWARE_TRACES=1" if traces else "",
            board_source="cortex_m.cpp" if self.target.is_bare else "host.cpp",
            suffix=Path(self.target.program).suffix,
            link_options=options + (run if emulator or self.target.is_host else ""),
        )


def board_files(target: Target, model_size: int) -> dict[str, str]:
    """The folder board/: how a program starts, writes and ends, and where its sections lie."""
    files = {"board/board.h": template("board/board.h")}
    if target.is_bare:
        files["board/cortex_m.cpp"] = template("board/cortex_m.cpp")
        files["board/cortex_m.ld"] = _linker_script(target, model_size)
    else:
        files["board/host.cpp"] = template("board/host.cpp")
    return files


def toolchain_file(target: Target) -> str:
    """toolchain.cmake of a board."""
    return template("toolchain.cmake.in", cpu=target.cpu, flags=target.flags, clang=template("clang.cmake.in").rstrip())


def link_options(program: str) -> str:
    """What a CMake target for a board needs beside its sources: the script, and to leave out what nobody calls."""
    return (
        "set(script ${CMAKE_CURRENT_SOURCE_DIR}/board/cortex_m.ld)\n"
        f"target_link_options({program} PRIVATE -T ${{script}} -Wl,--gc-sections)\n"
        f"set_target_properties({program} PROPERTIES LINK_DEPENDS ${{script}})"
    )


def _linker_script(target: Target, model_size: int) -> str:
    """The linker script of a target's board; large models go where flash of their own stands."""
    regions = {region.name: region for region in target.regions}
    room = regions["FLASH"].length - (160 << 10)  # for code and the examples
    place = "FLASH" if model_size <= room or "DDR" not in regions else "DDR"
    lines = [
        f"  {r.name:<6}({r.access}) : ORIGIN = {r.origin:#010x}, LENGTH = {r.length >> 10}K"
        for r in target.regions
        if r.name in ("FLASH", "RAM", place)
    ]
    return template("board/cortex_m.ld.in", board=target.board, regions="\n".join(lines), model_region=place)
