"""The demonstration backend of the published tutorials, with its partitioners, under the published names.

It writes a payload that says which operators it got, as text; no runtime has it. A backend that runs is
``executorch_py.backends.example``.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

from executorch_py.errors import NotSupportedError
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.canonical_partitioners.pattern_op_partitioner import generate_pattern_op_partitions
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

__all__ = ["AddAttributePartitionerDemo", "AddMulPartitionerDemo", "BackendWithCompilerDemo"]

_ADD, _MM, _SIN = torch.ops.aten.add.Tensor, torch.ops.aten.mm.default, torch.ops.aten.sin.default


class BackendWithCompilerDemo(BackendDetails):
    """Takes sums, products of matrices, and sines; the payload is a line for each."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Writes the operators down.

        Raises:
            NotSupportedError: Another operator is among them.
        """
        calls = [node for node in edge_program.graph.nodes if node.op == "call_function"]
        lines = [f"op:{_described(node)}<debug_handle>{node.meta.get('debug_handle', 0)}#" for node in calls]
        return PreprocessResult(f"{len(calls)}version:0#{''.join(lines)}".encode())


def _described(node: fx.Node) -> str:
    if node.target not in (_ADD, _MM, _SIN):
        raise NotSupportedError(
            f"BackendWithCompilerDemo does not take '{node.name}' ({node.target}); it takes {_ADD}, {_MM} and {_SIN}"
        )
    value = node.meta["val"]
    return f"demo::{node.target}, numel:{value.numel()}, dtype:{value.dtype}"


class _Operators(Partitioner):
    """Tags each connected part of some operators."""

    operators: tuple[OpOverload, ...] = ()

    def __init__(self, compile_specs: list[CompileSpec]) -> None:
        super().__init__()
        self.delegation_spec = DelegationSpec(BackendWithCompilerDemo.__name__, compile_specs)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags them."""
        tags = {}
        for part in generate_pattern_op_partitions(exported_program.graph_module, op_support=_Support(self.operators)):
            tag = f"tag{part.id}"
            tags[tag] = self.delegation_spec
            for node in part.nodes:
                node.meta["delegation_tag"] = tag
        return PartitionResult(exported_program, tags)


class _Support(OperatorSupportBase):
    def __init__(self, operators: tuple[OpOverload, ...]) -> None:
        self.operators = operators

    def is_node_supported(self, submodules: object, node: fx.Node) -> bool:
        """Whether it is a call of one."""
        return node.op == "call_function" and node.target in self.operators


class AddMulPartitionerDemo(_Operators):
    """Sums and products of matrices go to the demonstration backend."""

    operators = (_ADD, _MM)

    def __init__(self) -> None:
        super().__init__([CompileSpec("max_value", bytes([4]))])


class AddAttributePartitionerDemo(_Operators):
    """Sums go to the demonstration backend."""

    operators = (_ADD,)

    def __init__(self) -> None:
        super().__init__([])
