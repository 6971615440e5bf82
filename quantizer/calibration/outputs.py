"""Where the largest and smallest numbers are what counts: observers of results that go to a program's outputs, or are
ranked, and nowhere else.

A range that loses least on average may cut off the rarest numbers. Of a language model's logits these are the next
tokens: cut off, several are equal, and which of them is first says nothing. What other layers read as well keeps the
range that loses least.
"""

import operator

import torch
from executorch_py.quantizer.rules.matching import (
    JOIN,
    LOG_SOFTMAX,
    MOVEMENT,
    RANKED,
    SPLIT,
    elements_of,
    tagged,
)
from torch import fx

aten = torch.ops.aten

_FUNCTIONS = tagged("pointwise")
#: What hands on elements of its argument, or what they are in relation to each other.
_HANDS_ON = MOVEMENT | SPLIT | JOIN | LOG_SOFTMAX | tagged("probabilities") | tagged("same_type") | {operator.getitem}


def keep_ends_of_outputs(prepared: fx.GraphModule) -> None:
    """Has the observers of tensors that only go to outputs of ``prepared``, or to operators that rank elements, keep
    both ends of what they see (``keeps_ends`` of observers.py). Before calibration.
    """
    leaving: set[fx.Node] = set()
    for node in reversed(prepared.graph.nodes):
        readers = [user for user in node.users if user.target is not aten._assert_tensor_metadata.default]
        if readers and all(_ends(user) or (user in leaving and _hands_on(node, user)) for user in readers):
            leaving.add(node)
            observer = prepared.get_submodule(node.target) if node.op == "call_module" else None
            if hasattr(observer, "keeps_ends"):
                observer.keeps_ends = True


def _ends(user: fx.Node) -> bool:
    return user.op == "output" or user.target in RANKED


def _hands_on(node: fx.Node, user: fx.Node) -> bool:
    """Whether a user hands on the elements of a node, or a function of each of them."""
    if user.op == "call_module" or (user.target in _FUNCTIONS and user.all_input_nodes == [node]):
        return True
    return user.target in _HANDS_ON and node in elements_of(user)
