"""Compiles a TOSA payload for an Ethos-U with Vela, and reports what Vela expects of it.

>>> compiled = compile_payload(payload, VelaOptions("ethos-u55-128"))  # doctest: +SKIP
>>> print(compiled.report)  # operators, memory, cycles a layer  # doctest: +SKIP

The result's payload is that of the published backend id ``EthosUBackend``: blocks of a name, a size and bytes. Cycles
are Vela's **estimates**; nothing here has run on silicon.
"""

from __future__ import annotations

import csv
import json
import re
import struct
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidArgumentError
from executorch_py.exir.backend.compile_spec_schema import CompileSpec

from .accelerators import ACCELERATORS
from .environment import BAD_OPTION, run_worker, tools_python

BACKEND_ID = "EthosUBackend"

# What the published flow gives where the caller does not: family -> system configuration, memory mode.
_DEFAULTS = {
    "ethos-u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "ethos-u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "ethos-u85": ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}


class VelaRefused(RuntimeError):
    """Vela does not compile the payload. The message is Vela's reason, for a partitioner's report."""


@dataclass(frozen=True)
class VelaOptions:
    """What Vela compiles for.

    Attributes:
        accelerator: One of ``ACCELERATORS``.
        system_config: Clocks and bandwidths, a section of ``config``; "" takes the family's default.
        memory_mode: Which memory holds what, a section of ``config``; "" takes the family's default.
        config: An .ini file of Vela's, or one that comes with it.
        extra_flags: Other options of Vela's command line.
    """

    accelerator: str
    system_config: str = ""
    memory_mode: str = ""
    config: str = "Arm/vela.ini"
    extra_flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.accelerator not in ACCELERATORS:
            raise InvalidArgumentError(f"accelerator '{self.accelerator}' is none of {', '.join(ACCELERATORS)}")
        for name in (self.system_config, self.memory_mode, self.config, *self.extra_flags):
            if any(character.isspace() for character in name):
                raise InvalidArgumentError(
                    f"an option of Vela has a blank: '{name}'; compile specs hold it as one word"
                )

    def flags(self) -> list[str]:
        """Vela's command line, as the published compile spec ``compile_flags`` has it."""
        system, memory = _DEFAULTS[self.accelerator.rpartition("-")[0]]
        return [
            f"--accelerator-config={self.accelerator}",
            f"--config={self.config}",
            "--output-format=raw",
            f"--system-config={self.system_config or system}",
            f"--memory-mode={self.memory_mode or memory}",
            *self.extra_flags,
        ]

    @classmethod
    def from_compile_specs(cls, specs: Iterable[CompileSpec]) -> VelaOptions:
        """The options that compile_specs() wrote.

        Raises:
            InvalidArgumentError: There is no spec "compile_flags", or it names no accelerator that is known.
        """
        given = {spec.key: bytes(spec.value).decode() for spec in specs}
        flags = dict(flag.partition("=")[::2] for flag in given.get("compile_flags", "").split())
        flags.pop("--output-format", None)
        names = ("accelerator-config", "system-config", "memory-mode", "config")
        accelerator, system, memory, config = (flags.pop(f"--{name}", "") for name in names)
        extra = tuple(f"{flag}={value}" if value else flag for flag, value in flags.items())
        return cls(accelerator, system, memory, config or cls.config, extra)

    def compile_specs(self) -> list[tuple[str, bytes]]:
        """Keys and values with their published names."""
        return [
            ("compile_flags", " ".join(self.flags()).encode()),
            ("output_format", b"vela"),
            ("target", self.accelerator.encode()),
        ]


@dataclass(frozen=True)
class Layer:
    """One operator as Vela schedules it.

    Attributes:
        name: The tensor that it makes, a name of the payload.
        operator: Vela's word for it.
        target: "NPU" or "CPU".
        cycles: Estimated.
        macs: Multiplications.
        source: The location of the payload's operator: where in the model it comes from.
    """

    name: str
    operator: str
    target: str
    cycles: int
    macs: int
    source: str


@dataclass(frozen=True)
class Report:
    """What Vela says of a compiled payload. Sizes in KiB; cycles and times are estimates."""

    accelerator: str
    clock_hz: float
    sram_kib: float
    dram_kib: float
    flash_kib: float
    cycles: int
    layers: tuple[Layer, ...] = field(default=())

    @property
    def duration_ms(self) -> float:
        return self.cycles / self.clock_hz * 1e3

    def on(self, target: str) -> int:
        """How many layers run on "NPU" or "CPU"."""
        return sum(layer.target == target for layer in self.layers)

    def __str__(self) -> str:
        rows = [
            f"{self.accelerator}: {self.cycles} cycles = {self.duration_ms:.3f} ms at {self.clock_hz / 1e6:.0f} MHz "
            "(Vela's estimate, not measured)",
            f"SRAM {self.sram_kib:.2f} KiB, DRAM {self.dram_kib:.2f} KiB, flash {self.flash_kib:.2f} KiB; "
            f"{self.on('NPU')} operators on the NPU, {self.on('CPU')} on the CPU",
            f"{'cycles':>10} {'ms':>8} {'MACs':>11} {'on':3} operator, result, line (none: a copy of Vela's own)",
        ]
        for layer in self.layers:
            ms = layer.cycles / self.clock_hz * 1e3
            where = f"  {layer.source}" if layer.source else ""
            rows.append(
                f"{layer.cycles:10} {ms:8.4f} {layer.macs:11} {layer.target:3} {layer.operator} {layer.name}{where}"
            )
        return "\n".join(rows)


@dataclass(frozen=True)
class Compiled:
    """A payload for ``EthosUBackend`` and what Vela reports of it."""

    payload: bytes
    report: Report


def compile_payload(payload: bytes, options: VelaOptions, python: str | Path | None = None) -> Compiled:
    """Compiles a TOSA payload.

    Args:
        payload: A TOSA 1.0 FlatBuffer of the integer profile.
        options: For which accelerator.
        python: A Python that has ethos-u-vela; see ``environment.tools_python``.

    Raises:
        ToolsMissing: There is no environment with Vela.
        InvalidArgumentError: Vela has no such option, or its configuration no such system or memory mode.
        VelaRefused: Vela does not take it.
    """
    interpreter = tools_python("ethosu", python)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "graph.tosa").write_bytes(payload)
        done = run_worker(interpreter, "vela_worker.py", [folder, *options.flags()])
        if done.returncode == BAD_OPTION:
            raise InvalidArgumentError(done.stderr.strip().rpartition("\n")[2])  # behind how Vela is called
        if done.returncode != 0 or not (folder / "compiled.json").exists():
            raise VelaRefused(_reason(done.stdout + done.stderr, options.accelerator))
        described = json.loads((folder / "compiled.json").read_text())
        blocks = _blocks(described, *((folder / file).read_bytes() for file in ("cmd_data", "weight_data")))
        return Compiled(b"".join(blocks), _report(folder, options.accelerator, described["sources"]))


def _reason(log: str, accelerator: str) -> str:
    """The lines of Vela's log that say why."""
    said = [line.strip() for line in log.splitlines() if line.strip()]
    first = next((i for i, line in enumerate(said) if "rror:" in line or "nsupported" in line), max(0, len(said) - 3))
    return f"Vela refuses the payload for {accelerator}: {' '.join(said[first:])[:1000] or 'it says nothing'}"


def _block(name: str, data: bytes) -> bytes:
    """A block of the published stream: name, size, and bytes up to a multiple of 16."""
    return struct.pack("<16sI12x", name.encode(), len(data)) + data + bytes(-len(data) % 16)


def _blocks(described: dict[str, Any], commands: bytes, weights: bytes) -> Iterator[bytes]:
    yield _block("vela_bin_stream", b"")
    yield _block("cmd_data", commands)
    yield _block("weight_data", weights)
    yield _block("scratch_size", struct.pack("<I", described["scratch_size"]))
    for kind in ("inputs", "outputs"):
        rows = described[kind]  # shape [6], bytes of an element, offset, region
        yield _block(kind, struct.pack("<i", len(rows)) + b"".join(struct.pack("<9i", *row) for row in rows))
    yield _block("vela_end_stream", b"")


def _report(folder: Path, accelerator: str, sources: dict[str, str]) -> Report:
    (summary,) = csv.DictReader(next(folder.glob("graph_summary_*.csv")).read_text().splitlines())
    layers = tuple(
        Layer(
            name=row["Name"],
            operator=row["Original Operator"],
            target=row["Target"],
            cycles=int(float(row["Op Cycles"])),
            macs=int(float(row["MAC Count"])),
            source=re.sub(r"^\d+ ", "", sources.get(row["Name"], "")),  # without the debug handle
        )
        for row in csv.DictReader((folder / "graph_per-layer.csv").read_text().splitlines())
    )
    return Report(
        accelerator=accelerator,
        clock_hz=float(summary["core_clock"]),
        sram_kib=float(summary["sram_memory_used"]),
        dram_kib=float(summary["dram_memory_used"]),
        flash_kib=float(summary["on_chip_flash_memory_used"]) + float(summary["off_chip_flash_memory_used"]),
        cycles=int(float(summary["cycles_total"])),
        layers=layers,
    )
