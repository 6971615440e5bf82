"""Operator supports that keep nodes away from a partitioner: by operator, by name, by module.

>>> support = chain(MySupport(), DontPartition("aten.softmax", exact=False))  # doctest: +SKIP
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx.passes.operator_support import OperatorSupportBase

from executorch_py.errors import InvalidArgumentError

__all__ = ["DontPartition", "DontPartitionModule", "DontPartitionName", "DontSupportBase"]


class DontSupportBase(OperatorSupportBase):
    """Accepts every node but some, and remembers those."""

    def __init__(self) -> None:
        self._rejected: list[fx.Node] = []

    @abstractmethod
    def _is_meant(self, node: fx.Node) -> bool:
        """Whether the node is to be left alone."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        """False for the nodes that are meant."""
        if node.op == "call_function" and self._is_meant(node):
            self.reject_node(node)
            return False
        return True

    def reject_node(self, node: fx.Node) -> None:
        """Remembers a node that is left alone."""
        if node not in self._rejected:
            self._rejected.append(node)

    def rejected_nodes(self) -> list[fx.Node]:
        """The nodes that were left alone."""
        return list(self._rejected)

    def num_rejected(self) -> int:
        """How many."""
        return len(self._rejected)

    def has_rejected_node(self) -> bool:
        """Whether any."""
        return bool(self._rejected)


def _matches(text: str, wanted: str, exact: bool) -> bool:
    return text == wanted if exact else wanted in text


class DontPartition(DontSupportBase):
    """Leaves operators alone: overloads, or names as "aten.relu.default"; ``exact=False``: parts of names."""

    def __init__(self, *targets: OpOverload | str, exact: bool = True) -> None:
        super().__init__()
        self.targets = targets
        self.exact = exact

    def _is_meant(self, node: fx.Node) -> bool:
        return any(
            _matches(str(node.target), one, self.exact) if isinstance(one, str) else node.target == one
            for one in self.targets
        )


class DontPartitionName(DontSupportBase):
    """Leaves nodes of these names alone; ``exact=False``: parts of names."""

    def __init__(self, *targets: str, exact: bool = True) -> None:
        super().__init__()
        self.targets = targets
        self.exact = exact

    def _is_meant(self, node: fx.Node) -> bool:
        return any(_matches(node.name, one, self.exact) for one in self.targets)


class DontPartitionModule(DontSupportBase):
    """Leaves the operators of modules alone.

    Args:
        module_name: Name of a class, "Attention" or "model.Attention".
        instance_name: Path of a module, "layers.0".
        exact: False: parts of names.

    Raises:
        InvalidArgumentError: Both or none of the two are given.
    """

    def __init__(self, *, module_name: str | None = None, instance_name: str | None = None, exact: bool = True) -> None:
        super().__init__()
        if (module_name is None) == (instance_name is None):
            raise InvalidArgumentError("give module_name or instance_name, exactly one of the two")
        self.module_name = module_name
        self.instance_name = instance_name
        self.exact = exact

    def _is_meant(self, node: fx.Node) -> bool:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            if self.instance_name is not None and _matches(str(path), self.instance_name, self.exact):
                return True
            if self.module_name is not None:
                name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
                name = name if "." in self.module_name else name.rpartition(".")[2]
                if _matches(name, self.module_name, self.exact):
                    return True
        return False
