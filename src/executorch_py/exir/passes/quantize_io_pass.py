"""Passes that take quantization off the border of a method, under their published names: integers go in and out.

``ExecutorchBackendConfig(quantized_io=True)`` does the same for all inputs and outputs at once, after delegation. These
choose by index, and note scale, zero point, range and element type as constant methods of the program.

Example:
    >>> edge = edge.transform([QuantizeInputs(edge, [0]), QuantizeOutputs(edge, [0])])  # doctest: +SKIP
    >>> edge.config_methods  # doctest: +SKIP
    {'input0_scale', 'input0_zp', …}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import fx
from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401  defines the operators
from torch.export import ExportedProgram

from executorch_py import _arguments
from executorch_py.errors import InvalidArgumentError
from executorch_py.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from executorch_py.graphs.dtypes import dtype_code

__all__ = ["QuantizeInputs", "QuantizeOutputs", "get_config_method_name", "quantize_input", "quantize_output"]

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default
_KEYS = ("scale", "zp", "quant_min", "quant_max", "dtype")


def get_config_method_name(
    prefix: str | None = "forward", arg_type: str = "input", index: int = 0, key: str = "scale"
) -> str:
    """The name of the constant method that tells ``key`` of an input or output: "forward_input0_scale".

    Raises:
        InvalidArgumentError: ``key`` or ``arg_type`` is another word.
    """
    if key not in _KEYS or arg_type not in ("input", "output"):
        raise InvalidArgumentError(f"'{arg_type}' must be input or output, and '{key}' one of {', '.join(_KEYS)}")
    return f"{prefix}_{arg_type}{index}_{key}" if prefix else f"{arg_type}{index}_{key}"


def quantize_input(
    exported_program: ExportedProgram, input_index: int, qparams: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Makes one input a tensor of integers.

    Args:
        exported_program: Its graph is changed.
        input_index: Which one, among the user's inputs.
        qparams: scale, zp, quant_min, quant_max and dtype, for an input that the model does not quantize; None: those
            with which the model does.

    Returns:
        These five.

    Raises:
        InvalidArgumentError: There is no such input, or the model does not quantize it with one scale.
    """
    graph = exported_program.graph
    name = _indexed("input", exported_program.graph_signature.user_inputs, input_index)
    node = next(one for one in graph.nodes if one.name == name)
    quantize = next((user for user in node.users if user.target is _QUANTIZE), None)
    if qparams is None and (quantize is None or len(node.users) > 1):
        readers = ", ".join(str(user) for user in node.users) or "nobody"
        raise InvalidArgumentError(
            f"input {input_index} ('{node.name}') is read by {readers}; it must be read by one quantization, or "
            "qparams given"
        )
    found = _numbers(quantize) if qparams is None else _given(qparams, input_index)
    value = node.meta["val"]
    if qparams is None:
        quantize.replace_all_uses_with(node)
        graph.erase_node(quantize)
    else:
        with graph.inserting_after(node):
            arguments = (found["scale"], found["zp"], found["quant_min"], found["quant_max"], found["dtype"])
            dequantize = graph.call_function(_DEQUANTIZE, (node, *arguments))
        node.replace_all_uses_with(dequantize, delete_user_cb=lambda user: user is not dequantize)
        dequantize.meta["val"] = value
    node.meta["val"] = value.to(found["dtype"])
    exported_program.graph_module.recompile()
    return found


def quantize_output(exported_program: ExportedProgram, output_index: int) -> dict[str, Any]:
    """Makes one output a tensor of integers: the dequantization before it goes.

    Returns:
        scale, zp, quant_min, quant_max and dtype.

    Raises:
        InvalidArgumentError: There is no such output, or the model does not dequantize it with one scale.
    """
    graph = exported_program.graph
    name = _indexed("output", exported_program.graph_signature.user_outputs, output_index)
    output = next(reversed(graph.nodes))
    node = next(one for one in output.all_input_nodes if one.name == name)
    if node.target is not _DEQUANTIZE:
        raise InvalidArgumentError(
            f"output {output_index} ('{name}') comes from {node.target}, must from a dequantization"
        )
    integers = node.args[0]
    output.args = fx.map_arg(output.args, lambda one: integers if one is node else one)
    for spec in exported_program.graph_signature.output_specs:
        if spec.arg.name == name:
            spec.arg.name = integers.name
    if not node.users:
        graph.erase_node(node)
    exported_program.graph_module.recompile()
    return _numbers(node)


class TakesConstantMethods(Protocol):
    """What the passes want of an EdgeProgramManager."""

    def add_constant_method(self, name: str, value: Any) -> None:
        """Adds a method that returns ``value``."""


class _Border(ExportedProgramPassBase):
    """Changes the border of the method that it runs on, and notes the numbers in the manager."""

    side = ""

    def __init__(self, manager: TakesConstantMethods, method: str | None, indices: Iterable[int]) -> None:
        self.manager, self.method, self.indices = manager, method, indices

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Changes the program."""
        for index in self.indices:
            for key, value in self.changed(exported_program, index).items():
                name = get_config_method_name(self.method, self.side, index, key)
                self.manager.add_constant_method(name, dtype_code(value) if key == "dtype" else value)
        return ExportedProgramPassResult(exported_program, True)

    def changed(self, program: ExportedProgram, index: int) -> dict[str, Any]:
        """Makes one input or output a tensor of integers."""
        raise NotImplementedError


class QuantizeInputs(_Border):
    """Inputs become tensors of integers.

    Args:
        edge_program_manager: The manager whose ``transform`` runs the pass; it gets the constant methods.
        quantized_inputs_idx: Indices, or for each index the numbers (:func:`quantize_input`).
        method_name: Stands in front of the constant methods' names.
        exported_program: Taken for the published API's sake; it is the one that the pass runs on.
    """

    side = "input"

    def __init__(
        self,
        edge_program_manager: TakesConstantMethods,
        quantized_inputs_idx: Mapping[int, Mapping[str, Any]] | Sequence[int],
        method_name: str | None = None,
        exported_program: ExportedProgram | None = None,
    ) -> None:
        super().__init__(edge_program_manager, method_name, quantized_inputs_idx)
        self.given = quantized_inputs_idx if isinstance(quantized_inputs_idx, Mapping) else {}

    def changed(self, program: ExportedProgram, index: int) -> dict[str, Any]:
        """One input."""
        return quantize_input(program, index, self.given.get(index))


class QuantizeOutputs(_Border):
    """Outputs become tensors of integers.

    Args:
        edge_program_manager: The manager whose ``transform`` runs the pass; it gets the constant methods.
        quantized_outputs_idx_list: Indices.
        method_name: Stands in front of the constant methods' names.
        exported_program: Taken for the published API's sake; it is the one that the pass runs on.
    """

    side = "output"

    def __init__(
        self,
        edge_program_manager: TakesConstantMethods,
        quantized_outputs_idx_list: Sequence[int],
        method_name: str | None = None,
        exported_program: ExportedProgram | None = None,
    ) -> None:
        super().__init__(edge_program_manager, method_name, quantized_outputs_idx_list)

    def changed(self, program: ExportedProgram, index: int) -> dict[str, Any]:
        """One output."""
        return quantize_output(program, index)


def _indexed(what: str, names: Sequence[Any], index: int) -> str:
    if not 0 <= _arguments.integer(f"the index of an {what}", index, 0, 2**31) < len(names):
        raise InvalidArgumentError(f"there is no {what} {index}; the method has {len(names)}")
    return str(names[index])


def _numbers(node: fx.Node) -> dict[str, Any]:
    return dict(zip(_KEYS, node.args[1:6], strict=True))


def _given(numbers: Mapping[str, Any], index: int) -> dict[str, Any]:
    if missing := [key for key in _KEYS if key not in numbers]:
        raise InvalidArgumentError(f"the numbers of input {index} lack {', '.join(missing)}")
    return {key: numbers[key] for key in _KEYS}
