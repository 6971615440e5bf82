"""One scale for all the steps of a recurrent layer.

Taken apart, a recurrent layer has the same operators again for each element of its sequence. Measured one by one, each
step would have scales of its own, and with them a bias and factors of its own. They have more bytes than the weights,
and ranges that hold for the sequences of the calibration data only. So what stands at one place of the step is measured
together.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from executorch_py.quantizer.spec.pt2e import ANNOTATION, QuantizationSpec, SharedQuantizationSpec
from torch import fx

from .matching import LINEAR, is_constant

#: In ``Node.meta``: the node's place in its step, which its twins in the other steps have, too.
PLACE = "executorch_py.place_in_step"
#: In ``Node.meta``: the annotation shares scales with a twin.
SHARES = "executorch_py.shares_with_step"


def places_in_steps(nodes: Sequence[fx.Node]) -> dict[fx.Node, Hashable]:
    """Node -> its place in its step, for what an operator is made of, in order. Nodes of no step are left out.

    A step begins where the layer multiplies its state: at each linear layer of one weight. It has the operators of the first.
    """
    starts: dict[fx.Node, list[int]] = {}
    for i, node in enumerate(nodes):
        if node.target in LINEAR and isinstance(node.args[1], fx.Node):
            starts.setdefault(node.args[1], []).append(i)
    found: dict[fx.Node, Hashable] = {}
    for weight, at in starts.items():
        if len(at) < 2 or nodes[at[0]] in found:  # a product inside of a step
            continue
        first = nodes[at[0] : at[1]]
        for start in at:
            for place, (twin, node) in enumerate(zip(first, nodes[start:], strict=False)):
                if node.target is not twin.target:
                    break
                found[node] = (weight.name, place)
    return found


def share_steps(graph: fx.Graph) -> None:
    """Rewrites annotations: activations at one place of a step share their scales with the first that has the same specification.

    Scales that are chosen at run time have nothing to share.
    """
    leaders: dict[Hashable, Any] = {}
    for node in graph.nodes:
        place, says = node.meta.get(PLACE), node.meta.get(ANNOTATION)
        if place is None or says is None:
            continue
        for i, argument in enumerate(node.args):
            spec = says.input_qspec_map.get(argument) if isinstance(argument, fx.Node) else None
            if not _is_measured(spec) or is_constant(argument):
                continue
            leader = leaders.setdefault((place, i, spec), (argument, node))
            if leader != (argument, node):
                says.input_qspec_map[argument] = SharedQuantizationSpec(leader)
                node.meta[SHARES] = True
        if _is_measured(says.output_qspec):
            leader = leaders.setdefault((place, "result", says.output_qspec), node)
            if leader is not node:
                says.output_qspec = SharedQuantizationSpec(leader)
                node.meta[SHARES] = True


def _is_measured(spec: Any) -> bool:
    return isinstance(spec, QuantizationSpec) and not spec.is_dynamic
