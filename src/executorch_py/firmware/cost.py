"""What an inference costs, layer by layer: instructions of the target, bytes moved, flash and RAM, with source lines.

For: finding the layer that is worth work. Not for: energy. Nothing here measures it; instructions and bytes moved stand
in for it, and they weigh differently on each chip.

    report = write_firmware("model.pte", "firmware", "cortex-m4", cost=True)
    for layer in report.cost:
        print(layer.kernel, layer.instructions, layer.line)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from executorch_py.codegen.flatbuffer import read_root
from executorch_py.text_table import aligned

from .plan import Plan

__all__ = ["LayerCost", "cost_text", "layers_of"]


@dataclass(frozen=True)
class LayerCost:
    """One instruction of a program.

    Attributes:
        instruction: Its place.
        kernel: What it calls.
        instructions: Of the target, counted in the emulator; 0: not counted.
        moved_bytes: Of the tensors that it reads and writes, each once.
        flash_bytes: Of those, what stands in the file: weights.
        ram_bytes: Of all tensors that are alive then in planned memory.
        module: Path of the module it came from; "" where the file does not say.
        line: File and line of Python; "" where the file does not say.
    """

    instruction: int
    kernel: str
    instructions: int
    moved_bytes: int
    flash_bytes: int
    ram_bytes: int
    module: str
    line: str


def layers_of(data: bytes, method: str = "forward") -> list[LayerCost]:
    """The instructions of a method of a verified program, without what a target takes for them."""
    plan, origins = Plan(data, method), origins_of(data, method)
    used = [[plan.tensors[t] for t in found] for found in plan.used]
    return [
        LayerCost(
            i,
            call.kernel,
            0,
            sum(one.nbytes for one in used[i]),
            sum(one.nbytes for one in used[i] if one.is_constant),
            plan.alive_bytes(i),
            *origins.get(i, ("", "")),
        )
        for i, call in enumerate(plan.calls)
    ]


def origins_of(data: bytes, method: str) -> dict[int, tuple[str, str]]:
    """Instruction -> module and line, from the file's debug information (src/cpp/schema/debug_info.fbs)."""
    root = read_root(data, b"ET12")
    entry = next((one for one in root.tables(7) if one.text(0) == "executorch_py.debug"), None)
    if entry is None or data[8:12] != b"eh00":
        return {}
    segment = root.tables(4)[entry.scalar(1, "I")]
    start = struct.unpack_from("<Q", data, 24)[0] + segment.scalar(0, "Q")
    debug = read_root(data[start : start + segment.scalar(1, "Q")], b"EPDI")
    own = next((one for one in debug.tables(2) if one.text(0) == method), None)
    if own is None or debug.scalar(0, "I") != 1:
        return {}
    strings, numbers, at = debug.texts(1), list(_unpacked(own.raw(3))), 0
    found: dict[int, tuple[str, str]] = {}
    while at + 7 <= len(numbers):
        _, _, module, file, line, _, num_handles = numbers[at : at + 7]
        found[len(found)] = (strings[module], f"{strings[file]}:{line}" if line else "")
        at += 7 + num_handles
    return found


def _unpacked(data: bytes) -> Iterator[int]:
    """Numbers in groups of 7 bits, the lowest first, each but the last + 128."""
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def with_counts(layers: list[LayerCost], counts: Mapping[int, int]) -> tuple[LayerCost, ...]:
    """The layers with the instructions that a target took for each."""
    return tuple(replace(layer, instructions=counts.get(layer.instruction, 0)) for layer in layers)


def cost_text(layers: tuple[LayerCost, ...]) -> str:
    """A table, and what it does not say."""
    total = sum(layer.instructions for layer in layers) or 1
    rows = [
        (
            layer.kernel.removesuffix(".out"),
            f"{layer.instructions:,}",
            f"{100 * layer.instructions / total:.1f} %",
            f"{layer.moved_bytes:,}",
            f"{layer.flash_bytes:,}",
            f"{layer.ram_bytes:,}",
            layer.module,
            layer.line,
        )
        for layer in layers
    ]
    head = ("kernel", "instructions", "of all", "bytes moved", "of them flash", "RAM alive", "module", "line")
    note = "Instructions are the emulator's, not cycles. Nothing here measures energy."
    return "\n".join(["cost of an inference by layer", *aligned(head, rows, right=range(1, 6), widest=60), note])
