"""What leaves float16's range, and so stays float32 in a float16 configuration. float16 ends at 65504, the square of
256.

By its form (``mark_far``): squares, powers, exponentials, lengths, products that are summed, and what sums and means
make of these, until another operator brings them back. In a norm that a model spells out, all but the layers around it
stay float32:

    x * rsqrt(mean(x**2) + eps) * weight

By the data (``keep_far_values_in_float``): what went beyond 65504 on the samples of a calibration, or was below
float16's normal numbers in all of its elements. A warning names it.
"""

import operator
import warnings

import torch
from executorch_py.quantizer.rules.matching import (
    ADD,
    AVERAGE,
    JOIN,
    MAX_POOL,
    MOVEMENT,
    MUL,
    PAD,
    RELU,
    SPLIT,
    reaching,
)
from executorch_py.quantizer.spec.observers import HalfObserver
from torch import fx

from .checks import QuantizationWarning
from .observer_calls import is_weight, observed, observers_of

#: In ``Node.meta``: whether the value may be far beyond what went in.
FAR = "executorch_py.far"

_HALF = torch.finfo(torch.float16)
#: Results that may be far beyond what goes in.
_GROWING = reaching("far")
#: What adds up elements; of these, a mean reaches no further than what it takes.
_SUMS, _MEANS = reaching("sum"), reaching("mean")
#: Results that are as far as what goes in.
_STAYING = (
    reaching("same", "mean")
    | ADD
    | MUL
    | AVERAGE
    | JOIN
    | MAX_POOL
    | MOVEMENT
    | PAD
    | RELU
    | SPLIT
    | {operator.getitem}
)


def mark_far(graph: fx.Graph) -> None:
    """Writes FAR for all nodes."""
    for node in graph.nodes:
        grows = node.target in _GROWING | _SUMS or (node.target in MUL and _is_squared_or_summed(node))
        stays = node.target in _STAYING and any(source.meta.get(FAR) for source in node.all_input_nodes)
        node.meta[FAR] = grows or stays


def takes_or_gives_far_values(nodes: tuple[fx.Node, ...]) -> bool:
    """Whether a value of a chain, or one that it takes, may be beyond float16's range."""
    return any(one.meta.get(FAR) for node in nodes for one in (node, *node.all_input_nodes))


def _is_squared_or_summed(product: fx.Node) -> bool:
    if product.args[0] is product.args[1]:
        return True
    waiting = list(product.users)
    while waiting:
        user = waiting.pop()
        if user.target in _SUMS | _MEANS:
            return True
        if user.target in MOVEMENT:
            waiting.extend(user.users)
    return False


def wants_ranges(prepared: fx.GraphModule) -> bool:
    """Whether something becomes float16, so that samples show whether it can."""
    return any(isinstance(observer, HalfObserver) and not is_weight(node) for node, observer in observers_of(prepared))


def keep_far_values_in_float(prepared: fx.GraphModule) -> None:
    """Takes the observers out, in place, whose values float16 does not hold, and names them in a warning."""
    modules = dict(prepared.named_modules(remove_duplicate=False))
    found: dict[str, None] = {}
    for node in list(prepared.graph.nodes):
        observer = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(observer, HalfObserver) or is_weight(node):
            continue
        if observer.largest > _HALF.max or 0 < observer.largest < _HALF.smallest_normal:
            found[f"{observed(node)} reaches {observer.largest:.3g}"] = None
            node.replace_all_uses_with(node.args[0])
            prepared.graph.erase_node(node)
    if found:
        prepared.recompile()
        warnings.warn(
            "float32 stays where values of the samples are outside of float16's "
            f"{_HALF.smallest_normal:.2g} to {_HALF.max:g}:\n  " + "\n  ".join(found),
            QuantizationWarning,
            stacklevel=4,
        )
