"""ETDumps for tests, written without a runtime: what each instruction did, run by run."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import torch

from executorch_py.codegen.flatbuffer import Aligned, Numbers, Scalar, encode
from executorch_py.graphs.dtypes import dtype_code


class Dump:
    """Collects events; ``data`` is the file and ``buffer`` the values beside it."""

    def __init__(self) -> None:
        self.runs: list[dict[int, Any]] = []
        self.buffer = b""
        self._now = 1000

    def run(self, name: str = "Execute", bundled: int = -1) -> None:
        """Begins another run."""
        self.runs.append({0: name, 1: Scalar("i", bundled), 2: [], 3: []})

    def span(
        self,
        name: str,
        duration: int,
        instruction: int | None = None,
        delegate: int | str | None = None,
        metadata: bytes = b"",
    ) -> None:
        """A span of time; without an instruction, one of the framework."""
        self.runs[-1][3].append(
            {
                0: {
                    0: name if delegate is None else None,
                    1: Scalar("i", -1 if instruction is None else 0),
                    2: Scalar("i", instruction or 0),
                    3: Scalar("i", delegate if isinstance(delegate, int) else -1),
                    4: delegate if isinstance(delegate, str) else None,
                    5: Aligned(metadata),
                    6: Scalar("Q", self._now),
                    7: Scalar("Q", self._now + duration),
                }
            }
        )
        self._now += duration

    def value(self, value: torch.Tensor, instruction: int | None = None, delegate: int | str | None = None) -> None:
        """A value; without an instruction, an output of the method."""
        tensor = {
            0: Scalar("b", dtype_code(value.dtype)),
            1: Numbers("q", list(value.shape)),
            2: Numbers("q", list(value.stride())),
            3: Scalar("q", len(self.buffer)),
        }
        storage = value.detach().contiguous().reshape(-1)
        self.buffer += storage.view(torch.uint8).numpy().tobytes() if value.numel() else b""
        entry = {0: Scalar("B", 5), 1: tensor, 7: {0: Scalar("?", True)} if instruction is None else None}
        self.runs[-1][3].append(
            {
                2: {
                    0: Scalar("q", -1 if instruction is None else 0),
                    1: Scalar("i", instruction or 0),
                    2: entry,
                    3: Scalar("i", delegate if isinstance(delegate, int) else -1),
                    4: delegate if isinstance(delegate, str) else None,
                }
            }
        )

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        body = encode(b"ED00", {0: Scalar("I", 0), 1: self.runs})
        return struct.pack("<I", len(body)) + body


def executions(kernels: Sequence[str], runs: Sequence[Sequence[int]], values: Sequence[torch.Tensor] = ()) -> Dump:
    """A dump of a program's executions: ``runs[i][k]`` is the time of instruction ``k`` in run ``i``, in ns."""
    dump = Dump()
    dump.run("Default")
    dump.span("Method::init", 50)
    dump.span("Program::load_method", 70)
    for times in runs:
        dump.run()
        for index, (kernel, time) in enumerate(zip(kernels, times, strict=True)):
            if values:
                dump.value(values[index], index)
            name = kernel.rpartition("::")[2]
            dump.span(f"native_call_{name}", time, index)
            dump.span("OPERATOR_CALL", time + 1, index)
        dump.span("Method::execute", sum(times) + len(times))
        if values:
            dump.value(values[-1])
    return dump
