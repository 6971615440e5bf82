"""What came of a build: its sizes, and beside them those of the interpreter with the same model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from executorch_py.firmware.build import Image, Run, image_of
from executorch_py.firmware.targets import Target

from .comparison import Comparison
from .project import NativeProject

__all__ = ["NativeReport", "measured"]


@dataclass(frozen=True)
class NativeReport:
    """What was written, and what was measured of it.

    `image` and `run` are None where nothing was run; `missing` names tools that are not installed.
    """

    folder: Path
    target: Target
    name: str
    weight_bytes: int
    tensor_bytes: int
    image: Image | None
    run: Run | None
    missing: tuple[str, ...]
    comparison: Comparison | None = None

    @property
    def matches(self) -> bool:
        """False where outputs were compared, and differ."""
        return (self.run is None or self.run.matches) and (self.comparison is None or self.comparison.equal)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs: bytes and instructions; None where nothing was measured."""
        return {
            "folder": str(self.folder),
            "target": self.target.name,
            "name": self.name,
            "weight_bytes": self.weight_bytes,
            "tensor_bytes": self.tensor_bytes,
            "missing": list(self.missing),
            "image": asdict(self.image) if self.image else None,
            "outputs_match": self.run.matches if self.run else None,
            "comparison": asdict(self.comparison) if self.comparison else None,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.folder}: {self.name}.h, {self.name}.cpp for {self.target.name} ({self.target.board}"
            + (", plain kernels)" if self.target.is_host else ")"),
            f"  weights  {self.weight_bytes:>10,} bytes",
            f"  tensors  {self.tensor_bytes:>10,} bytes",
        ]
        if self.run is None:
            reason = f": {', '.join(self.missing)} is not installed" if self.missing else ""
            return "\n".join([*lines, f"  not run{reason}"])
        lines.append(f"  scratch  {self.run.temp_bytes:>10,} bytes")
        if self.image is not None:
            lines += [
                f"  code     {self.image.code:>10,} bytes beside the weights",
                f"  data     {self.image.data:>10,} bytes of RAM beside the stack",
            ]
        if not self.target.is_host:
            lines += [
                f"  stack    {self.run.stack:>10,} bytes",
                f"  start    {self.run.load_instructions:>10,} instructions",
                f"  execute  {self.run.instructions:>10,} instructions",
            ]
        lines.append(f"  outputs  {'as on the host' if self.run.matches else 'DIFFER from the host'}")
        return "\n".join([*lines, *([str(self.comparison)] if self.comparison else [])])


def measured(
    project: NativeProject, run: Run | None, missing: tuple[str, ...], comparison: Comparison | None = None
) -> NativeReport:
    """The report of a project that was written, and run where ``run`` is given."""
    elf = project.folder / "build" / project.program
    image = image_of(elf, project.target) if run is not None else None
    return NativeReport(
        project.folder, project.target, project.name, len(project.layout.weights),
        sum(project.layout.arrays.values()), image, run, missing, comparison,
    )  # fmt: skip
