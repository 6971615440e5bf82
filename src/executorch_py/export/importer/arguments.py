"""A node's arguments in the order of its operator's schema, each in the form that the IR takes.

Defaults are filled in, and one number for all spatial dimensions is written for each. Dtypes become numbers, layouts,
devices and memory formats become None (Edge is row-major and on the CPU), ints given for floats become floats. One plan
an operator, made once.
"""

import functools
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py.graphs.dtypes import dtype_code

from .builder import Builder


class SchemaArguments:
    """How to write the arguments of one operator."""

    def __init__(self, op: OpOverload) -> None:
        self._plan = [
            (argument.name, str(argument.real_type), argument.has_default_value(), argument.default_value)
            for argument in op._schema.arguments
        ]
        # A list of one number stands for as many as the schema says; of a convolution, for those that its weight has.
        self._lengths = [argument.N for argument in op._schema.arguments]
        self._is_convolution = op is torch.ops.aten.convolution.default

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def of(op: OpOverload) -> "SchemaArguments":
        """The plan of ``op``."""
        return SchemaArguments(op)

    def fill(self, importer: Builder, node: fx.Node, given: Any = None, named: Any = None) -> list[Any]:
        """All arguments of ``node``; of the call in it when ``given`` and ``named`` are."""
        given = node.args if given is None else given
        named = node.kwargs if named is None else named
        arguments = []
        for index, (name, kind, has_default, default) in enumerate(self._plan):
            if index < len(given):
                value = given[index]
            elif name in named:
                value = named[name]
            elif has_default:
                value = default
            else:
                importer.refuse(node, f"argument '{name}' is missing")
            converted = _converted(importer, node, name, kind, value)
            if isinstance(converted, list) and len(converted) == 1 and "int" in kind.lower():
                converted *= _num_spatial(given, named) if self._is_convolution else self._lengths[index] or 1
            arguments.append(converted)
        return arguments


def _num_spatial(given: Any, named: Any) -> int:
    """Spatial dimensions of the weight of a convolution."""
    weight = given[1] if len(given) > 1 else named["weight"]
    return weight.meta["val"].dim() - 2


def _converted(importer: Builder, node: fx.Node, name: str, kind: str, value: Any) -> Any:
    if isinstance(value, fx.Node):
        return importer.value(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return float(value) if "float" in kind else value
    if isinstance(value, float):
        return value
    if isinstance(value, (list, tuple)):
        return _list(importer, node, name, kind, value)
    if isinstance(value, torch.dtype):
        code = dtype_code(value)
        return (
            code if code is not None else importer.refuse(node, f"dtype {value} (argument '{name}') is not supported")
        )
    if isinstance(value, torch.device):
        if value.type != "cpu":
            importer.refuse(node, f"argument '{name}' names the device {value}; programs are lowered for the CPU")
        return None
    if isinstance(value, (torch.layout, torch.memory_format)):
        return None
    if isinstance(value, complex):
        importer.refuse(node, f"argument '{name}' is a complex number, which has no form in a program")
    return importer.refuse(node, f"argument '{name}' is a {type(value).__name__}, which has no form in a program")


def _list(importer: Builder, node: fx.Node, name: str, kind: str, values: Any) -> list[Any]:
    as_float = "float" in kind
    converted = []
    for value in values:
        if isinstance(value, fx.Node):
            converted.append(importer.value(value))
        elif isinstance(value, bool) or value is None:
            converted.append(value)
        elif isinstance(value, (int, float)):
            converted.append(float(value) if as_float else value)
        else:
            converted.append(_converted(importer, node, name, kind, value))
    return converted
