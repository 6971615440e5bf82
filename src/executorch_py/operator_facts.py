"""What sort of operator something is: questions to the one table, src/cpp/ops/ops.yaml.

Needs neither torch nor a runtime.

>>> [name for name, op in OPERATORS.items() if op.moves == "mask"]
['aten::tril', 'aten::triu']
>>> overloads(lambda op: op.moves == "mask")  # doctest: +SKIP
(<OpOverload(op='aten.tril', overload='default')>, <OpOverload(op='aten.triu', overload='default')>)

Which kernels this process has is another question: operators.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executorch_py._operator_rows import ROWS

if TYPE_CHECKING:
    from torch._ops import OpOverload


@dataclass(frozen=True)
class Facts:
    """A row of the table.

    Attributes:
        name: "aten::add.Tensor".
        kernel: Name of its kernel, "aten::add.out".
        tags: Words of codegen/ops_yaml.py, TAGS.
        keep: Why Edge keeps it whole; "" = torch's choice.
        copy: Of a view: the operator that stands for it in Edge.
        moves: How the results come from the elements of the first argument, a word of MOVES; "" = they are computed.
        joins: Arguments that hold the elements of the result.
        integers: The operator on integers that it becomes, "et::quantized_add"; "" = none.
        layout: The order in memory in which an operator on images works, a word of LAYOUTS.
        reach: How far its results reach beyond what goes in, a word of REACHES; "" = they are bounded anew.
        is_published: The official runtime has the kernel, too.
        arguments: Names, in order.
        returns: Types.
    """

    name: str
    kernel: str
    tags: frozenset[str]
    keep: str
    copy: str
    moves: str
    joins: tuple[str, ...]
    integers: str
    layout: str
    reach: str
    is_published: bool
    arguments: tuple[str, ...]
    returns: tuple[str, ...]

    @property
    def is_tensor(self) -> bool:
        """It returns one tensor."""
        return self.returns == ("Tensor",)

    @property
    def base_name(self) -> str:
        """The name without namespace and overload: "add"."""
        return self.name.split("::")[1].split(".")[0]


def _facts(name: str) -> Facts:
    kernel, tags, keep, copy, moves, joins, integers, layout, reach, is_published, arguments, returns = ROWS[name]
    return Facts(
        name, kernel, frozenset(tags), keep, copy, moves, tuple(joins), integers, layout, reach, is_published,
        tuple(arguments), tuple(returns),
    )  # fmt: skip


#: All operators of the table by name, those included that torch takes apart before Edge ("composite").
OPERATORS: dict[str, Facts] = {name: _facts(name) for name in ROWS}


def overload(name: str) -> OpOverload:
    """The operator of torch that has a name: "aten::add.Tensor", "aten::abs"."""
    import torch

    namespace, base = name.split("::")
    base, _, which = base.partition(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, namespace), base), which or "default")
    return found


def overloads(is_wanted: Callable[[Facts], bool]) -> tuple[OpOverload, ...]:
    """ATen's operators for which the table says so, in its order."""
    return tuple(overload(op.name) for op in OPERATORS.values() if op.name.startswith("aten::") and is_wanted(op))
