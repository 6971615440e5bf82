"""The calls of observers in a prepared module, and what they look at."""

from collections.abc import Iterator
from typing import Any

from executorch_py.quantizer.rules.loops import graphs_of
from executorch_py.quantizer.rules.matching import is_constant, place_of
from executorch_py.quantizer.spec.pt2e import FakeQuantizeBase, ObserverBase
from torch import fx

__all__ = ["calls_of", "is_weight", "observed", "observers_of", "weight_observers"]


def calls_of(prepared: fx.GraphModule) -> Iterator[tuple[fx.Node, Any]]:
    """The calls of observers and fake quantizers in a prepared module and the bodies of its loops, with what they
    call.
    """
    for graph in graphs_of(prepared):
        modules = dict(graph.named_modules(remove_duplicate=False))
        for node in graph.graph.nodes:
            module = modules.get(str(node.target)) if node.op == "call_module" else None
            if isinstance(module, (ObserverBase, FakeQuantizeBase)):
                yield node, module


def observers_of(prepared: fx.GraphModule) -> Iterator[tuple[fx.Node, Any]]:
    """The first call of each observer and fake quantizer, with what it calls."""
    seen = set()
    for node, module in calls_of(prepared):
        if id(module) not in seen:
            seen.add(id(module))
            yield node, module


def weight_observers(prepared: fx.GraphModule) -> list[Any]:
    """The observers that look at constants alone: one that a constant shares with an activation is none of them."""
    calls = [*calls_of(prepared)]
    of_activations = {id(module) for node, module in calls if not is_weight(node)}
    return list({id(module): module for _, module in calls if id(module) not in of_activations}.values())


def is_weight(node: fx.Node) -> bool:
    """Whether an observer's call looks at a constant."""
    return is_constant(node.args[0])


def observed(node: fx.Node) -> str:
    """What an observer looks at, for messages."""
    source: Any = node.args[0]
    modules = [user for user in node.users if user.op == "call_function"]
    if source.op == "call_function":
        return f"the result of {place_of(source)}"
    name = f"'{source.target}'"
    return f"{name}, which {place_of(modules[0])} reads," if modules else name
