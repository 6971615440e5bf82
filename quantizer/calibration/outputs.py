"""Where the largest numbers are what counts: observers of results that a program hands out, or takes the largest of.

A range that loses least on average may cut off the rarest numbers. Of a language model's logits these are the next
tokens: cut off, several are equal, and which of them is first says nothing.
"""

import operator
from typing import Any

from executorch_py.quantizer.rules.matching import JOIN, MOVEMENT, RANKED, SPLIT, tagged
from torch import fx

#: What keeps the order of the elements, or hands them on.
_KEEPS_ORDER = MOVEMENT | SPLIT | JOIN | RANKED | tagged("probabilities") | {operator.getitem}


def keep_ends_of_outputs(prepared: fx.GraphModule) -> None:
    """Has the observers of ``prepared`` whose tensors go to its outputs as they are, or in another order, or to an
    operator that ranks elements, keep the largest numbers (``keeps_ends`` of observers.py).
    """
    nodes = prepared.graph.nodes
    waiting: list[Any] = [
        source for node in nodes if node.op == "output" or node.target in RANKED for source in node.all_input_nodes
    ]
    seen: set[fx.Node] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op == "call_module":
            observer = prepared.get_submodule(node.target)
            if hasattr(observer, "keeps_ends"):
                observer.keeps_ends = True
        if node.op == "call_module" or node.target in _KEEPS_ORDER:
            waiting.extend(node.all_input_nodes)
