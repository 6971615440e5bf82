"""Writes the folder of a generated model: code, weights, kernels, and a program that runs it on examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from executorch_py.codegen.kernel_library import write_if_changed
from executorch_py.codegen.ops_yaml import read_table
from executorch_py.firmware.features import Feature
from executorch_py.firmware.kernels import OPERATORS, Kernels, choose_kernels
from executorch_py.firmware.library import copy_sources, hot_properties, template
from executorch_py.firmware.project import board_files, byte_array, link_options, toolchain_file
from executorch_py.firmware.targets import Target

from .layout import Layout
from .plan import Call, Plan
from .source import generated_sources, prefix_of, source_of_call

__all__ = ["Example", "NativeProject"]

_template = partial(template, folder=Path(__file__).resolve().parent / "template")
#: Of the runtime, what generated code and kernels call.
_RUNTIME = ("runtime/kernel.cpp", "runtime/memory_allocator.h", "threads/single_thread.cpp")
#: Files that a library has not.
_PROGRAM = ("main.cpp", "examples.h", "examples.cpp", "board/board.h", "board/host.cpp", "board/cortex_m.cpp")
#: Folders with several kernels behind one header.
_BESIDE = ("kernels/cortex_m/", "kernels/prim/")


@dataclass(frozen=True)
class Example:
    """A call: a method, bytes of its inputs (none for what was fixed) and outputs (None for None).

    ``sizes`` are those of inputs and outputs (None for what is no tensor) where they change from call to call.
    """

    method: str
    inputs: Sequence[bytes]
    outputs: Sequence[bytes | None]
    is_float: Sequence[bool]
    sizes: Sequence[Sequence[int] | None] = ()


@dataclass(frozen=True)
class NativeProject:
    """A folder with a generated model."""

    folder: Path
    target: Target
    name: str
    plan: Plan
    layout: Layout
    selected: Mapping[str, set[str] | None]  # kernel -> element types

    @property
    def program(self) -> str:
        """The file that a build makes: a program, by its path in the folder of the build."""
        return f"{self.name}_run.elf"

    def write(self, scratch: int, origin: str, examples: Sequence[Example]) -> None:
        """Writes everything; a file is touched only when its content changes.

        Args:
            scratch: Bytes of memory for kernels.
            origin: A sentence on where the number is from.
            examples: What the program runs; none: a library without a program.

        Raises:
            InvalidArgumentError: The model calls kernels that microcontrollers have not; they are named with dtypes.
        """
        ops = {op.kernel_schema.name: op for op in read_table(OPERATORS) if op.kernel}
        calls = [step for method in self.plan.methods.values() for step in method.steps if isinstance(step, Call)]
        kernels = choose_kernels(self.selected, frozenset(call.kernel for call in calls if call.library != "cortex_m"))
        headers = sorted({source_of_call(call, ops) for call in calls})
        sources = [one.removesuffix(".h") + ".cpp" for one in headers]
        beside = [one for one in kernels.sources if one.startswith(_BESIDE) and not one.endswith("register.cpp")]
        found = copy_sources(self.folder, kernels, [*headers, *sources, *beside, *_RUNTIME])
        compiled = sorted(path for path in found if path.endswith(".cpp"))
        files = {
            **generated_sources(self.name, self.plan, self.layout, ops, scratch, origin),
            "native.h": _template("native.h"),
            "weights.cpp": _template("weights.cpp.in", name=self.name),
            "CMakeLists.txt": self._cmake(kernels, compiled, has_program=bool(examples)),
            **(self._program(examples) if examples else {}),
        }
        if self.target.is_bare:
            files["toolchain.cmake"] = toolchain_file(self.target)
        for name in () if examples else _PROGRAM:
            (self.folder / name).unlink(missing_ok=True)
        for name, text in files.items():
            write_if_changed(self.folder / name, text)
        weights = self.folder / "weights.bin"
        if not weights.exists() or weights.read_bytes() != self.layout.weights:
            weights.write_bytes(self.layout.weights)

    def _cmake(self, kernels: Kernels, compiled: Sequence[str], has_program: bool) -> str:
        dtypes = ", ".join(sorted(set().union(*(d for d in kernels.selected.values() if d)))) or "no tensors"
        executable = _template(
            "executable.cmake.in", name=self.name,
            link_options=link_options(f"{self.name}_run") if self.target.is_bare else "",
            board_source="cortex_m.cpp" if self.target.is_bare else "host.cpp",
        )  # fmt: skip
        return _template(
            "CMakeLists.txt.in",
            name=self.name,
            target=self.target.name,
            program=f" and build/{self.program}" if has_program else "",
            kernel_count=str(len(kernels.selected)),
            dtypes=dtypes,
            sources="\n".join(f"  src/{path}" for path in compiled),
            lto="ON" if has_program else "OFF",
            is_host="ON" if self.target.is_host else "OFF",
            small_stack=" ET_SMALL_STACK=1" if self.target.is_bare else "",
            hot_properties=hot_properties(kernels, compiled),
            definitions="\n".join(kernels.definitions),
            features=str(
                int(Feature.DYNAMIC_SHAPES if any(one.is_dynamic for one in self.plan.methods.values()) else 0)
            ),
            executable=executable if has_program else "",
        )

    def _program(self, examples: Sequence[Example]) -> Mapping[str, str]:
        return {
            "main.cpp": _template("main.cpp"),
            "examples.h": _template(
                "examples.h.in", weights=str(len(self.layout.weights)), tensors=str(sum(self.layout.arrays.values()))
            ),
            "examples.cpp": _examples(self.name, self.plan, examples),
            **board_files(self.target, len(self.layout.weights)),
        }


def _examples(name: str, plan: Plan, examples: Sequence[Example]) -> str:
    arrays: list[str] = []

    def rows(kind: str, contents: Sequence[bytes | None]) -> str:
        found = []
        for content in contents:
            if not content:
                found.append("{nullptr, 0}")
                continue
            arrays.append(byte_array(f"k{kind}{len(arrays)}", content).replace("extern ", ""))
            found.append(f"{{k{kind}{len(arrays) - 1}, {len(content)}}}")
        return ", ".join(found) or "{nullptr, 0}"

    lines, table = [], []
    for e, example in enumerate(examples):
        floats = ", ".join(str(one).lower() for one in example.is_float) or "false"
        lines.append(f"const Bytes kGiven{e}[] = {{{rows('Input', example.inputs)}}};")
        lines.append(f"const Bytes kWanted{e}[] = {{{rows('Output', example.outputs)}}};")
        lines.append(f"const bool kIsFloat{e}[] = {{{floats}}};")
        prefix = prefix_of(name, example.method, plan)
        sizes = "nullptr, nullptr, nullptr"
        if example.sizes:
            texts = [f"kSizes{e}_{i}" if one is not None else "nullptr" for i, one in enumerate(example.sizes)]
            lines += [
                f"const int64_t {text}[] = {{{', '.join(map(str, (len(one), *one)))}}};"
                for text, one in zip(texts, example.sizes, strict=True)
                if one is not None
            ]
            lines.append(f"const int64_t* const kSizes{e}[] = {{{', '.join(texts)}}};")
            sizes = f"{prefix}_resize_input, {prefix}_output_sizes, kSizes{e}"
        table.append(
            f'    {{"{example.method}", {prefix}_run, {prefix}_input, {prefix}_output, kGiven{e}, '
            f"{len(example.inputs)}, kWanted{e}, {len(example.outputs)}, kIsFloat{e}, {sizes}}},"
        )
    return "\n".join([
        '#include "examples.h"\n', f'#include "{name}.h"\n', "namespace firmware {", "namespace {", *arrays, *lines,
        "}  // namespace", "extern const Example kExamples[] = {", *table, "};",
        f"extern const size_t kNumExamples = {len(examples)};",
        f"extern const char* (*const kFailed)() = {name}_failed;",
        f"extern void (*const kResetState)() = {name}_reset_state;",
        f"extern size_t (*const kScratchUsed)() = {name}_scratch_used;",
        "}  // namespace firmware\n",
    ])  # fmt: skip
