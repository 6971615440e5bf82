"""Programs that also return values from inside: for tools that look for where a value goes wrong."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.utils import _pytree as pytree

from executorch_py.graphs.rewriting import copied

from .delegated import Delegated
from .extraction import rebuilt

__all__ = ["with_outputs"]


def with_outputs(method: Delegated, names: Sequence[str]) -> Delegated:
    """A copy whose last outputs are the values of these nodes; what is delegated stays so."""
    program = copied(method.program)
    nodes = {node.name: node for node in program.graph.nodes}
    last = next(reversed(program.graph.nodes))
    last.args = ((*last.args[0], *(nodes[name] for name in names)),)
    signature = copy.copy(program.graph_signature)
    added = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name), None) for name in names]
    signature.output_specs = [*signature.output_specs, *added]
    count = sum(spec.kind is OutputKind.USER_OUTPUT for spec in signature.output_specs)
    outputs = [TensorArgument(name) for name in names]
    spec = pytree.tree_structure(tuple(range(count)))
    calls = [
        replace(call, signature=replace(call.signature, outputs=[*call.signature.outputs, *outputs], out_spec=spec))
        if call.fqn == "" and call.signature is not None
        else call
        for call in program.module_call_graph
    ]
    program._module_call_graph = calls
    return replace(method, program=rebuilt(program, signature))
