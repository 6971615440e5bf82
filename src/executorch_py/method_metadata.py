"""What a method takes, gives and needs, read without loading it: ``MethodMetadata`` and ``TensorInfo``.

Example:
    >>> program.metadata("forward").input_tensor_meta(0)  # doctest: +SKIP
    TensorInfo('x', Float[2, 8])
"""

from __future__ import annotations

from executorch_py import _arguments, _core
from executorch_py._shown import Card, Shown, counted, nbytes_text
from executorch_py.element_types import ScalarType, torch_name

__all__ = ["MethodMetadata", "ScalarType", "TensorInfo"]

_LARGEST = 2**63 - 1


class TensorInfo(Shown):
    """A tensor that a method takes or gives."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.TensorInfo) -> None:
        self._core = core

    def name(self) -> str:
        """Name in the model; empty when the file does not say."""
        return self._core.name

    def sizes(self) -> tuple[int, ...]:
        """Sizes; upper bounds where they are dynamic."""
        return tuple(self._core.sizes)

    def dtype(self) -> ScalarType:
        """Element type."""
        return ScalarType(self._core.dtype)

    def nbytes(self) -> int:
        """Bytes, at the upper bounds."""
        return self._core.nbytes

    def is_memory_planned(self) -> bool:
        """True when the program has memory for it; otherwise the caller's memory is used directly."""
        return self._core.is_memory_planned

    def dim_order(self) -> tuple[int, ...]:
        """Dimensions from the outermost to the innermost in memory: ``(0, 2, 3, 1)`` is channels-last."""
        return tuple(self._core.dim_order)

    def is_dynamic(self) -> bool:
        """True when a size may change from call to call."""
        return self._core.is_dynamic

    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Smallest and largest size of each dimension."""
        return tuple((lower, upper) for lower, upper in self._core.bounds)

    def symbols(self) -> tuple[str, ...]:
        """Name of each dynamic size as given at export; empty for a fixed one. Equal names are equal sizes."""
        return tuple(self._core.symbols)

    def _sizes_text(self) -> str:
        sizes = []
        for (lower, upper), symbol in zip(self.bounds(), self.symbols(), strict=True):
            size = str(upper) if lower == upper else f"{lower}..{upper}"
            sizes.append(f"{symbol}: {size}" if symbol else size)
        return ", ".join(sizes)

    def _card(self) -> Card:
        name = f"{self.name()!r}, " if self.name() else ""
        return Card(f"TensorInfo({name}{self.dtype().name}[{self._sizes_text()}])")


def _place(index: int) -> int:
    """The number of an input or output; negative ones do not count from the end."""
    return _arguments.integer("the number of an input or output", index, 0, _LARGEST)


class MethodMetadata(Shown):
    """What a method takes, gives and needs, without loading it."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.MethodMeta) -> None:
        self._core = core

    def name(self) -> str:
        """Name of the method."""
        return self._core.name

    def num_inputs(self) -> int:
        """Number of inputs, the leaves of the model's arguments."""
        return self._core.num_inputs

    def num_outputs(self) -> int:
        """Number of outputs, the leaves of the model's result."""
        return self._core.num_outputs

    def input_kind(self, index: int) -> str:
        """``"Tensor"``, ``"Int"``, ``"Double"``, ``"Bool"``, ``"String"`` or ``"None"``."""
        return self._core.input_kind(_place(index))

    def output_kind(self, index: int) -> str:
        """Kind of an output, as for inputs."""
        return self._core.output_kind(_place(index))

    def input_name(self, index: int) -> str:
        """Name of an input in the model; empty when the file does not say."""
        return self._core.input_name(_place(index))

    def output_name(self, index: int) -> str:
        """Name of an output in the model; empty when the file does not say."""
        return self._core.output_name(_place(index))

    def input_tensor_meta(self, index: int) -> TensorInfo:
        """Description of a tensor input.

        Raises:
            IndexError: There is no such input.
            InvalidTypeError: It is no tensor.
        """
        return TensorInfo(self._core.input_tensor(_place(index)))

    def output_tensor_meta(self, index: int) -> TensorInfo:
        """Description of a tensor output. Raises as :meth:`input_tensor_meta`."""
        return TensorInfo(self._core.output_tensor(_place(index)))

    def num_attributes(self) -> int:
        """Number of attributes: mutable buffers that the file names."""
        return self._core.num_attributes

    def attribute_tensor_meta(self, index: int) -> TensorInfo:
        """Description of an attribute; ``name()`` is its name in the model.

        Raises:
            IndexError: There is no such attribute.
        """
        return TensorInfo(self._core.attribute_tensor(_place(index)))

    def planned_buffer_sizes(self) -> tuple[int, ...]:
        """Bytes of each planned arena, those of sessions included."""
        return tuple(self._core.planned_buffer_sizes)

    def uses_state(self) -> bool:
        """True when the method reads or writes mutable state of its session."""
        return self._core.uses_state

    def num_instructions(self) -> int:
        """Number of instructions."""
        return self._core.num_instructions

    def operators(self) -> tuple[str, ...]:
        """Names of the operators it calls, such as ``aten::add.out``."""
        return tuple(self._core.operators)

    def backends(self) -> tuple[str, ...]:
        """Name of the backend of each delegate."""
        return tuple(self._core.backends)

    def input_structure(self) -> str:
        """JSON of the pytree of the model's arguments, ``(args, kwargs)``; empty when the file has none."""
        return self._core.input_structure

    def output_structure(self) -> str:
        """JSON of the pytree of the model's result; empty when the file has none."""
        return self._core.output_structure

    def _describe(self, kind: str, index: int) -> str:
        inputs = kind == "input"
        what = self.input_kind(index) if inputs else self.output_kind(index)
        name = self.input_name(index) if inputs else self.output_name(index)
        if what == "Tensor":
            return repr(self.input_tensor_meta(index) if inputs else self.output_tensor_meta(index))
        return f"{what}({name!r})" if name else what

    def _told(self, kind: str, index: int) -> str:
        """An input or output in words: "x: float32[2, 8]"."""
        inputs = kind == "input"
        what = self.input_kind(index) if inputs else self.output_kind(index)
        name = (self.input_name(index) if inputs else self.output_name(index)) or str(index)
        if what != "Tensor":
            return f"{name}: {what}"
        info = self.input_tensor_meta(index) if inputs else self.output_tensor_meta(index)
        return f"{name}: {torch_name(info.dtype())}[{info._sizes_text()}]"

    def _row(self) -> tuple[str, str, str, str, str]:
        """Name, inputs, outputs, what runs, and memory: a row of the cards of programs and methods."""
        inputs = ", ".join(self._told("input", i) for i in range(self.num_inputs()))
        outputs = ", ".join(self._told("output", i) for i in range(self.num_outputs()))
        delegates = "".join(
            f", {counted(self.backends().count(name), 'delegate')} of {name}" for name in sorted(set(self.backends()))
        )
        memory = nbytes_text(sum(self.planned_buffer_sizes())) + (", has state" if self.uses_state() else "")
        return self.name(), inputs, outputs, counted(self.num_instructions(), "instruction") + delegates, memory

    def _card(self) -> Card:
        inputs = ", ".join(self._describe("input", i) for i in range(self.num_inputs()))
        outputs = ", ".join(self._describe("output", i) for i in range(self.num_outputs()))
        *_, runs, memory = self._row()
        return Card(f"MethodMetadata({self.name()!r}: ({inputs}) -> ({outputs}))", [runs, f"{memory} planned"])


#: Titles of the rows of MethodMetadata.
ROW_TITLES = ("method", "inputs", "outputs", "runs", "planned memory")
