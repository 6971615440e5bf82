"""What a user bundles with a program: test cases, each the inputs of one call and the outputs that are expected.

Example:
    >>> import torch
    >>> MethodTestCase(inputs=[torch.ones(2, 3), 4], expected_outputs=[torch.zeros(2)])
    MethodTestCase((torch.float32 (2, 3), 4) -> (torch.float32 (2,)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from executorch_py.errors import InvalidTypeError

__all__ = ["MethodTestCase", "MethodTestSuite"]

#: An input: what the file has a form for.
MethodInputType = torch.Tensor | int | bool | float
MethodOutputType = torch.Tensor | int | bool | float
_REMEDY = {
    "input": "Leave other inputs out of the model, or make them constants of it",
    "expected output": "Have the model return no others, or give no expected outputs: the case then runs unchecked",
}


class MethodTestCase:
    """One call of a method.

    Attributes:
        inputs: The leaves of the inputs: tensors, numbers, bools.
        expected_outputs: The leaves of the outputs; empty when the case is for profiling only.
    """

    def __init__(self, inputs: Sequence[Any], expected_outputs: Any | None = None) -> None:
        """Takes nested lists, tuples and dicts as well.

        Raises:
            InvalidTypeError: A leaf is neither a tensor nor a number nor a bool; names its place.
        """
        self.inputs = _leaves("input", inputs)
        self.expected_outputs = [] if expected_outputs is None else _leaves("expected output", expected_outputs)

    def __repr__(self) -> str:
        outputs = f" -> ({', '.join(map(_shown, self.expected_outputs))})" if self.expected_outputs else ""
        return f"MethodTestCase(({', '.join(map(_shown, self.inputs))}){outputs})"


@dataclass
class MethodTestSuite:
    """The test cases of one method.

    Attributes:
        method_name: Name of the method.
        test_cases: Its cases.
    """

    method_name: str
    test_cases: Sequence[MethodTestCase]


def _leaves(what: str, nested: Any) -> list[Any]:
    leaves, _ = tree_flatten(nested)
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, (torch.Tensor, int, bool, float)):
            raise InvalidTypeError(
                f"{what} {index} is {leaf!r:.60}; a test case holds tensors, numbers and bools. {_REMEDY[what]}"
            )
    return leaves


def _shown(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{value.dtype} {tuple(value.shape)}"
