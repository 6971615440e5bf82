"""Base classes of users' passes over fx graphs, under their published names.

A pass is a callable ``graph_module -> PassResult`` (or None, for "changed in place"). ``ExportPass`` re-traces the graph
operator by operator, so that a pass overrides ``call_operator`` and gets right metadata for free.
"""

from torch._export.pass_base import ProxyValue
from torch._export.pass_base import _ExportPassBaseDeprecatedDoNotUse as _TracingPass
from torch._export.pass_infra.node_metadata import NodeMetadata
from torch.fx.passes.infra.pass_base import PassBase, PassResult


class ExportPass(_TracingPass):
    """A pass that overrides ``call_operator(op, args, kwargs, meta)`` and the like."""


__all__ = ["ExportPass", "NodeMetadata", "PassBase", "PassResult", "ProxyValue"]
