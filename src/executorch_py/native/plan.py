"""What code is written from: the methods of a verified program as plain values, with the bytes of their constants.

    plan = read_plan(Path("model.pte").read_bytes())
    plan.methods["forward"].steps

Numbers of slots are those of src/cpp/schema/program.fbs. The runtime has verified the bytes before.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from executorch_py import _core
from executorch_py.codegen.flatbuffer import Table, read_root
from executorch_py.element_types import ScalarType, item_size
from executorch_py.errors import NotSupportedError
from executorch_py.firmware.cost import origins_of

__all__ = ["Call", "JumpFalse", "Lists", "Method", "Move", "Plan", "Relation", "Tensor", "Value", "read_plan"]

_EXTERNAL = 1  # of TensorDataLocation
_SHAPES = "executorch_py.shapes"


@dataclass(frozen=True)
class Tensor:
    """A tensor value.

    Attributes:
        dtype: Its element type.
        sizes: Its sizes; the largest where they change from call to call.
        dim_order: Dimensions, outermost in memory first.
        memory: Id of the planned buffer it lies in; 0: none.
        offset: Bytes from the start of that buffer.
        constant: Its bytes where it is a constant.
        initial: Its bytes before the first call where it is state with a value of its own.
        name: Its fully qualified name where it is state.
        dynamism: 0: its sizes never change; 1: up to ``sizes``; 2: they have no bound.
    """

    dtype: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    memory: int = 0
    offset: int = 0
    constant: bytes | None = None
    initial: bytes | None = None
    name: str = ""
    dynamism: int = 0

    @property
    def is_dynamic(self) -> bool:
        """Whether its sizes change from call to call."""
        return self.dynamism != 0

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, at the most."""
        return prod(self.sizes) * item_size(self.dtype)


@dataclass(frozen=True)
class Lists:
    """A list by the places of its items in the table of values; -1 = None."""

    kind: str  # "int", "tensor" or "optional"
    items: tuple[int, ...]


#: None, a number, a text, a tensor, a list of other values, or a list of doubles or bools.
Value = None | int | float | bool | str | Tensor | Lists | tuple[float, ...] | tuple[bool, ...]


@dataclass(frozen=True)
class Call:
    """Calls a kernel of a library, "portable" say, with values by their places."""

    kernel: str
    library: str
    args: tuple[int, ...]
    origin: str = ""  # module and line of Python; "" where the file does not say


@dataclass(frozen=True)
class Move:
    """Makes value ``to`` another name of value ``source``."""

    source: int
    to: int


@dataclass(frozen=True)
class JumpFalse:
    """Goes to a step where a bool, or a tensor of one, is false."""

    condition: int
    target: int


@dataclass(frozen=True)
class Relation:
    """What a size of an input is, or an input that is a number (``dim`` = -1): scale * symbol + offset."""

    input: int
    dim: int
    symbol: int  # which one of the method
    lower: int  # of the symbol
    upper: int
    scale: int
    offset: int


@dataclass(frozen=True)
class Method:
    """One entry point; ``buffers`` are the bytes of its planned memory by id, from 1 on."""

    name: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[Call | Move | JumpFalse | None, ...]  # None: nothing to do
    buffers: Mapping[int, int]
    relations: tuple[Relation, ...] = ()

    def tensor(self, place: int) -> Tensor:
        """The value at a place that is known to be a tensor."""
        value = self.values[place]
        assert isinstance(value, Tensor)
        return value

    @property
    def moved(self) -> frozenset[int]:
        """Values that become others' names."""
        return frozenset(step.to for step in self.steps if isinstance(step, Move))

    @property
    def views(self) -> frozenset[int]:
        """Values that show the memory of another, which they get while the method runs."""
        calls = [step for step in self.steps if isinstance(step, Call)]
        return frozenset(call.args[2] for call in calls if call.kernel == "executorch_prim::et_view.default")

    @property
    def is_dynamic(self) -> bool:
        """Whether sizes of an input change from call to call."""
        return any(isinstance(value := self.values[i], Tensor) and value.is_dynamic for i in self.inputs)


@dataclass(frozen=True)
class Plan:
    """A program: its methods, and which of their buffers are state that they share."""

    methods: Mapping[str, Method]
    state: frozenset[int]


class _Reader:
    """The tables of a program and the bytes behind them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.root = read_root(data, b"ET12")
        self.base = struct.unpack_from("<Q", data, 24)[0] if data[8:12] == b"eh00" else 0
        self.segments = [(one.scalar(0, "Q"), one.scalar(1, "Q")) for one in self.root.tables(4)]
        self.shapes: dict[str, Table] = {}
        for entry in self.root.tables(7):
            if entry.text(0) == _SHAPES:
                offset, size = self.segments[entry.scalar(1, "I")]
                shapes = read_root(data[self.base + offset : self.base + offset + size], b"EPSH")
                self.shapes = {one.text(0): one for one in shapes.tables(1)}

    def sub_segment(self, table: Table | None, index: int, nbytes: int) -> bytes:
        assert table is not None
        start = self.base + self.segments[table.scalar(0, "I")][0] + table.numbers(1, "Q")[index]
        return self.data[start : start + nbytes]

    def tensor(self, table: Table) -> Tensor:
        extra, planned, index = table.table(9), table.table(6), table.scalar(5, "I")
        number = table.scalar(0, "b")
        if number not in {*ScalarType}:
            raise NotSupportedError(f"a tensor has element type {number} of the format, with which no kernel computes")
        plain = Tensor(
            ScalarType(number), tuple(table.numbers(2)), tuple(table.raw(3)),
            name=extra.text(1) if extra else "", dynamism=table.scalar(8, "b"),
        )  # fmt: skip
        if extra is not None and extra.scalar(2, "b") == _EXTERNAL:
            raise NotSupportedError(
                f"tensor {plain.name!r} is not part of the program: lower the model without external weights and "
                "without sparse constants"
            )
        constant = initial = None
        if index and planned is None:
            constant = self.sub_segment(self.root.table(5), index, plain.nbytes)
        elif index:
            tables = self.root.tables(6)
            initial = self.sub_segment(tables[extra.scalar(0, "Q") if extra else 0], index, plain.nbytes)
        memory, offset = 0, 0
        if planned is not None:
            memory = planned.scalar(0, "I")
            offset = planned.scalar(1, "I") + (planned.scalar(2, "I") << 32)
        return replace(plain, memory=memory, offset=offset, constant=constant, initial=initial)

    def value(self, table: Table) -> Value:
        kind, content = table.scalar(0, "B"), table.table(1)
        if content is None:
            return None
        readers: dict[int, Any] = {
            2: lambda: content.scalar(0, "q"),
            3: lambda: bool(content.scalar(0, "B")),
            4: lambda: content.scalar(0, "d", 0.0),
            5: lambda: self.tensor(content),
            6: lambda: content.text(0),
            7: lambda: Lists("int", tuple(content.numbers(0, "q"))),
            8: lambda: tuple(content.numbers(0, "d")),
            9: lambda: tuple(map(bool, content.raw(0))),
            10: lambda: Lists("tensor", tuple(content.numbers(0))),
            11: lambda: Lists("optional", tuple(content.numbers(0))),
        }
        return readers[kind]() if kind in readers else None

    def method(self, plan: Table, libraries: Mapping[int, str]) -> Method:
        names = [op.text(0) + (f".{op.text(1)}" if op.text(1) else "") for op in plan.tables(6)]
        origins = origins_of(self.data, plan.text(0))

        def step(place: int, instruction: Table) -> Call | Move | JumpFalse | None:
            kind, content = instruction.scalar(0, "B"), instruction.table(1)
            if content is None or kind == 5:  # memory of data-dependent tensors, which there are none of
                return None
            first, second = content.scalar(0, "i"), content.scalar(1, "i") if kind != 1 else 0
            if kind == 1:
                origin = "  ".join(filter(None, origins.get(place, ())))
                return Call(names[first], libraries[place], tuple(content.numbers(1)), origin)
            return Move(first, second) if kind == 3 else JumpFalse(first, second)

        return Method(
            plan.text(0),
            tuple(self.value(one) for one in plan.tables(2)),
            tuple(plan.numbers(3)),
            tuple(plan.numbers(4)),
            tuple(step(i, one) for chain in plan.tables(5)[:1] for i, one in enumerate(chain.tables(2))),
            {i: nbytes for i, nbytes in enumerate(plan.numbers(8, "q")) if i},
            self.relations(plan.text(0)),
        )

    def relations(self, method: str) -> tuple[Relation, ...]:
        if (shapes := self.shapes.get(method)) is None:
            return ()
        bounds = [(one.scalar(1, "q"), one.scalar(2, "q", 2**63 - 1)) for one in shapes.tables(1)]
        return tuple(
            Relation(value, dim, symbol, bounds[symbol][0], bounds[symbol][1], scale, offset)
            for value, dim, symbol, _, scale, offset in shapes.structs(2, "IiIIqq")
        )


def read_plan(data: bytes, program: _core.Program) -> Plan:
    """The methods of a program.

    Args:
        data: Its bytes.
        program: The same, loaded with the kernels of firmware; each call gets the one that the runtime chooses.

    Raises:
        NotSupportedError: A tensor's bytes are in another file.
        Error: What a load says of a program that is damaged or calls what there is not.
    """
    reader = _Reader(data)
    methods = {}
    for plan in reader.root.tables(1):
        chosen = {i: library for i, _, library, _ in _core.kernels_of(program.load_method(plan.text(0)))}
        methods[plan.text(0)] = reader.method(plan, chosen)
    return Plan(methods, frozenset(memory for name in methods for memory in program.meta(name).state_buffers))
