"""A program as straight-line C++: its instructions as calls of kernels, its weights in flash, its memory in one array.

For: products that run one model and have no room, or no wish, for a file and an interpreter. Not for: delegates, and
sizes without an upper bound; ``etpy firmware`` runs these.

    from executorch_py.native import build_native

    report = build_native("model.pte", "model", target="cortex-m55")
    print(report)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from executorch_py import _core
from executorch_py.codegen.flatbuffer import DamagedError
from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import InvalidArgumentError, NotSupportedError
from executorch_py.firmware.build import Run, build, missing_tools, run
from executorch_py.firmware.examples import program_bytes
from executorch_py.firmware.kernels import choose_kernels, selection_of
from executorch_py.firmware.project import only_writer
from executorch_py.firmware.targets import TARGETS as FIRMWARE_TARGETS
from executorch_py.runtime import Program

from .comparison import compared
from .examples import examples_of, inputs_of
from .layout import lay_out
from .literals import identifier
from .plan import Plan, read_plan
from .project import Example, NativeProject
from .report import NativeReport, measured

__all__ = ["TARGETS", "NativeReport", "build_native"]

#: Target by name: those of firmware but WebAssembly, whose page calls the interpreter.
TARGETS = {name: target for name, target in FIRMWARE_TARGETS.items() if not target.is_page}

_UNBOUND = 2  # of Tensor.dynamism
_MOST_SCRATCH = 96 << 10  # what kernels get before a run has told what they need


def build_native(
    program: Any,
    folder: str | os.PathLike[str],
    target: str = "host",
    *,
    name: str | None = None,
    inputs: Sequence[Any] | None = None,
    library: bool = False,
    measure: bool = True,
    check: bool = False,
) -> NativeReport:
    """Writes a program as C++ that needs no runtime and no file, and builds it where the target's tools are installed.

    The folder gets ``NAME.h``, a header for C, and ``NAME.cpp``, with one statement for each instruction. Beside them
    stand the weights, the sources of the kernels that it calls, and a CMakeLists.txt. That makes ``libNAME.a`` and a
    program that runs it on examples. The outputs are those of the interpreter with the same kernels, bit for bit.

    Args:
        program: A `.pte` by its path or bytes, or what ``to_executorch()`` returned.
        folder: Where everything goes.
        target: A name of ``TARGETS``.
        name: What the functions in C begin with; else the file's name, or "model".
        inputs: Example inputs of the method ``forward``, or of the only one; made up without them.
        library: Write and build the library and its header only.
        measure: Build and run it where the tools are installed; without it kernels get more scratch memory than they
            need.
        check: Build the interpreter for the same target as well (``etpy firmware``), and compare: sizes, instructions,
            start, and outputs bit for bit.

    Raises:
        InvalidArgumentError: No such target; not a program; it has delegates, or a kernel that microcontrollers do not
            have.
        NotSupportedError: A size has no upper bound; weights lie in other files; check without a way to run.
        InvalidStateError: Another call writes or builds in the folder.
        InternalError: The tools are there and the build or the run failed; the message has their output.
    """
    if target not in TARGETS:
        raise InvalidArgumentError(f"no target {target!r}; there are {', '.join(TARGETS)}")
    wanted = TARGETS[target]
    data = program_bytes(program)
    called = _name_of(name or _stem(program))
    core = _load(data)
    plan = read_plan(data, core)
    if len({identifier(method) for method in plan.methods}) < len(plan.methods):
        raise InvalidArgumentError(f"methods {', '.join(plan.methods)} have one name in C: rename them")
    _check_bounds(plan, Program(core))
    layout = lay_out(plan)
    missing = tuple(missing_tools(wanted))
    runs = measure and not missing
    given = inputs_of(Program(core), plan, inputs) if runs or not library else {}
    examples = examples_of(Program(core), plan, given) if given else []
    if check and (missing or library or not measure):
        raise InvalidArgumentError(
            f"check runs the program in {wanted.board}: "
            + (f"{', '.join(missing)} is not installed" if missing else "give it without library, and with measure")
        )
    project = NativeProject(Path(folder), wanted, called, plan, layout, selection_of(data))
    with only_writer(project.folder):
        done = _write(project, examples, library, runs)
        comparison = None
        if check:
            method = examples[0].method
            first = inputs_of(Program(core), plan, None if plan.methods[method].is_dynamic else inputs)
            comparison = compared(project, len(layout.weights), data, method, first[method])
            build(project)
        return measured(project, done, missing, comparison)


def _stem(program: Any) -> str:
    return Path(program).stem if isinstance(program, (str, os.PathLike)) else "model"


def _name_of(text: str) -> str:
    """A name for functions and files, which no other file of the folder has."""
    found = identifier(text)
    return f"{found}_model" if found in ("board", "examples", "main", "native", "src", "weights") else found


def _load(data: bytes) -> _core.Program:
    """The verified program, with the kernels of firmware.

    Raises:
        InvalidArgumentError, NotSupportedError: Code cannot be written for it; the message says what to do.
    """
    try:
        delegates = sorted({one.backend_id for one in delegates_of(data)})
    except (DamagedError, ValueError) as error:
        raise InvalidArgumentError(f"not a .pte file: {error}") from None
    core = _core.Program.from_bytes(data, firmware_kernels=True)  # verifies it
    if delegates:
        raise InvalidArgumentError(
            f"the model calls delegates ({', '.join(delegates)}), for which no code is written: lower it without a "
            "partitioner, or use `etpy firmware`"
        )
    choose_kernels(selection_of(data), None)  # names what is missing
    return core


def _check_bounds(plan: Plan, program: Program) -> None:
    """Memory is an array: every size needs a bound.

    Raises:
        NotSupportedError: A size has none; the message says what to do.
    """
    for method in plan.methods.values():
        for i, place in enumerate(method.inputs):
            if getattr(method.values[place], "dynamism", 0) == _UNBOUND:
                label = program.metadata(method.name).input_name(i) or str(i)
                raise NotSupportedError(
                    f"input {label} of method {method.name!r} has a size without an upper bound: export the model with "
                    "Dim(name, max=number), or use `etpy firmware`"
                )
        if any(getattr(value, "dynamism", 0) == _UNBOUND for value in method.values):
            raise NotSupportedError(
                "the sizes of a tensor depend on data: use `etpy firmware`, whose runtime gives it memory"
            )


def _write(project: NativeProject, examples: list[Example], library: bool, measure: bool) -> Run | None:
    """Writes the project, runs it where that is wanted, and writes it with what kernels took; the last run."""
    guess = "more than it needs: not measured"
    project.write(_MOST_SCRATCH, guess, examples if measure or not library else [])
    if not measure:
        return None
    done = run(project, build(project))
    project.write(done.temp_bytes, "measured", [] if library else examples)
    elf = build(project)
    return None if library else run(project, elf)
