"""What a planned method has in its arena, instruction by instruction, and what planning it otherwise would save.

For: the costs of layers, and the report's hint. Not for: planning, which needs the program before it is a `.pte`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from executorch_py.codegen.flatbuffer import Table, read_root
from executorch_py.element_types import ScalarType, item_size

# Members of the unions of program.fbs.
_INT, _TENSOR, _LISTS, _KERNEL_CALL = 2, 5, (10, 11), 1
#: Results of convolutions with more channels lie apart from their inputs: ops/image_windows.h.
_CHANNELS_AT_ONCE = 64


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor of a method; `place` is its memory and offset there, None where it is not planned."""

    sizes: tuple[int, ...]
    nbytes: int
    is_constant: bool
    place: tuple[int, int] | None


@dataclass(frozen=True)
class Call:
    """An instruction: the kernel that it calls, "" for none, and the values that are its arguments."""

    kernel: str
    arguments: tuple[int, ...]


class Plan:
    """A method of a verified program."""

    def __init__(self, data: bytes, method: str = "forward") -> None:
        root = read_root(data, b"ET12")
        plan = next(plan for plan in root.tables(1) if plan.text(0) == method)
        self._values = plan.tables(2)
        self.tensors = {
            i: _tensor_of(content)
            for i, value in enumerate(self._values)
            if value.scalar(0, "B") == _TENSOR and (content := value.table(1)) is not None
        }
        names = [op.text(0) + (f".{op.text(1)}" if op.text(1) else "") for op in plan.tables(6)]
        calls = [(one.scalar(0, "B"), one.table(1)) for chain in plan.tables(5)[:1] for one in chain.tables(2)]
        self.calls = [
            Call(names[call.scalar(0, "i")], tuple(call.numbers(1))) if kind == _KERNEL_CALL and call else Call("", ())
            for kind, call in calls
        ]
        self._inputs, self._outputs = plan.numbers(3), plan.numbers(4)

    @cached_property
    def used(self) -> list[set[int]]:
        """Of each call, the tensors that it names, those in lists as well."""
        return [set(self._tensors_in(call.arguments)) for call in self.calls]

    def _tensors_in(self, arguments: Iterable[int]) -> Iterator[int]:
        for i in arguments:
            if i in self.tensors:
                yield i
            elif 0 <= i < len(self._values) and self._values[i].scalar(0, "B") in _LISTS:
                content = self._values[i].table(1)
                yield from (item for item in (content.numbers(0) if content else ()) if item in self.tensors)

    @cached_property
    def lives(self) -> dict[int, tuple[int, int]]:
        """Tensor -> the first and the last call that names it; inputs live from the start, outputs to the end."""
        lives: dict[int, tuple[int, int]] = {}
        for i, found in enumerate(self.used):
            for t in found:
                lives[t] = (lives.get(t, (i, i))[0], i)
        for t in self._inputs:
            lives |= {t: (0, lives[t][1])} if t in lives else {}
        for t in self._outputs:
            lives |= {t: (lives[t][0], len(self.used) - 1)} if t in lives else {}
        return lives

    def alive_bytes(self, i: int) -> int:
        """Bytes of planned memory in use while call `i` runs; views take none of their own."""
        alive = (self.tensors[t] for t, (first, last) in self.lives.items() if first <= i <= last)
        total, end, memory = 0, 0, 0
        for (where, start), nbytes in sorted((one.place, one.nbytes) for one in alive if one.place is not None):
            end = end if where == memory else 0
            total += max(start + nbytes - max(start, end), 0)
            end, memory = max(end, start + nbytes), where
        return total

    def saved_by_overlaps(self) -> int:
        """About how many bytes of memory ``MemoryPlanningPass(overlap_inputs=True)`` would save; 0: none.

        The distances by which results must begin in front of their images are not counted: a few hundred bytes.
        """
        now = [self.alive_bytes(i) for i in range(len(self.calls))]
        then = [alive - self._shared(i) for i, alive in enumerate(now)]
        return max(now, default=0) - max(then, default=0)

    def _shared(self, i: int) -> int:
        """Bytes that the result of a convolution or maximum pooling and its input could share, and do not."""
        if not self._may_overlap(i):
            return 0
        given, made = self.calls[i].arguments[0], self.calls[i].arguments[-1]
        image, result = self.tensors[given], self.tensors[made]
        if image.place is None or result.place is None or image.place[0] != result.place[0]:
            return 0
        starts, ends = zip(*((one.place[1], one.place[1] + one.nbytes) for one in (image, result) if one.place))
        lie_apart = max(starts) >= min(ends)
        dies = self.lives[given][1] == i
        fits = len(result.sizes) == 4 and result.sizes[0] == 1
        return min(image.nbytes, result.nbytes) if lie_apart and dies and fits else 0

    def _may_overlap(self, i: int) -> bool:
        """Whether a call is of those that planning/overlapping_results.cpp knows."""
        call = self.calls[i]
        if call.kernel == "et::max_pool2d.out":
            dilations = self._values[call.arguments[4]].table(1)
            return dilations is None or all(self._number(i) == 1 for i in dilations.numbers(0, "q"))
        if call.kernel != "et::quantized_convolution.out":
            return False
        of_image, of_weight, of_result = (self.tensors[call.arguments[k]].sizes for k in (0, 3, -1))
        is_depthwise = of_weight[1] == 1 and of_weight[0] == of_image[1]
        return (
            not self._number(call.arguments[9])  # transposed
            and of_weight[0] == of_result[1] <= _CHANNELS_AT_ONCE  # two rows a byte are fewer
            and (of_weight[1] == of_image[1] or is_depthwise)
        )

    def _number(self, i: int) -> int:
        """The value of an integer or boolean argument."""
        value = self._values[i]
        content = value.table(1)
        return content.scalar(0, "q" if value.scalar(0, "B") == _INT else "B") if content is not None else 0


def _tensor_of(table: Table) -> PlannedTensor:
    sizes, width = tuple(table.numbers(2)), item_size(ScalarType(table.scalar(0, "b")))
    planned = table.table(6)
    place = (
        None if planned is None else (planned.scalar(0, "I"), planned.scalar(1, "I") + (planned.scalar(2, "I") << 32))
    )
    return PlannedTensor(sizes, prod(sizes) * width, table.scalar(5, "I") > 0 and place is None, place)
