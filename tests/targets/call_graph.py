"""The call graph of a linked image and the stack that it can take, read from the disassembly of the image itself.

For: tests of firmware. What is read is what runs, the C library's and libgcc's functions included. A frame is what a
function pushes and subtracts, wherever in it that stands. A call through a pointer may reach any function whose address
stands in the image, with one exception: kernels are called by the runtime alone, at load and at an instruction.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FUNCTION = re.compile(r"^([0-9a-f]{8}) <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t[0-9a-f ]+\t(\S+)(?:\t(.*))?$")
_LITERAL = re.compile(r"^\s*([0-9a-f]+):\t[0-9a-f ]+\t\.word\t0x([0-9a-f]+)", re.MULTILINE)
_BRANCH = re.compile(r"([0-9a-f]+) <([^>]*)>")
#: Functions that kernels' tables point at, by their arguments; and who calls those.
_KERNEL = re.compile(r"Boxed<|\(et::runtime::(Kernel|Prepare)Context&")
_NEVER_CALLED = ("reset_handler", "kVectors")  # in the vector table for the processor
_CALLS_KERNELS = ("et::runtime::Method", "(anonymous namespace)::run", "main", "start")


@dataclass
class Function:
    """One function of the image."""

    name: str
    address: int
    end: int = 0
    frame: int = 0
    unbounded: bool = False  # the stack pointer moves by what a register holds
    calls: set[int] = field(default_factory=set)
    indirect: bool = False


def _registers(text: str) -> int:
    """How many a list such as ``{r4, r5, r8-r11, lr}`` has."""
    count = 0
    for item in re.search(r"\{(.*?)\}", text)[1].split(","):  # type: ignore[index]
        first, _, last = item.strip().partition("-")
        count += int(last[1:]) - int(first[1:]) + 1 if last else 1
    return count


def _grows(name: str, operands: str) -> int | None:
    """Bytes by which an instruction moves the stack pointer down; None: by a register."""
    kind = name.removesuffix(".w")
    if kind == "push" or (kind == "stmdb" and operands.startswith("sp!")):
        return 4 * _registers(operands)
    if kind in ("vpush", "vstmdb") and (kind == "vpush" or operands.startswith("sp!")):
        return (8 if "{d" in operands else 4) * _registers(operands)
    if found := re.match(r"(?:\w+, )?\[sp, #-(\d+)\]!|\w+, \w+, \[sp, #-(\d+)\]!", operands):
        return int(found[1] or found[2])
    if kind in ("sub", "subs", "subw") and operands.startswith("sp"):
        last = operands.rsplit(", ", 1)[-1].split("\t")[0].split(" ")[0]
        return int(last[1:], 0) if last.startswith("#") else None
    return 0  # back up, or from a frame pointer


class Image:
    """A linked program's functions."""

    def __init__(self, elf: Path) -> None:
        """Reads the image with the target's binutils."""
        text = subprocess.run(
            ["arm-none-eabi-objdump", "-d", "-C", elf], capture_output=True, text=True, check=True
        ).stdout
        self.functions: dict[int, Function] = {}
        self._bodies(text)
        starts = set(self.functions)
        dump = subprocess.run(["arm-none-eabi-objdump", "-s", elf], capture_output=True, text=True, check=True).stdout
        self.taken = {
            address
            for address in _words(dump)
            if address in starts and self.functions[address].name not in _NEVER_CALLED
        }

    def _bodies(self, text: str) -> None:
        self._words = {int(at, 16): int(word, 16) for at, word in _LITERAL.findall(text)}
        self._held: dict[str, int | None] = {}  # register -> the constant that it was loaded with last
        one = None
        for line in text.splitlines():
            if found := _FUNCTION.match(line):
                one = Function(found[2], int(found[1], 16))
                self.functions[one.address] = one
            elif one is not None and (found := _INSTRUCTION.match(line)):
                one.end = int(found[1], 16)
                self._instruction(one, found[2], found[3] or "")

    def _instruction(self, one: Function, name: str, operands: str) -> None:
        grown = _grows(name, operands)
        self._hold(name.removesuffix(".w"), operands)
        if name in ("add", "add.w") and (found := re.match(r"sp,(?: sp,)? (\w+)$", operands)):
            held = self._held.get(found[1])  # small cores take large frames from a constant
            grown = None if held is None else max(0, (1 << 32) - held if held >> 31 else 0)
        one.unbounded |= grown is None
        one.frame += grown or 0
        if re.match(r"blx? ?|bx", name) and re.match(r"(?!lr)[a-z]+\d*$", operands):
            one.indirect = True
        elif name.startswith("b") and (found := _BRANCH.search(operands)):
            target, label = int(found[1], 16), found[2]
            is_call = name.startswith("bl")
            if (is_call or "+0x" not in label) and (is_call or target != one.address):
                one.calls.add(target)

    def _hold(self, kind: str, operands: str) -> None:
        """Remembers the constant that an instruction puts into a register, and forgets what it writes over."""
        first, _, rest = operands.partition(", ")
        if kind.startswith(("str", "cmp", "cmn", "tst", "push", "b")) or not re.fullmatch(r"r\d+", first):
            return
        held = None
        if found := re.match(r"\[pc, #\d+\].*[;@] \((?:0x)?([0-9a-f]+)", rest):
            held = self._words.get(int(found[1], 16))
        elif kind in ("mov", "movs", "movw") and (found := re.match(r"#(\d+)", rest)):
            held = int(found[1])
        elif kind == "lsls" and (found := re.match(r"(\w+), #(\d+)", rest)):
            source = self._held.get(found[1])
            held = None if source is None else source << int(found[2])
        self._held[first] = held

    def by_pointer(self, one: Function) -> set[int]:
        """Addresses of what a function may call through a pointer."""
        if not one.indirect:
            return set()
        is_runtime = one.name.startswith(_CALLS_KERNELS)
        return {to for to in self.taken if is_runtime or not _KERNEL.search(self.functions[to].name)}

    def deepest(self, root: str, nested: int) -> tuple[int, list[str]]:
        """The most bytes of stack below a call of `root`, its own frame included, and the path with its frames.

        Args:
            root: A function of that name.
            nested: How many calls through pointers stand in each other at most.

        Raises:
            RecursionError: Functions call each other in a circle without a pointer; it is named.
        """
        known: dict[tuple[int, int], tuple[int, list[str]]] = {}
        path: list[tuple[int, int]] = []

        def visit(address: int, left: int) -> tuple[int, list[str]]:
            place = (address, left)
            if place in path:
                circle = [self.functions[one].name for one, _ in path[path.index(place) :]]
                raise RecursionError(" -> ".join(circle))
            if place not in known:
                path.append(place)
                one = self.functions[address]
                below = [visit(to, left) for to in one.calls if to in self.functions]
                below += [visit(to, left - 1) for to in self.by_pointer(one) if left > 0]
                deepest = max(below, default=(0, []))
                known[place] = (one.frame + deepest[0], [f"{one.name} {one.frame}", *deepest[1]])
                path.pop()
            return known[place]

        return visit(next(one.address for one in self.functions.values() if one.name == root), nested)


def _words(dump: str) -> Iterator[int]:
    """Words of all sections that may be pointers to Thumb functions, as their addresses."""
    for line in dump.splitlines():
        if re.match(r"^ [0-9a-f]+ [0-9a-f]", line):
            for group in line[:46].split()[1:5]:
                if re.fullmatch(r"[0-9a-f]{8}", group):
                    value = int.from_bytes(bytes.fromhex(group), "little")
                    if value & 1:
                        yield value & ~1
