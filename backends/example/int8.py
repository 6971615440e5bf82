"""A second example device, with integer kernels, written in Python from the partitioner to the runtime.

It computes int8 convolution, int8 linear, int8 linear with relu (one kernel each), float convolution, quantize and
dequantize. It does not know which quantizer made the graph: it looks for the quantize and dequantize nodes around an
operator. docs/how-to/add_quantizer.md builds a quantizer for it.

>>> et.Runtime.get().register_backend(BACKEND_ID, ExampleInt8Runtime)  # doctest: +SKIP
>>> edge = et.to_edge_transform_and_lower(program, partitioner=[ExampleInt8Partitioner()])  # doctest: +SKIP
"""

import io
import json
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_partitions_from_list_of_nodes,
)
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.backend.utils import arguments_of, constant_names, note_refusal, tag_constant_data

BACKEND_ID = "ExampleInt8Backend"
_TAG = "example_int8"

aten = torch.ops.aten
decomposed = torch.ops.quantized_decomposed

_QUANTIZE = "quantized_decomposed::quantize_per_tensor"
_DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor"
_DEQUANTIZE_WEIGHT = "quantized_decomposed::dequantize_per_channel"


def _name(node: Any) -> str:
    return node.target._schema.name if isinstance(node, fx.Node) and hasattr(node.target, "_schema") else ""


def _is_int8(node: fx.Node) -> bool:
    """Whether a quantize or dequantize has numbers as parameters and the whole range of int8."""
    given = arguments_of(node)
    is_whole = (given["quant_min"], given["quant_max"], given["dtype"]) == (-128, 127, torch.int8)
    return is_whole and isinstance(given["scale"], float)


class Unit:
    """An operator with the q/dq nodes around it that one integer kernel stands for.

    Attributes:
        kernel: "conv" or "linear".
        operator: The convolution or linear layer.
        relu: The relu behind it, or None.
        quantize: The quantize behind both.
        nodes: All nodes that the kernel stands for.
    """

    def __init__(self, operator: fx.Node) -> None:
        self.operator = operator
        self.kernel = "conv" if operator.target is aten.convolution.default else "linear"
        user = next(iter(operator.users))
        self.relu = user if self.kernel == "linear" and user.target is aten.relu.default else None
        self.quantize = next(iter(user.users)) if self.relu is not None and len(user.users) == 1 else user
        inputs = operator.args[:2]
        self.nodes = [n for n in (*inputs, operator, self.relu, self.quantize) if isinstance(n, fx.Node)]


def unit_of(node: fx.Node, constants: frozenset[str]) -> Unit | str:
    """The integer kernel that a convolution or linear layer is, or why it is none."""
    x, weight, bias, *_ = arguments_of(node).values()
    if _name(x) != _DEQUANTIZE or _name(weight) != _DEQUANTIZE_WEIGHT or not _is_int8(x):
        return "its input and weight are not both int8"
    if weight.args[0].name not in constants or arguments_of(weight)["axis"] != 0:
        return "its weight is no constant with a scale an output channel"
    if len(node.users) != 1:
        return "its result is used more than once"
    if bias is not None and bias.name not in constants:
        return "its bias is not constant"
    if node.target is aten.convolution.default and (why := _convolution_refusal(node)):
        return why
    unit = Unit(node)
    return unit if _name(unit.quantize) == _QUANTIZE and _is_int8(unit.quantize) else "its result is not int8"


def _convolution_refusal(node: fx.Node) -> str:
    given = arguments_of(node)
    is_plain = list(given["dilation"]) == [1, 1] and not given["transposed"] and given["groups"] == 1
    return "" if is_plain else "only 2-D convolution without dilation and groups"


class ExampleInt8Partitioner(Partitioner):
    """Tags what the device has: units of q/dq and operator, float convolutions, and the q/dq nodes between them and the
    rest.
    """

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags nodes and notes the reason at each other convolution and linear layer."""
        constants = constant_names(exported_program)
        taken: list[fx.Node] = []
        for node in exported_program.graph.nodes:
            if node.target in (aten.convolution.default, aten.linear.default):
                unit = unit_of(node, constants)
                if isinstance(unit, Unit):
                    taken += unit.nodes
                elif (
                    node.target is aten.convolution.default
                    and arguments_of(node)["weight"].name in constants
                    and not _convolution_refusal(node)
                ):
                    taken.append(node)
                else:
                    note_refusal(node, BACKEND_ID, unit)
            elif _name(node) in (_QUANTIZE, _DEQUANTIZE) and _is_int8(node):
                taken.append(node)
        tags = {}
        # A tag for each connected part: weights stand at the beginning of the graph, and under one tag they would all
        # be cut together with the first kernel.
        for part in generate_partitions_from_list_of_nodes(exported_program.graph_module, [taken]):
            tag = f"{_TAG}_{len(tags)}"
            tags[tag] = DelegationSpec(BACKEND_ID, [])
            for node in part.nodes:
                node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)


class ExampleInt8Backend(BackendDetails):
    """Writes a part as a list of kernel calls and an archive of their constants."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compiles the part."""
        graph = edge_program.graph
        constants = _constants_of(edge_program)
        inputs = [n.name for n in graph.nodes if n.op == "placeholder" and n.name not in constants]
        steps: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        done: set[fx.Node] = set()
        units = {}
        for node in graph.nodes:
            if node.target in (aten.convolution.default, aten.linear.default):
                unit = unit_of(node, frozenset(constants))
                if isinstance(unit, Unit):
                    units[unit.operator] = unit
                    done.update(n for n in unit.nodes if n is not unit.operator)
        for node in graph.nodes:
            if node.op != "call_function" or node in done:
                continue
            if node in units:
                steps.append(_integer_step(units[node], constants, arrays))
            elif node.target is aten.convolution.default:
                arrays[f"{node.name}.weight"] = constants[arguments_of(node)["weight"].name]
                arrays[f"{node.name}.bias"] = _bias(node, constants)
                steps.append(
                    {"kernel": "float_conv", "input": node.args[0].name, "output": node.name, **_geometry(node)}
                )
            else:
                kernel = "quantize" if _name(node) == _QUANTIZE else "dequantize"
                numbers = {name: arguments_of(node)[name] for name in ("scale", "zero_point")}
                steps.append({"kernel": kernel, "input": node.args[0].name, "output": node.name, **numbers})
        outputs = [node.name for node in next(reversed(graph.nodes)).args[0]]
        archive = io.BytesIO()
        plan = json.dumps({"inputs": inputs, "outputs": outputs, "steps": steps})
        np.savez(archive, plan=np.frombuffer(plan.encode(), np.uint8), **arrays)
        return PreprocessResult(archive.getvalue())


def _constants_of(program: ExportedProgram) -> dict[str, np.ndarray]:
    """Placeholder -> the constant that it stands for."""
    held = {**program.state_dict, **program.constants}
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    specs = program.graph_signature.input_specs
    return {
        name: held[spec.target].detach().numpy() for name, spec in zip(names, specs, strict=True) if spec.target in held
    }


def _bias(node: fx.Node, constants: dict[str, np.ndarray]) -> np.ndarray:
    _, weight, bias, *_ = arguments_of(node).values()
    return np.zeros(weight.meta["val"].shape[0], np.float32) if bias is None else constants[bias.name]


def _geometry(node: fx.Node) -> dict[str, list[int]]:
    given = arguments_of(node)
    return {name: list(given[name]) * (2 // len(given[name])) for name in ("stride", "padding")}


def _integer_step(unit: Unit, constants: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    node, result = unit.operator, unit.quantize
    before, weights, behind = (arguments_of(one) for one in (*node.args[:2], result))
    scales = constants[weights["scales"].name].astype(np.float32)
    arrays[f"{result.name}.weight"] = constants[weights["input"].name]
    arrays[f"{result.name}.scales"] = np.float32(before["scale"]) * scales / np.float32(behind["scale"])
    # The accumulator has the scale of input times weight; so has the bias that is added to it.
    bias = np.rint(_bias(node, constants) / (before["scale"] * scales.astype(np.float64)))
    arrays[f"{result.name}.bias"] = bias.astype(np.int32)
    return {
        "kernel": unit.kernel,
        "input": before["input"].name,
        "output": result.name,
        "input_zero_point": before["zero_point"],
        "zero_point": behind["zero_point"],
        "relu": unit.relu is not None,
        **(_geometry(node) if unit.kernel == "conv" else {}),
    }


class ExampleInt8Runtime:
    """Runs such a list with numpy: int32 accumulators, one float32 scale a channel, ties to even."""

    def init(self, context: Any, processed: bytes, compile_specs: Any) -> Any:
        """Reads the payload."""
        archive = np.load(io.BytesIO(bytes(processed)), allow_pickle=False)
        arrays = {name: archive[name] for name in archive.files}
        return json.loads(arrays.pop("plan").tobytes()), arrays

    def execute(self, context: Any, handle: Any, args: Any) -> None:
        """Runs one call: inputs, then outputs."""
        plan, arrays = handle
        count = len(plan["inputs"])
        values = dict(zip(plan["inputs"], args[:count], strict=True))
        for step in plan["steps"]:
            parts = {part: arrays.get(f"{step['output']}.{part}") for part in ("weight", "scales", "bias")}
            values[step["output"]] = _run_step(step, values[step["input"]], **parts)
        for index, name in enumerate(plan["outputs"]):
            context.resize(count + index, values[name].shape)[...] = values[name]


def _run_step(step: dict[str, Any], x: np.ndarray, weight: Any, scales: Any, bias: Any) -> np.ndarray:
    kernel = step["kernel"]
    if kernel == "quantize":
        return _to_int8(x * np.float32(1 / step["scale"]), step["zero_point"])
    if kernel == "dequantize":
        return (x.astype(np.float32) - step["zero_point"]) * np.float32(step["scale"])
    if kernel == "float_conv":
        return _convolve(x, weight, step) + bias.reshape(1, -1, 1, 1)
    centered = x.astype(np.int32) - step["input_zero_point"]
    if kernel == "conv":
        sums = _convolve(centered, weight.astype(np.int32), step) + bias.reshape(1, -1, 1, 1)
        return _to_int8(sums.astype(np.float32) * scales.reshape(1, -1, 1, 1), step["zero_point"])
    sums = centered @ weight.astype(np.int32).T + bias
    return _to_int8(sums.astype(np.float32) * scales, step["zero_point"], step["relu"])


def _to_int8(steps: np.ndarray, zero_point: int, relu: bool = False) -> np.ndarray:
    lowest = zero_point if relu else -128
    return np.clip(np.rint(steps) + zero_point, lowest, 127).astype(np.int8)


def _convolve(x: np.ndarray, weight: np.ndarray, step: dict[str, Any]) -> np.ndarray:
    """X [n, c, h, w] with weight [o, c, kh, kw] -> [n, o, h', w'], in the type of both."""
    (top, left), (down, right) = step["padding"], step["stride"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, top), (left, left)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))[:, :, ::down, ::right]
    return np.einsum("nchwij,ocij->nohw", windows, weight)
