"""What an inference costs, layer by layer: instructions of the target, bytes moved, flash and RAM, with source lines.

For: finding the layer that is worth work. Not for: energy. Nothing here measures it; instructions and bytes moved stand
in for it, and they weigh differently on each chip.

    report = write_firmware("model.pte", "firmware", "cortex-m4", cost=True)
    for layer in report.cost:
        print(layer.kernel, layer.instructions, layer.line)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from executorch_py.codegen.flatbuffer import Table, read_root
from executorch_py.element_types import ScalarType, item_size
from executorch_py.text_table import aligned

__all__ = ["LayerCost", "cost_text", "layers_of"]

# Members of the unions of program.fbs.
_TENSOR, _LISTS, _KERNEL_CALL = 5, (10, 11), 1


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


@dataclass(frozen=True)
class _Tensor:
    nbytes: int
    is_constant: bool
    place: tuple[int, int] | None  # memory and offset in it, where it is planned


def _tensor_of(table: Table) -> _Tensor:
    width = item_size(ScalarType(table.scalar(0, "b")))
    planned = table.table(6)
    place = (
        None if planned is None else (planned.scalar(0, "I"), planned.scalar(1, "I") + (planned.scalar(2, "I") << 32))
    )
    return _Tensor(prod(table.numbers(2)) * width, table.scalar(5, "I") > 0 and place is None, place)


def _occupied(tensors: Iterable[_Tensor]) -> int:
    """Bytes of planned memory that these take together; views take none of their own."""
    total, end, memory = 0, 0, 0
    for (where, start), nbytes in sorted((one.place, one.nbytes) for one in tensors if one.place is not None):
        end = end if where == memory else 0
        total += max(start + nbytes - max(start, end), 0)
        end, memory = max(end, start + nbytes), where
    return total


def layers_of(data: bytes, method: str = "forward") -> list[LayerCost]:
    """The instructions of a method of a verified program, without what a target takes for them."""
    root = read_root(data, b"ET12")
    plan = next(plan for plan in root.tables(1) if plan.text(0) == method)
    values = plan.tables(2)
    tensors = {
        i: _tensor_of(content)
        for i, value in enumerate(values)
        if value.scalar(0, "B") == _TENSOR and (content := value.table(1)) is not None
    }

    def named(arguments: list[int]) -> Iterator[int]:
        for i in arguments:
            if i in tensors:
                yield i
            elif 0 <= i < len(values) and values[i].scalar(0, "B") in _LISTS:
                content = values[i].table(1)
                yield from (item for item in (content.numbers(0) if content else ()) if item in tensors)

    calls = [(one.scalar(0, "B"), one.table(1)) for chain in plan.tables(5)[:1] for one in chain.tables(2)]
    used = [set(named(call.numbers(1))) if kind == _KERNEL_CALL and call else set() for kind, call in calls]
    lives = _lives(used, plan)
    names = [op.text(0) + (f".{op.text(1)}" if op.text(1) else "") for op in plan.tables(6)]
    origins = origins_of(data, root, method)
    return [
        LayerCost(
            i,
            names[call.scalar(0, "i")] if kind == _KERNEL_CALL and call else "",
            0,
            sum(tensors[t].nbytes for t in used[i]),
            sum(tensors[t].nbytes for t in used[i] if tensors[t].is_constant),
            _occupied(tensors[t] for t, (first, last) in lives.items() if first <= i <= last),
            *origins.get(i, ("", "")),
        )
        for i, (kind, call) in enumerate(calls)
    ]


def _lives(used: list[set[int]], plan: Table) -> dict[int, tuple[int, int]]:
    """Tensor -> the first and the last instruction that names it; inputs live from the start, outputs to the end."""
    lives: dict[int, tuple[int, int]] = {}
    for i, found in enumerate(used):
        for t in found:
            lives[t] = (lives.get(t, (i, i))[0], i)
    for t in plan.numbers(3):
        lives |= {t: (0, lives[t][1])} if t in lives else {}
    for t in plan.numbers(4):
        lives |= {t: (lives[t][0], len(used) - 1)} if t in lives else {}
    return lives


def origins_of(data: bytes, root: Table, method: str) -> dict[int, tuple[str, str]]:
    """Instruction -> module and line, from the file's debug information (src/cpp/schema/debug_info.fbs)."""
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
