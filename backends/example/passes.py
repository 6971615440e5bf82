"""A pass that brings the backend's own operator in, after Edge and without delegation.

>>> edge = et.to_edge(exported).transform([FuseConv2dRelu()])  # doctest: +SKIP
>>> et.verify_dialect(edge.exported_program(), "backend:ExampleBackend")  # doctest: +SKIP
"""

import torch
from torch import fx
from torch.fx.passes.infra.pass_base import PassResult

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
    transposed = convolution.args[6]
    value = convolution.meta["val"]
    return not transposed and value.dim() == 4 and value.dtype == torch.float32


def _replace(graph: fx.Graph, convolution: fx.Node, relu: fx.Node) -> None:
    source, weight, bias, stride, padding, dilation, _transposed, _output_padding, groups = convolution.args
    with graph.inserting_before(relu):
        pairs = [list(item) * 2 if len(item) == 1 else list(item) for item in (stride, padding, dilation)]
        fused = graph.call_function(CONV2D_RELU, (source, weight, bias, *pairs, groups))
    fused.meta = dict(relu.meta)
    # The line of the convolution says more than that of its activation.
    fused.meta["stack_trace"] = convolution.meta.get("stack_trace", relu.meta.get("stack_trace"))
    relu.replace_all_uses_with(fused)
    graph.erase_node(relu)
    graph.erase_node(convolution)
