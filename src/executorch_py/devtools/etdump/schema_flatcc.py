"""An ETDump as plain data: the published classes, a table of src/cpp/schema/etdump.fbs each. Times in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from executorch_py.runtime import ScalarType

__all__ = [
    "AllocationEvent",
    "Allocator",
    "Bool",
    "DebugEvent",
    "Double",
    "ETDumpFlatCC",
    "Event",
    "Float",
    "Int",
    "Null",
    "ProfileEvent",
    "RunData",
    "String",
    "Tensor",
    "TensorList",
    "Value",
    "ValueType",
]


@dataclass
class Tensor:
    """A tensor; ``offset`` is the place of its first element in the debug buffer, in bytes."""

    scalar_type: ScalarType
    sizes: list[int]
    strides: list[int]
    offset: int | None


@dataclass
class TensorList:
    """Several tensors."""

    tensors: list[Tensor]


@dataclass
class Null:
    """No value."""


@dataclass
class Int:
    """A whole number."""

    int_val: int


@dataclass
class Bool:
    """A truth value."""

    bool_val: bool


@dataclass
class Float:
    """A number of 32 bits."""

    float_val: float


@dataclass
class Double:
    """A number."""

    double_val: float


@dataclass
class String:
    """A text."""

    string_val: str


class ValueType(Enum):
    """Which field of a Value is set."""

    NULL = "Null"
    INT = "Int"
    BOOL = "Bool"
    FLOAT = "Float"
    DOUBLE = "Double"
    TENSOR = "Tensor"
    TENSORLIST = "TensorList"


@dataclass
class Value:
    """A value; ``val`` names the field that is set, ``output`` whether it is an output of the method."""

    val: str
    tensor: Tensor | None = None
    tensor_list: TensorList | None = None
    int_value: Int | None = None
    float_value: Float | None = None
    double_value: Double | None = None
    bool_value: Bool | None = None
    output: Bool | None = None


@dataclass
class DebugEvent:
    """A value that was seen; ``chain_index`` -1: outside of all instructions."""

    name: str | None
    chain_index: int
    instruction_id: int
    delegate_debug_id_int: int | None
    delegate_debug_id_str: str | None
    debug_entry: Value


@dataclass
class ProfileEvent:
    """A span of time; ``chain_index`` -1: outside of all instructions."""

    name: str | None
    chain_index: int
    instruction_id: int
    delegate_debug_id_int: int | None
    delegate_debug_id_str: str | None
    delegate_debug_metadata: bytes | None
    start_time: int
    end_time: int


@dataclass
class AllocationEvent:
    """Memory that was taken, in bytes."""

    allocator_id: int
    allocation_size: int


@dataclass
class Allocator:
    """Something that gives memory."""

    name: str


@dataclass
class Event:
    """One thing that happened: one of the three fields is set."""

    profile_event: ProfileEvent | None = None
    allocation_event: AllocationEvent | None = None
    debug_event: DebugEvent | None = None


@dataclass
class RunData:
    """One load, or one execution."""

    name: str
    bundled_input_index: int | None = -1
    allocators: list[Allocator] | None = field(default_factory=list)
    events: list[Event] | None = field(default_factory=list)


@dataclass
class ETDumpFlatCC:
    """The whole file."""

    version: int
    run_data: list[RunData]

    def __repr__(self) -> str:
        return f"ETDump({', '.join(f'{run.name}: {len(run.events or ())} events' for run in self.run_data)})"
