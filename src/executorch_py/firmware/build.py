"""Builds a firmware project with the tools of this machine, runs it in the emulator, and reads its figures."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from executorch_py.errors import InternalError, NotFoundError, NotSupportedError

from .project import Pools
from .targets import Target

_SECONDS = 600


@dataclass(frozen=True)
class Image:
    """Bytes of a linked program by where they go."""

    code: int  # code and constants in flash, without the model and its examples
    data: int  # initialised and zeroed data in RAM: pools, arena and the program's own
    text: int  # of code: functions
    rodata: int  # of code: constants and tables
    initialised: int  # of data, and of code as well, which holds its values
    bss: int  # of data: zeroed

    def __str__(self) -> str:
        return f"flash {self.code:,} bytes beside the model, RAM {self.data:,} bytes beside the stack"


@dataclass(frozen=True)
class Run:
    """What a run printed."""

    load_instructions: int
    load_stack: int
    instructions: int
    stack: int
    method_bytes: int
    temp_bytes: int
    plain_kernels: frozenset[str]  # names of kernels that the instructions got for want of a faster one
    matches: bool  # every output is what is expected
    text: str
    event_bytes: int = 0  # of the tracer's buffer
    etdump: bytes = b""  # the file that the tracer wrote

    def pools(self, arenas: tuple[int, ...]) -> Pools:
        """The memory that it used."""
        return Pools(self.method_bytes, self.temp_bytes, arenas, self.event_bytes)

    def counts(self) -> dict[int, int]:
        """Place of an instruction of the program -> instructions of the target, where it was built for that."""
        return {int(i): int(n) for i, n in re.findall(r"^cost: (\d+) (\d+)$", self.text, re.MULTILINE)}


def missing_tools(target: Target) -> list[str]:
    """Programs that building and running for this target needs and that are not installed."""
    wanted = ["cmake", "ninja", target.compiler, *target.emulator()[:1]]
    return [tool for tool in wanted if shutil.which(tool) is None]


def _run(command: list[str], what: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise NotFoundError(f"{what}: {command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise InternalError(f"{what} took more than {_SECONDS} s: {' '.join(command)}") from None
    if done.returncode != 0:
        raise InternalError(
            f"{what} ended with {done.returncode}: {' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout


class Buildable(Protocol):
    """A folder with a CMakeLists.txt for a target, and the name of the program that it makes."""

    @property
    def folder(self) -> Path: ...
    @property
    def target(self) -> Target: ...
    @property
    def program(self) -> str: ...


def build(project: Buildable, options: Sequence[str] = (), folder: str = "build") -> Path:
    """Configures and compiles in a folder of the project; returns its program.

    Raises:
        NotFoundError: A tool is not installed.
        InternalError: The build failed; the message ends with the compiler's.
    """
    place = project.folder / folder
    configure = ["cmake", "-S", str(project.folder), "-B", str(place), "-G", "Ninja", *options]
    _run(configure, "configuring the firmware")
    _run(["cmake", "--build", str(place)], "building the firmware")
    return place / project.program


def image_of(elf: Path, target: Target) -> Image:
    """Sizes of the sections of a program, without the model and its examples."""
    prefix = "" if target.is_host else "arm-none-eabi-"
    text = _run([f"{prefix}size", "-A", str(elf)], "reading section sizes")
    sizes = {name: int(size) for name, size in re.findall(r"^(\.[\w.]+)\s+(\d+)", text, re.MULTILINE)}
    symbols = _run([f"{prefix}nm", "-S", "-C", str(elf)], "reading symbols")
    examples = sum(
        int(size, 16)
        for size in re.findall(r"^\w+ (\w+) \w firmware::.*::k(?:Input|Output)\d+$", symbols, re.MULTILINE)
    )
    rodata = sizes.get(".rodata", 0) + sizes.get(".ARM.exidx", 0) + sizes.get(".data.rel.ro", 0) - examples
    initialised, bss = sizes.get(".data", 0), sizes.get(".bss", 0)
    code = sizes.get(".text", 0) + rodata + initialised
    return Image(code, initialised + bss, sizes.get(".text", 0), rodata, initialised, bss)


def run(project: Buildable, elf: Path) -> Run:
    """Runs the program, in the emulator where the target is not this machine.

    Raises:
        NotSupportedError: There is no emulated board for the target.
        InternalError: The program stopped with an error; the message ends with what it printed.
    """
    emulator = project.target.emulator()
    if not emulator and not project.target.is_host:
        raise NotSupportedError(f"no emulated board for {project.target.name}; run {elf} on a board")
    done = subprocess.run(
        [*emulator, str(elf)], capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    text = done.stdout + done.stderr
    found = re.search(
        r"load: instructions (\d+), stack (\d+)\n(?:cost: \d+ \d+\n)*execute: instructions (\d+), stack (\d+)\n"
        r"memory: model \d+, arena \d+, method (\d+), temp (\d+)\n",
        text,
    )
    if found is None:
        raise InternalError(f"the firmware ended with {done.returncode} and said: {text.strip()[-2000:] or 'nothing'}")
    load, load_stack, instructions, stack, method, temp = map(int, found.groups())
    plain = frozenset(re.findall(r"^plain kernel: (\S+)$", text, re.MULTILINE))
    events = re.search(r"^events: (\d+) bytes$", text, re.MULTILINE)
    return Run(
        load, load_stack, instructions, stack, method, temp, plain, matches=done.returncode == 0, text=text,
        event_bytes=int(events[1]) if events else 0,
        etdump=bytes.fromhex("".join(re.findall(r"^etdump: ([0-9a-f]+)$", text, re.MULTILINE))),
    )  # fmt: skip
