"""Firmware projects: a model, its kernels and the runtime as one folder that a microcontroller's tools build.

For: people who put a `.pte` on a board. Not for: the boards' drivers; a project's main.cpp is where a product begins.

    from executorch_py.firmware import write_firmware

    report = write_firmware("model.pte", "firmware", target="cortex-m55")
    print(report)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from executorch_py import _core
from executorch_py.codegen.flatbuffer import DamagedError
from executorch_py.codegen.pte_stripping import stripped
from executorch_py.element_types import ScalarType, torch_name
from executorch_py.errors import InternalError, InvalidArgumentError, NotSupportedError
from executorch_py.method_metadata import TensorInfo
from executorch_py.runtime import Runtime

from .backends import backends_of, require_accelerator
from .build import Image, Run, build, image_of, missing_tools, run
from .project import Model, Pools, Project, only_writer
from .targets import TARGETS, Target

__all__ = ["TARGETS", "FirmwareReport", "Target", "write_firmware"]

#: What a model is first loaded with, to see what it needs; the examples in QEMU have more.
_GENEROUS = Pools(method=128 << 10, temp=96 << 10, arenas=())


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

    def as_dict(self) -> dict[str, Any]:
        """The same for programs: bytes and instructions; None where nothing was measured."""
        told: dict[str, Any] = {
            "folder": str(self.folder),
            "target": self.target.name,
            "model_bytes": self.model_bytes,
            "arena_bytes": sum(self.pools.arenas),
            "missing": list(self.missing),
            "compared": self.is_compared,
            "image": asdict(self.image) if self.image else None,
            "run": {**asdict(self.run), "plain_kernels": sorted(self.run.plain_kernels)} if self.run else None,
        }
        return told

    def __str__(self) -> str:
        lines = [
            f"{self.folder}: firmware for {self.target.name} ({self.target.board})",
            f"  model    {self.model_bytes:>10,} bytes",
            f"  arena    {sum(self.pools.arenas):>10,} bytes",
        ]
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
        if not self.is_compared:
            lines.append("  outputs  not compared: no NPU ran here, a stub checked what it would get and gave zeros")
        else:
            lines.append(f"  outputs  {'as on the host' if self.run.matches else 'DIFFER from the host'}")
        return "\n".join(lines)


def _bytes_of(program: Any) -> bytes:
    if isinstance(program, (bytes, bytearray, memoryview)):
        return bytes(program)
    if isinstance(program, (str, os.PathLike)):
        return Path(program).read_bytes()
    buffer = getattr(program, "buffer", None)
    if buffer is None:
        raise InvalidArgumentError(
            f"program is a {type(program).__name__}, must be a path, bytes or what to_executorch() returns"
        )
    return bytes(buffer)


def _example(info: TensorInfo) -> np.ndarray[Any, Any]:
    """Numbers of both signs; zeros for indices, which are always in range."""
    dtype = info.dtype()
    count = int(np.prod(info.sizes(), dtype=np.int64))
    wave = np.sin(np.arange(count) * 0.37).reshape(info.sizes())
    if dtype is ScalarType.BFloat16:
        raise NotSupportedError("example inputs cannot be made up for torch.bfloat16: give them")
    kind = np.dtype(torch_name(dtype))
    if kind.kind == "f":
        return wave.astype(kind)
    if kind.itemsize == 1 and kind.kind in "iu":
        limits = np.iinfo(kind)
        return ((wave + 1) / 2 * (limits.max - limits.min) + limits.min).astype(kind)
    return np.zeros(info.sizes(), kind)


def _raw(value: Any, dim_order: Sequence[int]) -> bytes:
    """The bytes of a tensor as they lie in memory."""
    array = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
    return np.ascontiguousarray(array.transpose(dim_order)).tobytes()


def _model(data: bytes, name: str, inputs: Sequence[Any] | None) -> tuple[Model, tuple[int, ...]]:
    """The model with example inputs and what this machine computes from them; and the sizes of its planned buffers."""
    backends_of(data)  # refuses delegates that firmware has not
    program = Runtime.get().load_program(data)
    meta = program.metadata(name)
    arenas = tuple(meta.planned_buffer_sizes())
    missing = [backend for backend in meta.backends() if not _core.is_backend_available(backend)]
    if missing:  # a device that only the target has
        values = [meta.input_tensor_meta(i) for i in range(meta.num_inputs()) if meta.input_kind(i) == "Tensor"]
        if len(values) != meta.num_inputs():
            raise NotSupportedError(f"method {name!r} for {', '.join(missing)} takes numbers; give it tensors only")
        given = [_raw(x, info.dim_order()) for x, info in zip(inputs or map(_example, values), values, strict=True)]
        return Model(data, name, given, []), arenas
    method = program.load_method(name)
    infos = [meta.input_tensor_meta(i) if meta.input_kind(i) == "Tensor" else None for i in range(meta.num_inputs())]
    if inputs is None:
        inputs = [_example(info) if info else method._core.input_value(i) for i, info in enumerate(infos)]
    outputs = method.execute(list(inputs))
    results = []
    for i, value in enumerate(outputs):
        if meta.output_kind(i) != "Tensor":
            raise NotSupportedError(f"output {i} of method {name!r} is a {meta.output_kind(i)}, must be a Tensor")
        results.append(_raw(value, meta.output_tensor_meta(i).dim_order()))
    given = [_raw(value, info.dim_order()) if info else b"" for value, info in zip(inputs, infos, strict=True)]
    return Model(data, name, given, results), arenas


def write_firmware(
    program: Any,
    folder: str | os.PathLike[str],
    target: str = "cortex-m55",
    *,
    method: str = "forward",
    inputs: Sequence[Any] | None = None,
    strip: bool = True,
    measure: bool = True,
) -> FirmwareReport:
    """Writes a project that runs one method of a program on a board, and measures it where the tools are installed.

    The project has the model as an array in flash, the kernels that it calls for the element types that it has, static
    pools, a start-up, a linker script and a CMakeLists.txt. It needs no Python. Where the target's compiler and
    emulator are installed, it is built, run on the inputs, and its pools get the sizes that it used.

    Args:
        program: A `.pte` by its path or bytes, or what ``to_executorch()`` returned.
        folder: Where the project goes; ``executorch/`` in it is replaced.
        target: A name of ``TARGETS``.
        method: The method.
        measure: Build and run it where the tools are installed; without it the pools are larger than they need to be.
        strip: Leave out what only tools read: debug information and names.
        inputs: Example inputs; made up without them. The image holds them, and what this machine computes from them.

    Raises:
        InvalidArgumentError: No such target; not a program; a delegate, or a kernel that microcontrollers have not;
            a part for another NPU than the target's.
        InvalidStateError: Another call writes or builds in the folder.
        InternalError: The tools are there and the build or the run failed; the message has their output.
    """
    if target not in TARGETS:
        raise InvalidArgumentError(f"no target {target!r}; there are {', '.join(TARGETS)}")
    data = _bytes_of(program)
    if strip:
        try:
            data = stripped(data)[0]
        except DamagedError as error:
            raise InvalidArgumentError(f"not a .pte file: {error}") from None
    require_accelerator(data, TARGETS[target])
    model, arenas = _model(data, method, inputs)
    with only_writer(Path(folder)):
        return _write(Project(Path(folder), TARGETS[target]), model, arenas, measure)


def _write(project: Project, model: Model, arenas: tuple[int, ...], measure: bool) -> FirmwareReport:
    """Writes the project, measures it if that is wanted and possible, and writes it with its own sizes."""
    pools = Pools(_GENEROUS.method, _GENEROUS.temp, arenas)
    project.write(model, pools, "More than it needs: not measured.")
    missing = tuple(missing_tools(project.target))
    image, measured = None, None
    if measure and not missing:
        elf = build(project)
        measured = run(project, elf)
        plain_kernels = measured.plain_kernels
        origin = f"Measured {'here' if project.target.is_host else 'in the emulator'}."
        # Once with the kernels that are needed, which takes less memory than all of them, and once with that memory.
        while (measured.method_bytes, measured.temp_bytes) != (pools.method, pools.temp):
            if measured.method_bytes > pools.method or measured.temp_bytes > pools.temp:
                raise InternalError(f"another run used more memory: {measured.text}")
            pools = Pools(measured.method_bytes, measured.temp_bytes, arenas)
            project.write(model, pools, origin, plain_kernels=plain_kernels)
            elf = build(project)
            measured = run(project, elf)
        image = None if project.target.is_host else image_of(project, elf)
    report = FirmwareReport(
        project.folder, project.target, len(model.data), pools, image, measured, missing, bool(model.outputs)
    )
    project.write_readme(str(report))
    return report
