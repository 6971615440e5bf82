"""Models that torch quantized itself, in eager mode or FX mode, as ordinary modules with the same integers and scales.

torch packs the weights of such models for its own kernels, which nothing exports. Here they become buffers again, and
the model's own code runs on values between a quantize and a dequantize (torch_values.py).

>>> module = from_torch_quantized(torch.ao.quantization.convert(prepared))  # doctest: +SKIP
>>> program = et.to_edge_transform_and_lower(torch.export.export(module, example_inputs))  # doctest: +SKIP
"""

import copy
import functools
import inspect
from typing import Any

import torch
from torch import fx, nn
from torch.ao.nn.quantized.reference.modules import rnn as reference_rnn

from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from executorch_py.graphs.torch_quantized import is_torch_quantized

from .torch_values import QuantizedValues, call, is_quantized_function, plain, quantized_constant
from .torch_weights import PackedWeight, is_packed

#: Where the classes of quantized layers live, and the layers that are quantized by parts.
_QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.ao.nn.quantizable")
_REFERENCE = "torch.ao.nn.quantized.reference"
_NUMBERS = {"scale": float, "zero_point": int}


def from_torch_quantized(module: nn.Module) -> nn.Module:
    """An ordinary module that computes what a model quantized by torch computes.

    Args:
        module: What ``torch.ao.quantization``'s ``convert``, ``quantize_dynamic``, ``convert_fx`` or
            ``convert_to_reference_fx`` gave, or holds such modules. It stays as it is.

    Returns:
        A module of the same structure with quantize and dequantize operators, for ``torch.export.export``. Results that
        torch leaves quantized are what their integers stand for, float32.

    Raises:
        InvalidTypeError: It is no module.
        InvalidArgumentError: Nothing in it is quantized by torch.
        NotSupportedError: A layer or operator that has no such form; when the module runs.
    """
    if not isinstance(module, nn.Module):
        raise InvalidTypeError(f"the model is {module!r:.80}, must be a torch.nn.Module")
    if not is_torch_quantized(module):
        raise InvalidArgumentError(
            "nothing in the model is quantized by torch.ao.quantization; quantizer.quantize takes float models"
        )
    memo: dict[int, Any] = {}
    for one in reversed([*module.modules()]):  # parts before what holds them
        if isinstance(one, fx.GraphModule):
            memo[id(one)] = _graph(one, memo)
        elif type(one).__module__.startswith(_QUANTIZED):
            memo[id(one)] = (_Reference if type(one).__module__.startswith(_REFERENCE) else _Layer)(one, memo)
    result = copy.deepcopy(module, memo)
    return _plain_graph(result) if isinstance(result, fx.GraphModule) else _running_on_values(result)


def _running_on_values(model: nn.Module) -> nn.Module:
    """Has the model's code run on quantized values, and return ordinary tensors."""
    kind = type(model)

    @functools.wraps(kind.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with QuantizedValues():
            return plain(kind.forward(self, *args, **kwargs))

    model.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    return model


class _Layer(nn.Module):
    """A quantized layer of torch with ordinary contents.

    Its own code runs, on values between quantize and dequantize.
    """

    def __init__(self, layer: nn.Module, memo: dict[int, Any]) -> None:
        super().__init__()
        self._torch_class = type(layer)
        ordinary = vars(nn.Module()).keys()
        for name, value in vars(layer).items():
            if name not in ordinary:
                self._keep(name, value, memo)
        for name, value in (*layer._parameters.items(), *layer._buffers.items()):
            if name in _NUMBERS and value is not None:
                setattr(self, name, _NUMBERS[name](value))
            else:
                self._keep(name, value, memo)
        for name, child in layer._modules.items():
            self.add_module(name, copy.deepcopy(child, memo))
        self.training = False

    def _keep(self, name: str, value: Any, memo: dict[int, Any]) -> None:
        if is_packed(value):
            self.add_module(name, PackedWeight.of(value, "1d" in self._torch_class.__name__))
        elif isinstance(value, torch.Tensor) and value.is_quantized:
            self.add_module(_held_as(name), PackedWeight(value))
        elif isinstance(value, torch.Tensor):
            self.register_buffer(name, value.detach().clone())
        else:
            setattr(self, name, copy.deepcopy(value, memo))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer of torch computes."""
        with QuantizedValues():
            return self._torch_class.forward(self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        held = vars(self)["_modules"]
        if (weight := held.get(_held_as(name))) is not None:
            return quantized_constant(weight)
        try:
            return super().__getattr__(name)
        except AttributeError:
            member = inspect.getattr_static(vars(self)["_torch_class"], name)  # a method of the class
            return member.__get__(self, type(self)) if hasattr(member, "__get__") else member

    def _get_name(self) -> str:
        return self._torch_class.__name__


class _Reference(_Layer):
    """A layer of a reference model: floats with the scales of their integers, of which the integers are kept."""

    def __init__(self, layer: nn.Module, memo: dict[int, Any]) -> None:
        super().__init__(layer, memo)
        for name in [name for name, _ in layer.named_parameters(recurse=False) if name.startswith("weight")]:
            del self._buffers[name]
            self.add_module(_held_as(name), PackedWeight(_quantized_weight(layer, name)))
        for name in [name for name in self._buffers if name.endswith(("_scale", "_zero_point", "_axis"))]:
            del self._buffers[name]
        vars(self).pop("_flat_weights", None)

    def get_weight(self) -> torch.Tensor:
        """The weight of a layer."""
        return self.weight.values

    def get_weight_ih(self) -> torch.Tensor:
        """The weight of a cell for its input."""
        return self.weight_ih.values

    def get_weight_hh(self) -> torch.Tensor:
        """The weight of a cell for its state."""
        return self.weight_hh.values

    def get_flat_weights(self) -> list[torch.Tensor]:
        """All weights and biases of a recurrent layer."""
        return plain([getattr(self, name) for name in self._flat_weights_names])


def _held_as(name: str) -> str:
    return f"{name}_integers"


def _quantized_weight(layer: nn.Module, name: str) -> torch.Tensor:
    if name == "weight":
        return layer.get_quantized_weight()
    return reference_rnn.get_quantized_weight(layer, name)


# -------------------------------------------------------------------------------------------------------------- FX mode


def _graph(module: fx.GraphModule, memo: dict[int, Any]) -> fx.GraphModule:
    """A copy whose packed weights are modules, whose scales are numbers and whose calls of torch's operators come to
    ours.
    """
    result = copy.deepcopy(module, memo)
    for name, value in [*vars(result).items()]:
        if is_packed(value):
            users = (user for node in result.graph.nodes if node.target == name for user in node.users)
            one_dimensional = any("1d" in str(user.target) for user in users)
            delattr(result, name)
            result.add_module(name, PackedWeight.of(value, one_dimensional))
    for node in result.graph.nodes:
        if node.op == "call_function" and is_quantized_function(node.target):
            numbers = {one: number for one in node.all_input_nodes if (number := _number(result, one)) is not None}
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda one, numbers=numbers: numbers.get(one, one))
            node.args, node.kwargs = (_name_of(node.target), *args), kwargs
            node.target = _operate
    for node in reversed(result.graph.nodes):
        if node.op == "get_attr" and not node.users:
            result.graph.erase_node(node)
    result.recompile()
    return result


def _number(module: fx.GraphModule, node: fx.Node) -> float | int | None:
    """The scale or zero point that a graph reads from a buffer."""
    if node.op != "get_attr" or not str(node.target).rsplit(".", 1)[-1].rstrip("_0123456789").endswith(tuple(_NUMBERS)):
        return None
    value = functools.reduce(getattr, str(node.target).split("."), module)
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else None


def _name_of(function: Any) -> str:
    name = getattr(getattr(function, "overloadpacket", function), "_qualified_op_name", "")
    return name.replace("::", ".") or function.__name__


def _operate(name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls what stands for an operator of torch: ``_operate("quantized.add", a, b, 0.1, 0)``."""
    home = torch.ops if "." in name else torch
    return call(functools.reduce(getattr, name.split("."), home), *args, **kwargs)


def _plain_graph(module: fx.GraphModule) -> fx.GraphModule:
    """Has a graph return ordinary tensors."""
    output = module.graph.output_node()
    with module.graph.inserting_before(output):
        output.args = (module.graph.call_function(plain, (output.args[0],)),)
    module.recompile()
    return module
