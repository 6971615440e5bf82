"""Where integers go on: which values a quantized operator takes in the end, and which sums and products are part of a
function.

A sum or product of two quantized tensors is an operator of its own. One inside a function of a single tensor is not:

    0.5 * x * (1 + tanh(0.8 * (x + 0.04 * x**3)))       x * sigmoid(1.7 * x)       x * rsqrt(mean(x**2) + eps)

With integers in the middle, each step of it would be rounded, and nothing would know the activation or the norm any
more.
"""

from typing import Any

from executorch_py.quantizer.spec.pt2e import ANNOTATION, QuantizationSpec
from torch import fx

from .matching import ACTIVATIONS, ADD, AVERAGE, JOIN, MAX_POOL, MOVEMENT, MUL, PAD, SPLIT, STEPS, is_constant, is_mask

#: In ``Node.meta``: whether some operator takes the value's integers, at once or behind operators that hand them on.
WANTED = "executorch_py.wanted_as_integers"

#: What hands integers on.
HANDS_ON = ADD | AVERAGE | JOIN | MAX_POOL | MOVEMENT | MUL | PAD | SPLIT

#: Nodes that a function has at most.
_LONGEST = 40


def mark_wanted(graph: fx.Graph) -> None:
    """Writes WANTED for all nodes; what takes integers by itself is annotated already."""
    wanted: set[fx.Node] = set()
    waiting = [source for node in graph.nodes for source in _taken(node)]
    while waiting:
        node = waiting.pop()
        if node in wanted:
            continue
        wanted.add(node)
        target = node.target
        if target in HANDS_ON or target in ACTIVATIONS or getattr(target, "__name__", "") == "getitem":
            waiting.extend(node.all_input_nodes)
    for node in graph.nodes:
        node.meta[WANTED] = node in wanted


def _taken(node: fx.Node) -> list[Any]:
    """The activations that an annotated node takes as integers with a scale that is known before."""
    return [source for source, spec in input_specs(node).items() if is_static(spec) and not is_constant(source)]


def input_specs(node: fx.Node) -> dict[fx.Node, Any]:
    """What a node's annotation says of its inputs; nothing where it has none."""
    says = node.meta.get(ANNOTATION)
    return {} if says is None else says.input_qspec_map


def is_static(spec: Any) -> bool:
    """Whether a spec is of integers with a scale that is known before."""
    return isinstance(spec, QuantizationSpec) and not spec.is_dynamic and not spec.dtype.is_floating_point


def is_wanted(node: fx.Node) -> bool:
    """Whether a value's integers are taken; where nobody has marked the graph, they are."""
    return bool(node.meta.get(WANTED, True))


def is_in_function(node: fx.Node) -> bool:
    """Whether a sum or product is a step of a function of one tensor, as those above."""
    return source_of_function(node) is not None


def ends_function(node: fx.Node) -> bool:
    """Whether a step of a function is its last one, or one that others read, too."""
    source = source_of_function(node)
    return source is not None and not all(
        user.target in STEPS and source_of_function(user) is source for user in node.users
    )


def source_of_function(node: fx.Node) -> fx.Node | None:
    """The one tensor that a node computes a function of."""
    sources: set[fx.Node] = set()
    seen, waiting = {node}, list(node.all_input_nodes)
    while waiting:
        one = waiting.pop()
        if one in seen or is_constant(one):
            continue
        seen.add(one)
        if len(seen) > _LONGEST:
            return None
        says = one.meta.get(ANNOTATION)
        is_quantized = says is not None and says.output_qspec is not None
        if one.target in STEPS and not is_quantized:
            waiting.extend(one.all_input_nodes)
        elif not is_mask(one):
            sources.add(one)
    return sources.pop() if len(sources) == 1 else None
