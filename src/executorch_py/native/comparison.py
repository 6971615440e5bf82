"""The interpreter beside generated code: the same model, kernels and target, two images."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from executorch_py.errors import InternalError
from executorch_py.firmware import write_firmware
from executorch_py.firmware.build import Buildable, Image, build, image_of, run
from executorch_py.firmware.project import Project
from executorch_py.text_table import aligned

__all__ = ["Comparison", "Figures", "compared"]

_SECONDS = 600


@dataclass(frozen=True)
class Figures:
    """What one image takes. Instructions are None where they were not counted."""

    image: Image
    model_bytes: int  # of flash: the file, or the constants
    stack: int | None
    start_instructions: int | None
    instructions: int | None

    @property
    def flash(self) -> int:
        """Bytes of flash: code, constants and model."""
        return self.image.code + self.model_bytes


@dataclass(frozen=True)
class Comparison:
    """Both images; ``equal``: their outputs have the same bytes."""

    interpreter: Figures
    generated: Figures
    equal: bool
    reason: str = ""  # why instructions were not counted

    def __str__(self) -> str:
        def row(title: str, value: Any) -> tuple[str, str, str]:
            found = [value(one) for one in (self.interpreter, self.generated)]
            return title, *("-" if one is None else f"{one:,}" for one in found)  # type: ignore[return-value]

        rows = [
            row("flash", lambda one: one.flash),
            row("  functions", lambda one: one.image.text),
            row("  constants and tables", lambda one: one.image.rodata),
            row("  model", lambda one: one.model_bytes),
            row("RAM", lambda one: one.image.data),
            row("stack", lambda one: one.stack),
            row("instructions to start", lambda one: one.start_instructions),
            row("instructions of an inference", lambda one: one.instructions),
        ]
        lines = aligned(("", "interpreter", "generated"), rows, right=(1, 2))
        if self.reason:
            lines.append(f"  instructions are not counted: {self.reason}")
        lines.append(f"  outputs of both: {'the same bytes' if self.equal else 'DIFFERENT'}")
        return "\n".join(lines)


def compared(project: Buildable, weight_bytes: int, data: bytes, method: str, inputs: Sequence[Any]) -> Comparison:
    """Builds the interpreter in ``interpreter`` beside generated code that was built, and runs both.

    Raises:
        NotSupportedError: The interpreter's project has no room for an output that is a number.
        InternalError: A build or a run failed.
    """
    folder = project.folder / "interpreter"
    report = write_firmware(data, folder, project.target.name, method=method, inputs=inputs)
    other = Project(folder, project.target)
    equal = _outputs(project) == _outputs(other)
    reason = "" if not project.target.is_host or shutil.which("valgrind") else "valgrind is not installed"
    figures = []
    for one, nbytes in ((other, report.model_bytes), (project, weight_bytes)):
        elf = build(one, ["-DFIRMWARE_WRITES_OUTPUTS=OFF"])
        figures.append(_figures(one, elf, nbytes, counts=not reason))
    return Comparison(figures[0], figures[1], equal, reason)


def _outputs(project: Buildable) -> list[tuple[str, str]]:
    """The bytes of the first example's outputs."""
    text = run(project, build(project, ["-DFIRMWARE_WRITES_OUTPUTS=ON"])).text
    return re.findall(r"^bytes 0 (\d+): ([0-9a-f]*)$", text, re.MULTILINE)


def _figures(project: Buildable, elf: Path, model_bytes: int, counts: bool) -> Figures:
    image = image_of(elf, project.target)
    if project.target.is_host:
        start, instructions = _counted(elf) if counts else (None, None)
        return Figures(image, model_bytes, None, start, instructions)
    done = run(project, elf)
    return Figures(image, model_bytes, done.stack, done.load_instructions, done.instructions)


def _counted(elf: Path) -> tuple[int, int]:
    """Instructions of the start and of the first inference, by callgrind: between calls of board::instructions()."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", "--dump-before=board::instructions()",
            f"--callgrind-out-file={folder}/out", str(elf),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        totals = [
            int(found[1])
            for part in (2, 4)  # from the first call to the second, and from the third to the fourth
            if (path := Path(folder, f"out.{part}")).exists()
            and (found := re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.MULTILINE))
        ]
    if len(totals) != 2:
        raise InternalError(f"callgrind did not count {elf}: {done.stderr[-2000:]}")
    return totals[0], totals[1]
