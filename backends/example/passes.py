"""A pass that brings the backend's own operator in, after Edge and without delegation.

>>> edge = et.to_edge(exported).transform([FuseConv2dRelu()])  # doctest: +SKIP
>>> et.verify_dialect(edge.exported_program(), "backend:ExampleBackend")  # doctest: +SKIP
"""

import torch
from torch import fx
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.backend.utils import arguments_of

from .dialect import CONV2D_RELU

aten = torch.ops.aten


class FuseConv2dRelu:
    """``relu(convolution(x))`` becomes ``example::conv2d_relu(x)`` where nothing else reads the convolution.

    Left alone: transposed, 1-D and 3-D convolutions, other element types than float32, and nodes that a partitioner
    tagged.
    """

    def __call__(self, module: fx.GraphModule) -> PassResult:
        """Rewrites the graph in place."""
        changed = False
        for relu in list(module.graph.nodes):
            convolution = relu.args[0] if relu.target is aten.relu.default else None
            if isinstance(convolution, fx.Node) and _fits(convolution, relu):
                _replace(module.graph, convolution, relu)
                changed = True
        if changed:
            module.graph.lint()
            module.recompile()
        return PassResult(module, changed)


def _fits(convolution: fx.Node, relu: fx.Node) -> bool:
    if convolution.target is not aten.convolution.default or len(convolution.users) != 1:
        return False
    if convolution.meta.get("delegation_tag") or relu.meta.get("delegation_tag"):
        return False
    value = convolution.meta["val"]
    return not arguments_of(convolution)["transposed"] and value.dim() == 4 and value.dtype == torch.float32


def _replace(graph: fx.Graph, convolution: fx.Node, relu: fx.Node) -> None:
    given = arguments_of(convolution)
    with graph.inserting_before(relu):
        pairs = [list(given[name]) * (2 // len(given[name])) for name in ("stride", "padding", "dilation")]
        factors = given["input"], given["weight"], given["bias"]
        fused = graph.call_function(CONV2D_RELU, (*factors, *pairs, given["groups"]))
    fused.meta = dict(relu.meta)
    # The line of the convolution says more than that of its activation.
    fused.meta["stack_trace"] = convolution.meta.get("stack_trace", relu.meta.get("stack_trace"))
    relu.replace_all_uses_with(fused)
    graph.erase_node(relu)
    graph.erase_node(convolution)
