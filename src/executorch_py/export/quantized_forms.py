"""Brings other ways of saying quantization into the one that lowering knows: the operators of ``quantized_decomposed``.

what stands in the program                                     becomes
torchao's affine operators on a constant weight                dequantize_per_channel, …_channel_group or …_tensor
torchao's affine operators on an activation                    choose_qparams…, quantize… and dequantize_per_token or …_tensor
pairs of conversions to float16 and back around operators      the operators in float16

Models come with the first two from ``torchao.quantization.quantize_``, with the last from a float16 configuration of a quantizer.

    >>> program = canonical_quantization(functionalize(exported))  # doctest: +SKIP
"""

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.errors import Diagnostic, ErrorCode, NotSupportedError

from .rewriting import GraphWriter
from .sources import source_of

aten = torch.ops.aten

_CHOOSE, _QUANTIZE, _DEQUANTIZE = (f"torchao::{name}_affine" for name in ("choose_qparams", "quantize", "dequantize"))
_CONVERT = "quantized_decomposed::convert_element_type"
_EAGER = "quantized::"


def canonical_quantization(program: ExportedProgram) -> ExportedProgram:
    """An equal program in the one form; ``program`` itself when there is nothing to do.

    Raises:
        NotSupportedError: A granularity or a dtype that no form of ours says; operators of eager-mode quantization.
    """
    names = {_name(node) for node in program.graph.nodes if node.op == "call_function"}
    for node in program.graph.nodes:
        if _name(node).startswith(_EAGER):
            raise _refusal(
                node,
                "it is an operator of eager-mode torch.ao.quantization; quantize the float model with executorch_py.quantizer",
            )
    if names & {_CHOOSE, _QUANTIZE, _DEQUANTIZE}:
        program = _Affine(program).run()
    if _CONVERT in names:
        program = _Half(program).run()
    return program


def _name(node: Any) -> str:
    """The operator's name without its overload."""
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return "" if schema is None else str(schema.name)


def _refusal(node: fx.Node, why: str) -> NotSupportedError:
    source = source_of(node)
    return NotSupportedError(
        f"{node.target} has no quantized form here: {why}",
        diagnostics=[
            Diagnostic(
                why,
                ErrorCode.NotSupported,
                op=str(node.target),
                node=node.name,
                module_path=source.module_path or None,
                file=source.file or None,
                line=source.line or None,
            )
        ],
    )


class _Rewriter:
    """One walk over a program that copies what it does not change."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.writer = GraphWriter(program)
        self.value: dict[fx.Node, Any] = {}
        signature = program.graph_signature
        written = {spec.target for spec in signature.output_specs if spec.target is not None}
        held = {**program.constants, **program.state_dict}
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        self.constants: dict[fx.Node, torch.Tensor] = {
            node: held[spec.target]
            for node, spec in zip(placeholders, signature.input_specs, strict=True)
            if spec.target in held and spec.target not in written and isinstance(held[spec.target], torch.Tensor)
        }

    def run(self) -> ExportedProgram:
        root = torch.nn.Module()
        outputs: list[Any] = []
        for node in self.program.graph.nodes:
            if node.op == "get_attr":
                setattr(root, str(node.target), getattr(self.program.graph_module, str(node.target)))
            if node.op == "output":
                outputs = [self.read(a) if isinstance(a, fx.Node) else a for a in node.args[0]]
            elif node.op != "call_function" or not self.rewrite(node):
                self.value[node] = self.writer.copy_node(node, self.read)
        return self.writer.finish(outputs, self.program.graph_signature.output_specs, root)

    def read(self, node: fx.Node) -> Any:
        return self.value[node]

    def rewrite(self, node: fx.Node) -> bool:
        """Writes what stands for a node; False to copy it."""
        raise NotImplementedError

    def fake_of(self, tensor: torch.Tensor, like: fx.Node) -> torch.Tensor:
        with like.meta["val"].fake_mode:
            return torch.empty(tensor.shape, dtype=tensor.dtype)


class _Affine(_Rewriter):
    """torchao's affine operators, by their block sizes."""

    def rewrite(self, node: fx.Node) -> bool:
        name = _name(node)
        if name == _DEQUANTIZE:
            self.value[node] = self._weight(node) if node.args[0] in self.constants else self._activation(node)
        elif name == _QUANTIZE:
            self.value[node] = self._activation(node)
        elif name == _CHOOSE:
            self.value[node] = self._choose(node)
        else:
            return False
        return True

    def _arguments(self, node: fx.Node) -> dict[str, Any]:
        schema = node.target._schema  # type: ignore[union-attr]
        values = {argument.name: argument.default_value for argument in schema.arguments}
        values.update(zip((argument.name for argument in schema.arguments), node.args, strict=False))
        values.update(node.kwargs)
        return values

    def _weight(self, node: fx.Node) -> fx.Node:
        given = self._arguments(node)
        integers = self.constants[given["input"]]
        if integers.dtype != torch.int8 or given["output_dtype"] != torch.float32:
            raise _refusal(node, f"weights of {integers.dtype} for {given['output_dtype']}; only int8 for float32")
        scale = self._constant(node, given["scale"]).float()
        points = given["zero_point"]
        zero_points = torch.zeros_like(scale) if points is None else self._constant(node, points)
        low, high = self._limits(given, "input_dtype")
        block, sizes = [int(size) for size in given["block_size"]], list(integers.shape)
        q, value, x = torch.ops.quantized_decomposed, node.meta["val"], self.read(given["input"])
        if block == sizes:
            args = (x, float(scale.reshape(())), int(zero_points.reshape(())), low, high, torch.int8)
            return self.writer.emit(node, q.dequantize_per_tensor.default, args, None, value)
        axes = [axis for axis, (one, size) in enumerate(zip(block, sizes, strict=True)) if one != size]
        if len(axes) == 1 and block[axes[0]] == 1:
            scales = self._lift(node, scale.reshape(-1)), self._lift(node, zero_points.reshape(-1).long())
            args = (x, *scales, axes[0], low, high, torch.int8)
            return self.writer.emit(node, q.dequantize_per_channel.default, args, None, value)
        if len(sizes) == 2 and block[0] == 1 and sizes[1] % block[1] == 0:
            shape = (sizes[0], sizes[1] // block[1])
            scales = self._lift(node, scale.reshape(shape)), self._lift(node, zero_points.reshape(shape).long())
            args = (x, *scales, low, high, torch.int8, block[1], torch.float32)
            return self.writer.emit(node, q.dequantize_per_channel_group.default, args, None, value)
        raise _refusal(node, f"blocks of {block} in a weight of {sizes}")

    def _choose(self, node: fx.Node) -> Any:
        given = self._arguments(node)
        low, high = self._limits(given, "target_dtype")
        q, x = torch.ops.quantized_decomposed, self.read(given["input"])
        symmetric = given["mapping_type"] != "ASYMMETRIC"
        scale, point = node.meta["val"][0], node.meta["val"][1]
        if self._is_per_token(given["block_size"], given["input"]):
            if symmetric:
                raise _refusal(node, "symmetric scales a token; only asymmetric ones")
            call = self.writer.emit(
                node,
                q.choose_qparams_per_token_asymmetric.default,
                (x, torch.int8),
                None,
                (scale.double(), point.long()),
            )
        else:
            self._require_whole(node, given)
            target = q.choose_qparams_symmetric.tensor if symmetric else q.choose_qparams.tensor
            eps = given["eps"] or torch.finfo(torch.float32).eps
            call = self.writer.emit(node, target, (x, low, high, eps, torch.int8), None, (scale.double(), point.long()))
        return call

    def _activation(self, node: fx.Node) -> fx.Node:
        given = self._arguments(node)
        quantizes = _name(node) == _QUANTIZE
        low, high = self._limits(given, "output_dtype" if quantizes else "input_dtype")
        q, x = torch.ops.quantized_decomposed, self.read(given["input"])
        per_token = self._is_per_token(given["block_size"], given["input"])
        if not per_token:
            self._require_whole(node, given)
        if given["zero_point"] is None:
            raise _refusal(node, "an activation without zero points")
        args: tuple[Any, ...] = (x, self.read(given["scale"]), self.read(given["zero_point"]), low, high, torch.int8)
        if quantizes:
            target = q.quantize_per_token.default if per_token else q.quantize_per_tensor.tensor
        else:
            target = q.dequantize_per_token.default if per_token else q.dequantize_per_tensor.tensor
            args = (*args, torch.float32) if per_token else args
        return self.writer.emit(node, target, args, None, node.meta["val"])

    def _limits(self, given: dict[str, Any], dtype: str) -> tuple[int, int]:
        limits = torch.iinfo(given[dtype])
        low, high = given["quant_min"], given["quant_max"]
        return (limits.min if low is None else int(low)), (limits.max if high is None else int(high))

    def _is_per_token(self, block: Any, x: fx.Node) -> bool:
        sizes = list(x.meta["val"].shape)
        return list(block)[:-1] == [1] * (len(sizes) - 1) and block[-1] == sizes[-1]

    def _require_whole(self, node: fx.Node, given: dict[str, Any]) -> None:
        sizes = list(given["input"].meta["val"].shape)
        if list(given["block_size"]) != sizes:
            raise _refusal(node, f"blocks of {list(given['block_size'])} in an activation of {sizes}")

    def _constant(self, node: fx.Node, source: fx.Node) -> torch.Tensor:
        if source not in self.constants:
            raise _refusal(node, "scales that are no constants")
        return self.constants[source].detach()

    def _lift(self, node: fx.Node, tensor: torch.Tensor) -> fx.Node:
        return self.writer.lift_constant(tensor.contiguous(), self.fake_of(tensor, node))


class _Half(_Rewriter):
    """Operators between conversions to float16 and back compute in float16."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program)
        self._half: dict[fx.Node, fx.Node] = {}  # old node -> its value in float16, in the new graph
        self._wanted = _read_in_half_only(program.graph)
        self._constants: dict[fx.Node, fx.Node] = {}

    def rewrite(self, node: fx.Node) -> bool:
        if _name(node) == _CONVERT:
            self._convert(node)
            return True
        inputs = [n for n in node.all_input_nodes if _is_float(n)]
        if node not in self._wanted or not inputs or not all(n in self._half for n in inputs):
            return False
        value = node.meta["val"]
        new = self.writer.copy_node(node, lambda old: self._half[old] if old in self._half else self.read(old))
        with value.fake_mode:
            new.meta["val"] = torch.empty_strided(value.shape, value.stride(), dtype=torch.float16)
        self._half[node] = new
        return True

    def read(self, node: fx.Node) -> Any:
        if node not in self.value and node in self._half:  # float32 is asked for
            self.value[node] = self.writer.emit(
                node, aten._to_copy.default, (self._half[node],), {"dtype": torch.float32}, node.meta["val"]
            )
        return self.value[node]

    def _convert(self, node: fx.Node) -> None:
        source, dtype = node.args[0], node.args[1]
        if dtype == torch.float16:
            self._half[node] = self._in_half(node, source)
        elif source in self._half:
            self._half[node] = self._half[source]
        else:
            self.value[node] = self.writer.emit(
                node, aten._to_copy.default, (self.read(source),), {"dtype": dtype}, node.meta["val"]
            )

    def _in_half(self, node: fx.Node, source: fx.Node) -> fx.Node:
        if source in self._half:
            return self._half[source]
        if source in self.constants:
            if source not in self._constants:
                tensor = self.constants[source].detach().half()
                self._constants[source] = self.writer.lift_constant(tensor, self.fake_of(tensor, node))
            return self._constants[source]
        return self.writer.emit(
            node, aten._to_copy.default, (self.read(source),), {"dtype": torch.float16}, node.meta["val"]
        )


def _read_in_half_only(graph: fx.Graph) -> set[fx.Node]:
    """Nodes whose results are only read by conversions to float16, or by operators of which the same holds."""
    found: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        value = node.meta.get("val")
        if (
            node.op != "call_function"
            or not isinstance(value, torch.Tensor)
            or value.dtype != torch.float32
            or not node.users
        ):
            continue
        if all(user.args[1] == torch.float16 if _name(user) == _CONVERT else user in found for user in node.users):
            found.add(node)
    return found


def _is_float(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float16)
