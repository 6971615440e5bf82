"""Brings other ways of saying quantization into the one that lowering knows: the operators of ``quantized_decomposed``.

what stands in the program                               becomes
torchao's affine operators on a constant weight          dequantize_per_channel, …_channel_group or …_tensor
torchao's affine operators on an activation              choose_qparams…, quantize… and dequantize_per_token or …_tensor
torchao's products of integers, their scales and bias    linear of a dequantized weight and activation (a scale a token)
tensor subclasses                                        the tensors in them
pairs of conversions to float16 and back around operators    the operators in float16

Models come with the first two from ``torchao.quantization.quantize_``, with the last from a float16 configuration of a
quantizer.

    >>> program = canonical_quantization(functionalize(exported))  # doctest: +SKIP
"""

import copy
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from executorch_py.errors import Diagnostic, ErrorCode, NotSupportedError
from executorch_py.export.dialect.custom_operators import operator_name
from executorch_py.export.dialect.operators import LIMITING, MOVING
from executorch_py.graphs.dtypes import dtype_code
from executorch_py.graphs.nodes import arguments_of
from executorch_py.graphs.rewriting import GraphWriter, RegionWriter, nodes_with_bodies
from executorch_py.graphs.sources import source_of
from executorch_py.operators import known_operators

aten = torch.ops.aten

_CHOOSE, _QUANTIZE, _DEQUANTIZE = (f"torchao::{name}_affine" for name in ("choose_qparams", "quantize", "dequantize"))
_INNER = "export::access_subclass_inner_tensor"
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
                "it is an operator of eager-mode torch.ao.quantization; quantizer.from_torch_quantized(model) gives a "
                "module without it, or quantize the float model with executorch_py.quantizer",
            )
    # Where torch made the program functional, tensor subclasses are gone, and only a product with integers is left of
    # them.
    held = (*program.state_dict.values(), *program.constants.values())
    integers = any(isinstance(tensor, torch.Tensor) and tensor.dtype == torch.int8 for tensor in held)
    if names & {_CHOOSE, _QUANTIZE, _DEQUANTIZE, _INNER} or (integers and names & {"aten::mm", "aten::_int_mm"}):
        program = _Affine(program).run()
    if any(_name(node) == _CONVERT for node in nodes_with_bodies(program.graph_module)):
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
    """One walk over a program that copies what it does not change.

    Attributes:
        constants: Nodes that are constants, and their tensors. The inner tensors of a tensor subclass are constants,
            too; the subclass itself leaves the program.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.writer = GraphWriter(program)
        self.value: dict[fx.Node, Any] = {}
        self.constants: dict[fx.Node, torch.Tensor] = {}
        self._subclasses: set[fx.Node] = set()
        signature = program.graph_signature
        written = {spec.target for spec in signature.output_specs if spec.target is not None}
        held = {**program.constants, **program.state_dict}
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        specs = []
        for node, spec in zip(placeholders, signature.input_specs, strict=True):
            tensor = held.get(spec.target)
            if isinstance(tensor, torch.Tensor) and spec.target not in written:
                if _INNER in {_name(user) for user in node.users}:
                    self._subclasses.add(node)
                    self.constants.update(
                        {user: getattr(tensor, user.args[1]) for user in node.users if _name(user) == _INNER}
                    )
                    continue
                if not node.users and is_traceable_wrapper_subclass(tensor):
                    self._subclasses.add(node)  # of a layer that the method does not call
                    continue
                self.constants[node] = tensor
            specs.append(spec)
        self.writer.input_specs[:] = specs

    def run(self) -> ExportedProgram:
        root = torch.nn.Module()
        outputs = self.walk(self.program.graph_module, root)
        return self.writer.finish(outputs, self.program.graph_signature.output_specs, root)

    def walk(self, module: fx.GraphModule, root: torch.nn.Module) -> list[Any]:
        """Writes a graph, whose bodies of control flow ``root`` gets; what it returns."""
        outputs: list[Any] = []
        for node in module.graph.nodes:
            if node in self._subclasses or (node in self.constants and node.op == "call_function"):
                continue
            if node.op == "get_attr":
                held = getattr(module, str(node.target))
                setattr(root, str(node.target), self.body(held, node) if isinstance(held, fx.GraphModule) else held)
            if node.op == "output":
                outputs = [self.read(a) if isinstance(a, fx.Node) else a for a in node.args[0]]
            elif node.op != "call_function" or not self.rewrite(node):
                self.value[node] = self.writer.copy_node(node, self.read)
        return outputs

    def body(self, module: fx.GraphModule, reference: fx.Node) -> fx.GraphModule:
        """What stands for a body of control flow, which ``reference`` names."""
        return module

    def read(self, node: fx.Node) -> Any:
        """What stands for an old node."""
        if node not in self.value and node in self.constants:
            self.value[node] = self.lift(node, self.constants[node])
        return self.value[node]

    def rewrite(self, node: fx.Node) -> bool:
        """Writes what stands for a node; False to copy it."""
        raise NotImplementedError

    def emit(self, origin: fx.Node, target: Any, *args: Any) -> fx.Node:
        """A new call, of the type that its operator says."""
        fakes = fx.map_arg(args, lambda source: source.meta["val"])
        with self._mode(origin), torch.no_grad():
            value = target(*fakes)
        return self.writer.emit(origin, target, args, None, value)

    def lift(self, like: fx.Node, tensor: torch.Tensor) -> fx.Node:
        """A constant of the new program."""
        tensor = tensor.detach().contiguous()
        with self._mode(like):
            fake = torch.empty(tensor.shape, dtype=tensor.dtype)
        return self.writer.lift_constant(tensor, fake)

    def _mode(self, node: fx.Node) -> Any:
        values = node.meta["val"]
        return (values[0] if isinstance(values, (tuple, list)) else values).fake_mode


_SIXTEEN_BITS = (torch.bfloat16, torch.float16)
#: What computes with dequantized weights.
_TAKE_WEIGHTS = frozenset({aten.linear.default, aten.embedding.default})


class _Affine(_Rewriter):
    """torchao's affine operators, by their block sizes, and its products of integers, by their chains."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program)
        products = [product for node in program.graph.nodes if (product := _product_of(node, self.constants))]
        self._products = {product.last: product for product in products}
        self._needed = _needed(program.graph, self._products)
        self._floats: dict[fx.Node, fx.Node] = {}  # old node of 16 bits -> its value in float32, in the new graph

    def read(self, node: fx.Node) -> Any:
        if node not in self.value and node in self._floats and node not in self.constants:
            self.value[node] = self._cast(node, self._floats[node], node.meta["val"].dtype)
        return super().read(node)

    def rewrite(self, node: fx.Node) -> bool:
        name = _name(node)
        if node in self._products:
            self.value[node] = self._linear(node, self._products[node])
        elif name == _DEQUANTIZE and node.args[0] in self.constants:
            self._computed(node, self._weight(node, arguments_of(node)))
        elif name in (_QUANTIZE, _DEQUANTIZE):
            self._computed(node, self._activation(node))
        elif name == _CHOOSE:
            self.value[node] = self._choose(node)
        elif node.target in _TAKE_WEIGHTS and any(source in self._floats for source in node.all_input_nodes):
            args = [self.read_float(arg) if isinstance(arg, fx.Node) else arg for arg in node.args]
            result = self.emit(node, node.target, *args)
            self.value[node] = self._cast(node, result, node.meta["val"].dtype)
        else:
            return False
        return True

    def read_float(self, node: fx.Node) -> fx.Node:
        """What stands for an old node; in float32 where that has 16 bits, which is what kernels of integers read and
        write.
        """
        if node.meta["val"].dtype not in _SIXTEEN_BITS:
            return self.read(node)
        if node not in self._floats:
            self._floats[node] = (
                self.lift(node, self.constants[node].float())
                if node in self.constants
                else self._cast(node, self.read(node), torch.float32)
            )
        return self._floats[node]

    def _computed(self, node: fx.Node, result: fx.Node) -> None:
        """Notes what stands for a node, whose float32 may stand for 16 bits."""
        self.value.pop(node, None)
        (self._floats if node.meta["val"].dtype in _SIXTEEN_BITS else self.value)[node] = result

    def _cast(self, origin: fx.Node, x: fx.Node, dtype: torch.dtype) -> fx.Node:
        if x.meta["val"].dtype == dtype:
            return x
        with self._mode(origin), torch.no_grad():
            value = aten._to_copy.default(x.meta["val"], dtype=dtype)
        return self.writer.emit(origin, aten._to_copy.default, (x,), {"dtype": dtype}, value)

    def _linear(self, node: fx.Node, product: "_Product") -> fx.Node:
        x = self.read_float(product.x)
        q = torch.ops.quantized_decomposed
        if product.is_dynamic:
            choose = self.emit(node, q.choose_qparams_per_token_asymmetric.default, x, torch.int8)
            scale, point = (self.emit(node, operator.getitem, choose, i) for i in range(2))
            integers = self.emit(node, q.quantize_per_token.default, x, scale, point, -128, 127, torch.int8)
            x = self.emit(
                node, q.dequantize_per_token.default, integers, scale, point, -128, 127, torch.int8, torch.float32
            )
        weight = self.read(product.weight)
        scales = self.constants[product.scales].float().reshape(-1).expand(self.constants[product.weight].shape[0])
        points = torch.zeros(scales.shape, dtype=torch.int64)
        weight = self.emit(
            node,
            q.dequantize_per_channel.default,
            weight,
            self.lift(node, scales),
            self.lift(node, points),
            0,
            -128,
            127,
            torch.int8,
        )
        bias = None if product.bias is None else self.read_float(product.bias)
        return self._cast(node, self.emit(node, aten.linear.default, x, weight, bias), node.meta["val"].dtype)

    def _weight(self, node: fx.Node, given: dict[str, Any]) -> fx.Node:
        integers = self.constants[given["input"]]
        if integers.dtype != torch.int8 or node.meta["val"].dtype not in (torch.float32, *_SIXTEEN_BITS):
            raise _refusal(node, f"weights of {integers.dtype} for {node.meta['val'].dtype}; only int8 for floats")
        if given["scale"] not in self.constants or given["zero_point"] not in {None, *self.constants}:
            raise _refusal(node, "scales that are no constants")
        scale = self.constants[given["scale"]].detach().float()
        points = given["zero_point"]
        zero_points = torch.zeros_like(scale) if points is None else self.constants[points].detach()
        low, high = _limits(given, "input_dtype")
        block, sizes = [int(size) for size in given["block_size"]], list(integers.shape)
        q, x = torch.ops.quantized_decomposed, self.read(given["input"])
        if block == sizes:
            numbers = float(scale.reshape(())), int(zero_points.reshape(()))
            return self.emit(node, q.dequantize_per_tensor.default, x, *numbers, low, high, torch.int8)
        axes = [axis for axis, (one, size) in enumerate(zip(block, sizes, strict=True)) if one != size]
        if len(axes) == 1 and block[axes[0]] == 1:
            lifted = self.lift(node, scale.reshape(-1)), self.lift(node, zero_points.reshape(-1).long())
            return self.emit(node, q.dequantize_per_channel.default, x, *lifted, axes[0], low, high, torch.int8)
        if len(sizes) == 2 and block[0] == 1 and sizes[1] % block[1] == 0:
            shape = (sizes[0], sizes[1] // block[1])
            lifted = self.lift(node, scale.reshape(shape)), self.lift(node, zero_points.reshape(shape).long())
            limits = (low, high, torch.int8, block[1], torch.float32)
            return self.emit(node, q.dequantize_per_channel_group.default, x, *lifted, *limits)
        raise _refusal(node, f"blocks of {block} in a weight of {sizes}")

    def _choose(self, node: fx.Node) -> Any:
        given = arguments_of(node)
        low, high = _limits(given, "target_dtype")
        q, x = torch.ops.quantized_decomposed, self.read_float(given["input"])
        if _is_per_token(given):
            # Symmetric ones, too: an asymmetric scale is never coarser. It is no scale for a product of the integers,
            # though.
            for user in (user for part in node.users for user in part.users if user in self._needed):
                if _name(user) not in (_QUANTIZE, _DEQUANTIZE):
                    raise _refusal(
                        node,
                        f"{user.target} computes with the scales of its tokens, around a product of integers that is "
                        "not written as torchao's Int8Tensor writes a linear layer",
                    )
            return self.emit(node, q.choose_qparams_per_token_asymmetric.default, x, torch.int8)
        _require_whole(node, given)
        target = q.choose_qparams_symmetric.tensor if given["mapping_type"] != "ASYMMETRIC" else q.choose_qparams.tensor
        return self.emit(node, target, x, low, high, given["eps"] or torch.finfo(torch.float32).eps, torch.int8)

    def _activation(self, node: fx.Node) -> fx.Node:
        given = arguments_of(node)
        quantizes = _name(node) == _QUANTIZE
        low, high = _limits(given, "output_dtype" if quantizes else "input_dtype")
        q, x = torch.ops.quantized_decomposed, self.read_float(given["input"])
        per_token = _is_per_token(given)
        if not per_token:
            _require_whole(node, given)
        if given["zero_point"] is None:
            raise _refusal(node, "an activation without zero points")
        args: tuple[Any, ...] = (x, self.read(given["scale"]), self.read(given["zero_point"]), low, high, torch.int8)
        if quantizes:
            return self.emit(node, q.quantize_per_token.default if per_token else q.quantize_per_tensor.tensor, *args)
        if per_token:
            return self.emit(node, q.dequantize_per_token.default, *args, torch.float32)
        return self.emit(node, q.dequantize_per_tensor.tensor, *args)


def _limits(given: dict[str, Any], dtype: str) -> tuple[int, int]:
    limits = torch.iinfo(given[dtype])
    low, high = given["quant_min"], given["quant_max"]
    return (limits.min if low is None else int(low)), (limits.max if high is None else int(high))


def _is_per_token(given: dict[str, Any]) -> bool:
    sizes, block = list(given["input"].meta["val"].shape), list(given["block_size"])
    return len(block) > 1 and block[:-1] == [1] * (len(sizes) - 1) and block[-1] == sizes[-1]


def _require_whole(node: fx.Node, given: dict[str, Any]) -> None:
    sizes = list(given["input"].meta["val"].shape)
    if list(given["block_size"]) != sizes:
        raise _refusal(node, f"blocks of {list(given['block_size'])} in an activation of {sizes}")


class _Product(NamedTuple):
    """A linear layer as torchao's Int8Tensor writes it: a product of matrices, then the scales, a view, the bias."""

    x: fx.Node
    weight: fx.Node
    scales: fx.Node
    bias: fx.Node | None
    last: fx.Node
    is_dynamic: bool


_VIEWS = frozenset({aten.reshape.default, aten.view.default, aten.flatten.using_ints})
#: What a reshape becomes where the elements do not stand in a row, behind a transposition for instance.
_COPIES = frozenset({aten.clone.default, aten._unsafe_view.default})
_TRANSPOSES = frozenset({aten.t.default, aten.permute.default, aten.transpose.int})
_CASTS = frozenset({aten.to.dtype, aten._to_copy.default})


def _product_of(node: fx.Node, constants: dict[fx.Node, torch.Tensor]) -> _Product | None:
    """The linear layer around a product of matrices with an integer constant; None when it is none."""
    if node.target not in (aten.mm.default, aten._int_mm.default):
        return None
    weight = _behind(node.args[1], _CASTS | _TRANSPOSES)
    if weight not in constants or constants[weight].dtype != torch.int8 or constants[weight].dim() != 2:
        return None
    is_dynamic = node.target is aten._int_mm.default
    x = _behind(node.args[0], _VIEWS | _COPIES | _CASTS | {aten.add.Tensor}) if is_dynamic else _rows_of(node.args[0])
    if is_dynamic and _name(x) != _QUANTIZE:
        return None
    scales, last = None, node
    while (user := _only_user(last)) is not None:
        if user.target is aten.mul.Tensor:
            found = _behind(user.args[1], _VIEWS | _CASTS)
            scales = found if found in constants else scales
        elif user.target not in _CASTS | _VIEWS | {aten.sub.Tensor}:
            break
        last = user
        if user.target in _VIEWS:
            break
    channels = constants[weight].shape[0]
    if scales is None or last.target not in _VIEWS or constants[scales].numel() not in (1, channels):
        return None
    bias, user = None, _only_user(last)
    if user is not None and user.target is aten.add.Tensor and user.args[1] in constants:
        is_bias = list(constants[user.args[1]].shape) == [
            channels
        ]  # else a sum of the model's own: a table of positions
        bias, last = (user.args[1], user) if is_bias else (bias, last)
    return _Product(x.args[0] if is_dynamic else x, weight, scales, bias, last, is_dynamic)


def _needed(graph: fx.Graph, products: dict[fx.Node, _Product]) -> set[fx.Node]:
    """Nodes that the outputs are made of when each product is one operator."""
    found: set[fx.Node] = set()
    waiting = list(graph.output_node().all_input_nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend([products[node].x] if node in products else node.all_input_nodes)
    return found


def _rows_of(matrix: fx.Node) -> fx.Node:
    """What a linear layer was given: without the one view that made rows of it.

    Views before that are the model's own.
    """
    source = matrix.args[0] if matrix.target in _VIEWS else None
    if not isinstance(source, fx.Node) or source.meta["val"].shape[-1] != matrix.meta["val"].shape[-1]:
        return matrix
    return source


def _behind(node: Any, targets: frozenset[Any]) -> fx.Node:
    while node.op == "call_function" and node.target in targets:
        node = node.args[0]
    return node


def _only_user(node: fx.Node) -> fx.Node | None:
    users = [user for user in node.users if user.target is not aten._assert_tensor_metadata.default]
    return users[0] if len(users) == 1 else None


class _Half(_Rewriter):
    """Operators between conversions to float16 and back compute in float16."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program)
        self._half: dict[fx.Node, fx.Node] = {}  # old node -> its value in float16, in the new graph
        self._wanted = _read_in_half_only(program.graph)
        self._constants: dict[fx.Node, fx.Node] = {}
        self._narrow: set[fx.Node] = set()  # inputs of bodies that are float16 from here on

    def body(self, module: fx.GraphModule, reference: fx.Node) -> fx.GraphModule:
        root = torch.nn.Module()
        inner = copy.copy(self)
        inner.value, inner.constants, inner._half, inner._constants = {}, {}, {}, {}
        inner._wanted = _read_in_half_only(module.graph)
        inner.writer = writer = RegionWriter(self.program, module, root)
        self._narrow.update(narrow for _, narrow in self._read_in_half(module, reference))
        outputs = inner.walk(module, root)
        return writer.finish_region(outputs)

    def _read_in_half(self, module: fx.GraphModule, reference: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
        """Constants that a loop takes and its body reads in float16 only, with the inputs that they are there."""
        loop = next(iter(reference.users))
        if loop.target is not torch.ops.higher_order.scan:
            return
        captured: Any = loop.args[3]
        operands: list[Any] = pytree.tree_leaves(loop.args[1:])
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        for operand, placeholder in zip(captured, inputs[len(inputs) - len(captured) :], strict=True):
            halves = [_name(user) == _CONVERT and user.args[1] == torch.float16 for user in placeholder.users]
            if operand in self.constants and operands.count(operand) == 1 and halves and all(halves):
                yield operand, placeholder

    def rewrite(self, node: fx.Node) -> bool:
        if _name(node) == _CONVERT:
            self._convert(node)
            return True
        if node.target is torch.ops.higher_order.scan:
            reference: Any = node.args[0]
            module = getattr(node.graph.owning_module, reference.target)
            halves = {operand: self._in_half(node, operand) for operand, _ in self._read_in_half(module, reference)}
            self.value[node] = self.writer.copy_node(node, lambda old: halves[old] if old in halves else self.read(old))
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
        if node not in self.value and node in self._half:  # float32 is wanted
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
        if source in self._narrow:
            self._half[source] = self.read(source)
            with source.meta["val"].fake_mode:
                self._half[source].meta["val"] = source.meta["val"].to(torch.float16)
            return self._half[source]
        if source in self.constants:
            if source not in self._constants:
                self._constants[source] = self.lift(node, self.constants[source].half())
            return self._constants[source]
        return self.writer.emit(
            node, aten._to_copy.default, (self.read(source),), {"dtype": torch.float16}, node.meta["val"]
        )


def _read_in_half_only(graph: fx.Graph) -> set[fx.Node]:
    """Nodes whose results nothing sees before they are rounded to float16, and whose kernels can round them.

    Between a node and the conversion stand at most operators that give the same whether their input was rounded before
    them or their result is rounded after them.
    """
    found: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        value = node.meta.get("val")
        if (
            node.op != "call_function"
            or not isinstance(value, torch.Tensor)
            or value.dtype != torch.float32
            or not node.users
            or not _has_half_kernel(node)
        ):
            continue
        if all(
            user.args[1] == torch.float16 if _name(user) == _CONVERT else user in found and _keeps_rounding(user)
            for user in node.users
        ):
            found.add(node)
    return found


def _keeps_rounding(node: fx.Node) -> bool:
    """Whether the operator only moves elements, or limits them to numbers that float16 has."""
    if node.target not in LIMITING:
        return node.target in MOVING
    bounds = [x for x in arguments_of(node).values() if isinstance(x, (int, float))]
    return all(float(torch.tensor(x).half()) == x for x in bounds)


def _has_half_kernel(node: fx.Node) -> bool:
    info = known_operators().get(operator_name(node.target)) if isinstance(node.target, OpOverload) else None
    return info is None or info.takes(dtype_code(torch.float16))


def _is_float(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float16)
