"""Whether torch has quantized a model itself: its weights are packed for torch's kernels then, and nothing exports
it.
"""

import torch
from torch import fx, nn

from executorch_py.errors import NotSupportedError

_LAYERS = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")
_OPERATORS = "quantized."


def is_torch_quantized(model: nn.Module) -> bool:
    """Whether a model, or a part of it, came from torch's ``convert``, ``quantize_dynamic`` or ``convert_fx``."""
    return bool(quantized_part(model))


def quantized_part(model: nn.Module) -> str:
    """The path and class of the first module that torch has quantized, for messages; empty where there is none."""
    for path, module in model.named_modules():
        kind = type(module)
        calls = module.graph.nodes if isinstance(module, fx.GraphModule) else ()
        if (
            kind.__module__.startswith(_LAYERS)
            or any(isinstance(value, torch.ScriptObject) for value in vars(module).values())
            or any(_is_quantizing(node) for node in calls)
        ):
            return f"'{path}', a {kind.__name__}," if path else f"the {kind.__name__}"
    return ""


def require_exportable(model: nn.Module) -> None:
    """Before a helper exports a model itself.

    Raises:
        NotSupportedError: torch has quantized it; says what makes an ordinary module of it.
    """
    if isinstance(model, nn.Module) and (part := quantized_part(model)):
        raise NotSupportedError(
            f"{part} is quantized by torch itself, and torch.export does not take packed weights: give "
            "executorch_py.quantizer.from_torch_quantized(model)"
        )


def export_hint(model: nn.Module) -> str:
    """What someone does first who gives a module where a program is wanted."""
    if part := quantized_part(model):
        return (
            f"; {part} is quantized by torch itself: call "
            "torch.export.export(quantizer.from_torch_quantized(model), inputs)"
        )
    return "; call torch.export.export(model, inputs) first"


def _is_quantizing(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    return str(node.target).startswith(_OPERATORS) or node.target is torch.quantize_per_tensor
