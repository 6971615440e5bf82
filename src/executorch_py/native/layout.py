"""Where everything of a plan lies: constants in one block of flash, tensors of a method in its arena, state in another.

Planned memory keeps the offsets that the program's plan has. What a caller gives to the runtime, unplanned inputs and
outputs, gets memory behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from executorch_py.errors import NotSupportedError

from .plan import Method, Plan, Tensor

__all__ = ["Layout", "Place", "lay_out"]

_ALIGNMENT = 16


@dataclass(frozen=True)
class Place:
    """Bytes from the start of an array of the generated code."""

    array: str
    offset: int


@dataclass
class Layout:
    """Arrays of the generated code.

    Attributes:
        weights: The constants, each at a multiple of 16.
        arrays: Array of RAM -> its bytes.
        places: Method and value -> where its elements are.
        initial: Place of state and its bytes before the first call: ``bytes(n)`` for what begins as zeros.
    """

    weights: bytearray = field(default_factory=bytearray)
    arrays: dict[str, int] = field(default_factory=dict)
    places: dict[tuple[str, int], Place] = field(default_factory=dict)
    initial: list[tuple[Place, bytes]] = field(default_factory=list)
    _constants: dict[bytes, Place] = field(default_factory=dict)

    def constant(self, content: bytes) -> Place:
        """The place of these bytes among the weights."""
        if content not in self._constants:
            self._constants[content] = Place("weights", len(self.weights))
            self.weights += content + bytes(-len(content) % _ALIGNMENT)
        return self._constants[content]


def lay_out(plan: Plan) -> Layout:
    """Gives every tensor of a plan its place.

    Raises:
        NotSupportedError: A tensor that is computed has no memory.
    """
    layout = Layout()
    starts: dict[tuple[str, int], Place] = {}
    for method in plan.methods.values():
        for memory, nbytes in method.buffers.items():
            array = f"state{memory}" if memory in plan.state else f"{method.name}_arena"
            offset = 0 if memory in plan.state else layout.arrays.get(array, 0)
            starts[method.name, memory] = Place(array, offset)
            size = offset + -(-nbytes // _ALIGNMENT) * _ALIGNMENT
            layout.arrays[array] = max(layout.arrays.get(array, 0), size)
        views = method.views
        for i, value in enumerate(method.values):
            if not isinstance(value, Tensor):
                continue
            if value.constant is not None:
                layout.places[method.name, i] = layout.constant(value.constant)
            elif value.memory:
                start = starts[method.name, value.memory]
                layout.places[method.name, i] = Place(start.array, start.offset + value.offset)
            else:
                layout.places[method.name, i] = _behind(layout, method, i, value, views)
    _add_initial(layout, plan)
    return layout


def _behind(layout: Layout, method: Method, place: int, value: Tensor, views: frozenset[int]) -> Place:
    if place not in (*method.inputs, *method.outputs, *method.moved, *views) and value.nbytes:
        raise NotSupportedError(
            f"method {method.name!r}: the memory of value {place} is known only when it has run; lower the model with "
            "memory planning and static sizes"
        )
    array = f"{method.name}_arena"
    offset = layout.arrays.get(array, 0)
    if place not in method.moved and place not in views:
        layout.arrays[array] = offset + -(-value.nbytes // _ALIGNMENT) * _ALIGNMENT
    return Place(array, offset)


def _add_initial(layout: Layout, plan: Plan) -> None:
    """First zeros where the file says nothing, then values: another name of a buffer may say nothing about it."""
    zeros: dict[Place, bytes] = {}
    values: dict[Place, bytes] = {}
    for method in plan.methods.values():
        for i, value in enumerate(method.values):
            if not isinstance(value, Tensor) or not value.memory or not value.nbytes:
                continue
            place = layout.places[method.name, i]
            if value.initial is not None:
                values[place] = value.initial
            elif value.name or value.memory in plan.state:
                zeros[place] = max(zeros.get(place, b""), bytes(value.nbytes), key=len)
    layout.initial = [*zeros.items(), *values.items()]
    for content in values.values():
        layout.constant(content)
