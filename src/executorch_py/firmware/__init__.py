"""Firmware projects: a model, its kernels and the runtime as one folder that a microcontroller's tools build.

For: people who put a `.pte` on a board. Not for: the boards' drivers; a project's main.cpp is where a product begins.

    from executorch_py.firmware import write_firmware

    report = write_firmware("model.pte", "firmware", target="cortex-m55")
    print(report)
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from executorch_py import _core
from executorch_py.codegen.flatbuffer import DamagedError
from executorch_py.codegen.pte_stripping import stripped
from executorch_py.devtools.bundled_program.serialize import deserialize_from_flatbuffer_to_bundled_program, encoded
from executorch_py.element_types import ScalarType
from executorch_py.errors import InternalError, InvalidArgumentError, NotSupportedError
from executorch_py.runtime import Program, Runtime

from .backends import backends_of, require_accelerator
from .build import Image, Run, build, image_of, missing_tools, run
from .cost import LayerCost, cost_text, layers_of, with_counts
from .examples import made_up, program_bytes, raw_bytes
from .plan import Plan
from .project import Model, Pools, Project, only_writer
from .targets import TARGETS, Target

__all__ = ["TARGETS", "FirmwareReport", "LayerCost", "Target", "write_firmware"]

#: What a model is first loaded with, to see what it needs; the examples in QEMU have more.
_GENEROUS = Pools(method=128 << 10, temp=96 << 10, arenas=(), events=32 << 10)


@dataclass(frozen=True)
class FirmwareReport:
    """What was written, and what was measured of it.

    `image` and `run` are None where the tools of the target are not installed; `missing` names these.
    """

    folder: Path
    target: Target
    model_bytes: int
    pools: Pools
    image: Image | None
    run: Run | None
    missing: tuple[str, ...]
    is_compared: bool = True  # False: a delegate's device is not here, and what its stub gives counts for nothing
    num_cases: int = 0  # of a bundled program; 0: the model came without
    etdump: Path | None = None  # what the run recorded
    cost: tuple[LayerCost, ...] = ()
    kept: tuple[str, ...] = ()  # files that the user had changed, which stayed
    overlaps_save: int = 0  # bytes of the arena, about, that MemoryPlanningPass(overlap_inputs=True) would save

    def as_dict(self) -> dict[str, Any]:
        """The same for programs: bytes and instructions; None where nothing was measured."""
        told: dict[str, Any] = {
            "folder": str(self.folder),
            "target": self.target.name,
            "model_bytes": self.model_bytes,
            "arena_bytes": sum(self.pools.arenas),
            "missing": list(self.missing),
            "compared": self.is_compared,
            "cost": [asdict(layer) for layer in self.cost],
            "image": asdict(self.image) if self.image else None,
            "run": self._run_as_dict(),
            "num_cases": self.num_cases,
            "etdump": str(self.etdump) if self.etdump else None,
            "kept": list(self.kept),
            "overlaps_save": self.overlaps_save,
        }
        return told

    def _run_as_dict(self) -> dict[str, Any] | None:
        if self.run is None:
            return None
        told = {**asdict(self.run), "plain_kernels": sorted(self.run.plain_kernels)}
        del told["etdump"]  # a file has it
        return told

    def __str__(self) -> str:
        lines = [
            f"{self.folder}: firmware for {self.target.name} ({self.target.board})",
            f"  model    {self.model_bytes:>10,} bytes",
            f"  arena    {sum(self.pools.arenas):>10,} bytes",
        ]
        if self.overlaps_save > 0:
            lines[-1] += f"; about {self.overlaps_save:,} less with MemoryPlanningPass(overlap_inputs=True) at export"
        if self.kept:
            lines.insert(1, f"  kept     {', '.join(self.kept)}: changed by you, and not in these figures")
        if self.run is None:
            reason = f": {', '.join(self.missing)} is not installed" if self.missing else ""
            return "\n".join([*lines, f"  not measured{reason}"])
        lines += [
            f"  method   {self.run.method_bytes:>10,} bytes",
            f"  temp     {self.run.temp_bytes:>10,} bytes",
        ]
        if self.image is not None:
            lines += [
                f"  code     {self.image.code:>10,} bytes of flash beside the model",
                f"  data     {self.image.data:>10,} bytes of RAM: arena, method, temp and the program's own",
                f"  stack    {self.run.load_stack:>10,} bytes to load, {self.run.stack:,} to execute",
                f"  load     {self.run.load_instructions:>10,} instructions",
                f"  execute  {self.run.instructions:>10,} instructions",
                f"  plain    {', '.join(sorted(self.run.plain_kernels)) or 'no kernel'}",
            ]
        if self.etdump is not None:
            lines.append(f"  events   {self.run.event_bytes:>10,} bytes of RAM, in {self.etdump}")
        if not self.is_compared:
            lines.append("  outputs  not compared: no NPU ran here, a stub checked what it would get and gave zeros")
        else:
            lines.append(f"  outputs  {self._outcome(self.run.matches)}")
        if self.cost:
            lines.append(cost_text(self.cost))
        return "\n".join(lines)

    def _outcome(self, matches: bool) -> str:
        if self.num_cases == 0:
            return "as on the host" if matches else "DIFFER from the host"
        cases = f"{self.num_cases} test case{'s' * (self.num_cases > 1)}"
        return f"as expected in {cases}" if matches else f"NOT as expected in one or more of {cases}"


def _absent_backends(data: bytes, method: str) -> list[str]:
    """Backends that only the target has."""
    meta = Runtime.get().load_program(data).metadata(method)
    return [backend for backend in meta.backends() if not _core.is_backend_available(backend)]


def _model(data: bytes, name: str, inputs: Sequence[Any] | None) -> tuple[Model, tuple[int, ...]]:
    """The model with example inputs and what this machine computes from them; and the sizes of its planned buffers."""
    backends_of(data)  # refuses delegates that firmware has not
    program = Program(_core.Program.from_bytes(data, firmware_kernels=True))  # others refuse results over their inputs
    meta = program.metadata(name)
    arenas = tuple(meta.planned_buffer_sizes())
    if missing := _absent_backends(data, name):
        values = [meta.input_tensor_meta(i) for i in range(meta.num_inputs()) if meta.input_kind(i) == "Tensor"]
        if len(values) != meta.num_inputs():
            raise NotSupportedError(f"method {name!r} for {', '.join(missing)} takes numbers; give it tensors only")
        given = [raw_bytes(x, info.dim_order()) for x, info in zip(inputs or map(made_up, values), values, strict=True)]
        return Model(data, name, given, []), arenas
    method = program.load_method(name)
    infos = [meta.input_tensor_meta(i) if meta.input_kind(i) == "Tensor" else None for i in range(meta.num_inputs())]
    if inputs is None:
        inputs = [made_up(info) if info else method._core.input_value(i) for i, info in enumerate(infos)]
    outputs = method.execute(list(inputs))
    results = []
    has_floats = False
    for i, value in enumerate(outputs):
        if meta.output_kind(i) != "Tensor":
            raise NotSupportedError(f"output {i} of method {name!r} is a {meta.output_kind(i)}, must be a Tensor")
        results.append(raw_bytes(value, meta.output_tensor_meta(i).dim_order()))
        has_floats |= meta.output_tensor_meta(i).dtype() is ScalarType.Float
    given = [raw_bytes(value, info.dim_order()) if info else b"" for value, info in zip(inputs, infos, strict=True)]
    return Model(data, name, given, results, has_floats=has_floats), arenas


def _bundled(
    data: bytes, name: str, strip: bool, tolerance: tuple[float, float]
) -> tuple[Model, tuple[int, ...], int, bytes]:
    """The model of a bundle, sizes of its planned buffers, how many test cases it has, and its program as it came."""
    bundle = deserialize_from_flatbuffer_to_bundled_program(data)
    program = _stripped(bundle.program) if strip else bundle.program
    backends_of(program)  # refuses delegates that firmware has not
    arenas = tuple(Runtime.get().load_program(program).metadata(name).planned_buffer_sizes())
    cases = [case for suite in bundle.method_test_suites if suite.method_name == name for case in suite.test_cases]
    if not cases:
        known = ", ".join(sorted({suite.method_name for suite in bundle.method_test_suites if suite.test_cases}))
        raise InvalidArgumentError(
            f"the bundle has no test case for method {name!r}; it has some for {known or 'none'}"
        )
    for i, case in enumerate(cases):
        if not case.expected_outputs:
            raise InvalidArgumentError(f"test case {i} of method {name!r} expects no outputs: bundle some with it")
    if strip:
        data = encoded(replace(bundle, program=program))
    return Model(program, name, [], [], data, tolerance), arenas, len(cases), bundle.program


def _stripped(program: bytes) -> bytes:
    try:
        return stripped(program)[0]
    except DamagedError as error:
        raise InvalidArgumentError(f"not a .pte file: {error}") from None


def write_firmware(
    program: Any,
    folder: str | os.PathLike[str],
    target: str = "cortex-m55",
    *,
    method: str = "forward",
    inputs: Sequence[Any] | None = None,
    tolerance: tuple[float, float] = (1e-4, 1e-5),
    etdump: bool = False,
    strip: bool = True,
    measure: bool = True,
    cost: bool = False,
) -> FirmwareReport:
    """Writes a project that runs one method of a program on a board, and measures it where the tools are installed.

    The project has the model as an array in flash, the kernels that it calls for the element types that it has, static
    pools, a start-up, a linker script and a CMakeLists.txt. It needs no Python. Where the target's compiler and
    emulator are installed, it is built, run on the inputs, and its pools get the sizes that it used. A ``main.cpp``
    and files of ``board/`` that you changed stay when the folder is written again; ``report.kept`` names them.

    Args:
        program: A `.pte` by its path or bytes, or what ``to_executorch()`` returned; or a bundled program (`.bpte`),
            which goes into the image whole: the target runs its test cases.
        folder: Where the project goes; ``executorch/`` in it is replaced.
        target: A name of ``TARGETS``.
        method: The method.
        measure: Build and run it where the tools are installed; without it the pools are larger than they need to be.
        cost: Build and run it a second time, in ``build-cost``, and tell what each layer takes: ``report.cost``.
        strip: Leave out what only tools read: debug information and names.
        inputs: Example inputs; made up without them. The image holds them, and what this machine computes from them.
        tolerance: How much outputs may differ from those that a bundle expects, of the value and beside it: rtol, atol.
        etdump: Record events in static memory. The project writes them as text, and the report's ``etdump`` is the file
            that they make, for the Inspector; its times are instructions.

    Raises:
        InvalidArgumentError: No such target; not a program; a delegate, or a kernel that microcontrollers have not; a
            part for another NPU than the target's; a bundle without test cases for the method, or inputs beside it.
        InvalidStateError: Another call writes or builds in the folder.
        InternalError: The tools are there and the build or the run failed; the message has their output.
    """
    if target not in TARGETS:
        raise InvalidArgumentError(f"no target {target!r}; there are {', '.join(TARGETS)}")
    if cost and (not TARGETS[target].is_bare or not TARGETS[target].emulator() or not measure):
        raise InvalidArgumentError(
            f"cost needs a run in an emulator, which counts instructions; {target} has none here"
        )
    data = program_bytes(program)
    cases = 0
    if data[4:8] == b"BP08":
        if inputs is not None:
            raise InvalidArgumentError("a bundle has inputs of its own: give a .pte with inputs, or a .bpte without")
        model, arenas, cases, whole = _bundled(data, method, strip, tolerance)
    else:
        model, arenas = _model(_stripped(data) if strip else data, method, inputs)
        whole = data
    require_accelerator(model.data, TARGETS[target])
    pools = Pools(_GENEROUS.method, _GENEROUS.temp, arenas, _GENEROUS.events if etdump else 0)

    def written(place: Path) -> FirmwareReport:
        report = _write(Project(place, TARGETS[target]), model, pools, measure, cases)
        if cost and report.run is not None:
            report = replace(report, cost=_counted(report, layers_of(whole, method)))
        return report

    with only_writer(Path(folder)):
        own = Project(Path(folder), TARGETS[target])
        kept = own.changed_files()
        if not kept:
            return written(own.folder)
        # The emulator has neither the user's board nor what their program waits for.
        with tempfile.TemporaryDirectory() as elsewhere:
            report = replace(written(Path(elsewhere)), folder=own.folder, kept=kept)
            if report.etdump is not None:
                report = replace(report, etdump=Path(shutil.copy(report.etdump, own.folder)))
        origin = "More than it needs: not measured." if report.run is None else "Measured in a project without changes."
        own.write(model, report.pools, origin, report.run.plain_kernels if report.run is not None else None)
        own.write_readme(str(report))
        return report


def _counted(report: FirmwareReport, layers: list[LayerCost]) -> tuple[LayerCost, ...]:
    """The layers with instructions, from an image that looks at the clock around each of them."""
    project = Project(report.folder, report.target)
    return with_counts(layers, run(project, build(project, ["-DEXECUTORCH_COST=ON"], "build-cost")).counts())


def _write(project: Project, model: Model, pools: Pools, measure: bool, cases: int) -> FirmwareReport:
    """Writes the project, measures it if that is wanted and possible, and writes it with its own sizes."""
    project.write(model, pools, "More than it needs: not measured.")
    missing = tuple(missing_tools(project.target))
    image, measured, etdump = None, None, None
    if measure and not missing:
        elf = build(project)
        measured = run(project, elf)
        plain_kernels = measured.plain_kernels
        origin = f"Measured {'here' if project.target.is_host else 'in the emulator'}."
        # Once with the kernels that are needed, which takes less memory than all of them, and once with that memory.
        while (used := measured.pools(pools.arenas)) != pools:
            if used.method > pools.method or used.temp > pools.temp or used.events > pools.events:
                raise InternalError(f"another run used more memory: {measured.text}")
            pools = used
            project.write(model, pools, origin, plain_kernels=plain_kernels)
            elf = build(project)
            measured = run(project, elf)
        image = image_of(elf, project.target) if project.target.is_bare else None
        if pools.events:
            etdump = project.folder / "run.etdp"
            etdump.write_bytes(measured.etdump)
    report = FirmwareReport(
        project.folder, project.target, len(model.file), pools, image, measured, missing,
        is_compared=bool(model.outputs) or (cases > 0 and not _absent_backends(model.data, model.method)),
        num_cases=cases, etdump=etdump, overlaps_save=Plan(model.data, model.method).saved_by_overlaps(),
    )  # fmt: skip
    project.write_readme(str(report))
    return report
