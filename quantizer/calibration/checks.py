"""What must hold of a model before it is prepared, and of its observers before it is converted.

Nothing becomes integers in silence that cannot: every error names the layer and its line.
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from executorch_py.quantizer.rules.linear_forms import WRITTEN_AS
from executorch_py.quantizer.rules.matching import (
    MOVEMENT,
    is_annotated,
    is_of_sizes,
    modules_of,
    place_of,
    tagged,
)
from executorch_py.quantizer.spec import smallest_scales
from executorch_py.quantizer.spec.pt2e import (
    FixedQParamsObserver,
    PlaceholderObserver,
)
from executorch_py.quantizer.spec.weight_observers import GroupwiseObserver
from torch import fx, nn
from torch.export import ExportedProgram

from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError, NotSupportedError
from executorch_py.graphs.rewriting import nodes_with_bodies
from executorch_py.graphs.torch_quantized import quantized_part

from .batch_norm import is_in_training
from .observer_calls import calls_of, is_weight, observed, observers_of

#: Steps that the values of a tensor take at least, of some 255, before it is mentioned.
_FEW_STEPS = 32
#: A tensor is mentioned when more than this share of its values are this many steps from zero at most, so that one
#: channel among two dozen that takes the range is found. Those of ordinary layers are within 57 steps and more. The
#: blocks of a sentence encoder that plain int8 ruins have theirs within 1 to 4. Nine tenths would be too few: most
#: results of a gelu are near zero by nature.
_MOST_CROWDED = 0.95
_CROWDED_STEPS = 4
#: Their largest results are what they say: probabilities near 1, nearly all others near 0.
_PROBABILITIES = tagged("probabilities")
#: Values beyond this have no use for 255 steps: masks with the smallest float, overflows.
_LARGEST_RANGE = 1e30

_STUBS = ("QuantStub", "DeQuantStub", "QuantWrapper")


_DIFFER_IN_TRAINING = (nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd)


class QuantizationWarning(UserWarning):
    """Something was quantized that deserves a look."""


def require_float_model(model: nn.Module) -> None:
    """Raises what a user of a model that cannot be quantized must know.

    Raises:
        NotSupportedError: Eager-mode quantization has been applied, which torch.export cannot take; or torchao's
            ``quantize_``.
        InvalidTypeError: Parameters that are not float32 (float16 and bfloat16 models are not quantized, nor are
            doubles).
        InvalidStateError: The model is the module of a program that is quantized already.
    """
    if isinstance(model, fx.GraphModule):
        _require_float_graph(model.graph)
    if part := quantized_part(model):
        raise NotSupportedError(
            f"{part} is quantized by eager-mode or FX-mode torch.ao.quantization: "
            "quantizer.from_torch_quantized(model) "
            "gives an ordinary module with the same integers for torch.export; or give the float model to "
            "quantizer.quantize (or prepare / convert)"
        )
    for path, module in model.named_modules():
        if type(module).__name__ in _STUBS:
            raise NotSupportedError(
                f"'{path or type(module).__name__}' is a {type(module).__name__} of eager-mode torch.ao.quantization; "
                "give the float model without QuantStub and DeQuantStub to quantizer.quantize, or let torch convert it "
                "and call quantizer.from_torch_quantized"
            )
    for name, parameter in model.named_parameters():
        if type(parameter.data).__module__.startswith("torchao."):
            raise NotSupportedError(
                f"parameter '{name}' is a {type(parameter.data).__name__}: torchao's quantize_ has quantized the model "
                "already; export it and give it to to_edge_transform_and_lower, or give the float model to quantize"
            )
        if parameter.is_floating_point() and parameter.dtype != torch.float32:
            raise InvalidTypeError(
                f"parameter '{name}' is {parameter.dtype}, quantization begins at torch.float32: call "
                "model.float() first"
            )
        if not _is_finite(parameter.detach()):
            raise InvalidArgumentError(f"parameter '{name}' holds NaN or infinity")


def is_exported_module(model: Any) -> bool:
    """Whether a module is what ``ExportedProgram.module()`` gave: its mode is part of its graph, and its flag says
    nothing.
    """
    return isinstance(model, fx.GraphModule) and "train" in vars(model)


def require_eval_program(program: ExportedProgram) -> None:
    """Raises where a program was exported as its model trains.

    Raises:
        InvalidStateError: A batch norm or dropout in it is in training mode.
    """
    for node in program.graph.nodes:
        if node.op == "call_function" and is_in_training(node):
            raise InvalidStateError(
                f"{place_of(node)} is in training mode: call model.eval() before torch.export.export, or prepare_qat "
                "to train the program quantized"
            )


def require_eval_mode(model: nn.Module) -> None:
    """Raises where a model would be exported as it trains. Of an exported module ``require_eval_program`` knows.

    Raises:
        InvalidStateError: It is in training mode, or a batch norm or dropout in it is.
    """
    advice = "call model.eval() first, or prepare_qat to train it quantized"
    if is_exported_module(model):
        return
    if model.training:
        raise InvalidStateError(f"the model is in training mode: {advice}")
    for path, module in model.named_modules():
        if module.training and isinstance(module, _DIFFER_IN_TRAINING):
            raise InvalidStateError(f"'{path}', a {type(module).__name__}, is in training mode: {advice}")


def require_fixed_momentum(model: nn.Module) -> None:
    """Raises where a batch norm averages over all batches that it has seen: torch.export cannot follow that while it
    trains.

    Raises:
        InvalidArgumentError: A batch norm with running statistics has ``momentum=None``.
    """
    for path, module in model.named_modules():
        if (
            isinstance(module, nn.modules.batchnorm._NormBase)
            and module.track_running_stats
            and module.momentum is None
        ):
            raise InvalidArgumentError(
                f"'{path}', a {type(module).__name__}, has momentum=None, an average over all batches, which "
                "torch.export cannot follow; give it a number (module.momentum = 0.1) before prepare_qat"
            )


def require_float_program(program: ExportedProgram) -> None:
    """A program must not be quantized twice.

    Raises:
        InvalidStateError: It has operators of a quantization already.
    """
    _require_float_graph(program.graph)


def _require_float_graph(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if node.op == "call_function" and str(node.target).startswith(("quantized_decomposed.", "torchao.")):
            raise InvalidStateError(
                f"the program is quantized already, it holds {place_of(node)}: give the float model, and a "
                "ComposableQuantizer where several quantizers are to share it"
            )


def require_known_operators(model: fx.GraphModule, operators: Iterable[Any]) -> None:
    """Warns of operators that a quantizer was told to quantize and that are not in the model: another overload, say."""
    targets = {target for node in nodes_with_bodies(model) for target in (node.target, node.meta.get(WRITTEN_AS))}
    known = {key for target in targets for key in (target, getattr(target, "overloadpacket", None))}
    unknown = [str(operator) for operator in operators if operator not in known]
    if unknown:
        warnings.warn(
            f"no operator of the model is {', '.join(unknown)}, for which a configuration was set",
            QuantizationWarning,
            stacklevel=3,
        )


def require_known_names(model: fx.GraphModule, names: Iterable[str], types: Iterable[str]) -> None:
    """Names that a quantizer was given must stand in the model.

    Raises:
        InvalidArgumentError: One does not; names those that are close.
    """
    import difflib

    places = [place for node in nodes_with_bodies(model) for place in modules_of(node)]
    for what, wanted, known in (
        ("module", names, {path for path, _ in places}),
        ("module type", types, {kind for _, kind in places}),
    ):
        for name in wanted:
            if name not in known:
                close = ", ".join(difflib.get_close_matches(name, known, 5)) or ", ".join(sorted(known - {""})[:8])
                raise InvalidArgumentError(
                    f"no operator of the model belongs to the {what} '{name}'; there are {close}"
                )


def warn_of_float_modules(model: fx.GraphModule, names: Iterable[str]) -> None:
    """Warns of modules for which a configuration was set and of which nothing is annotated: nothing computes them
    so.
    """
    nodes_of: dict[str, list[fx.Node]] = {name: [] for name in names}
    for node in model.graph.nodes:
        for path in {path for path, _ in modules_of(node)} & nodes_of.keys():
            nodes_of[path].append(node)
    for name, nodes in nodes_of.items():
        if nodes and not any(is_annotated(node) for node in nodes):
            calls = sorted({str(node.target) for node in nodes if node.op == "call_function"})
            warnings.warn(
                f"'{name}' stays as it is: no kernel computes {', '.join(calls)} with the configuration that was set "
                "for it (a "
                "convolution with groups or a transposed one takes no input that is quantized at the call, for "
                "instance)",
                QuantizationWarning,
                stacklevel=3,
            )


def require_annotations(prepared: fx.GraphModule) -> None:
    """A quantizer that annotated nothing is a mistake, not a wish.

    Raises:
        InvalidStateError: There is no observer in the module.
    """
    if not any(True for _ in observers_of(prepared)):
        raise InvalidStateError(
            "the quantizer found nothing to quantize: its patterns match no operator of the model (those of "
            "XNNPACKQuantizer: quantizer/xnnpack_quantizer.py, PATTERNS), or its configuration leaves all of them out"
        )


def needs_data(prepared: fx.GraphModule) -> bool:
    """Whether something in a prepared module is measured on samples."""
    return any(not is_weight(node) and _measures(module) for node, module in calls_of(prepared))


def _measures(module: Any) -> bool:
    inner = getattr(module, "activation_post_process", module)
    if getattr(inner, "is_dynamic", False) or isinstance(inner, (PlaceholderObserver, FixedQParamsObserver)):
        return False
    return hasattr(inner, "min_val")


def check_weight(node: fx.Node, observer: Any, value: Any) -> None:
    """A constant that an observer is about to look at must have a number in the type that it is stored in.

    Raises:
        InvalidArgumentError: It has not; names the constant and who reads it.
    """
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return
    if getattr(getattr(observer, "activation_post_process", observer), "dtype", None) == torch.float16:
        finite = torch.isfinite(value)
        if bool((finite & ~torch.isfinite(value.half())).any()):
            largest = float(value[finite].abs().max())
            raise InvalidArgumentError(
                f"{observed(node)} reaches {largest:.6g}, float16 ends at 65504; leave it as it is with "
                "set_module_name(…, None) or set_operator_type(…, None)"
            )
        fits = not bool(torch.isnan(value).any())  # it has infinities
    else:
        fits = _is_finite(value)
    if not fits:
        raise InvalidArgumentError(f"{observed(node)} holds {_word(value)}; no scale fits that")


def _is_finite(x: torch.Tensor) -> bool:
    """Neither NaN nor infinity; reads ``x`` once, where torch.isfinite writes tensors of its size."""
    if x.is_complex():
        return bool(torch.isfinite(x).all())
    return x.numel() == 0 or not x.is_floating_point() or all(map(math.isfinite, map(float, torch.aminmax(x))))


def check_observers(prepared: fx.GraphModule) -> None:
    """What the observers have seen must make sense as scales. What is always zero gets a scale
    that others have, too.

    Warns of activations that were constant, of those whose values share few integers beside outliers, of tensors that
    are smaller than the steps that their configuration permits, and of rows that no groups divide.

    Raises:
        InvalidStateError: An observer has seen nothing: the module was never calibrated.
        InvalidArgumentError: One has seen NaN, infinity, or a range that no scale fits.
    """
    constant, coarse, crowded, undivided = [], [], [], []
    for node, module in observers_of(prepared):
        if isinstance(module, GroupwiseObserver) and (columns := module.undivided_columns()):
            undivided.append(f"{observed(node)} has {columns} columns{_group_that_divides(columns, module.group_size)}")
        if not _measures(module):
            continue
        inner = getattr(module, "activation_post_process", module)
        low, high = inner.min_val.detach().reshape(-1), inner.max_val.detach().reshape(-1)
        place = observed(node)
        if low.numel() == 0 or bool(((low == float("inf")) & (high == float("-inf"))).any()):
            raise InvalidStateError(
                f"{place} was never observed: run the prepared module on samples of your data (calibrate, or "
                "quantize(..., calibration_data=...)) before it is converted"
            )
        for values in (low, high):
            if not bool(torch.isfinite(values).all()):
                raise InvalidArgumentError(f"{place} gave {_word(values)} on the calibration data; no scale fits that")
            if float(values.abs().max()) > _LARGEST_RANGE:
                raise InvalidArgumentError(
                    f"{place} reaches {float(values.abs().max()):.3g} on the calibration data, and everything else "
                    "would be rounded to zero beside it; leave it as it is with set_module_name(…, None) or "
                    "set_operator_type(…, None)"
                )
        is_activation = not is_weight(node) and low.numel() == 1
        if is_activation and float(low) == float(high):
            if not is_of_sizes(node):  # what is made of sizes has a scale that fits it always
                constant.append(f"{place} is always {float(low):.6g}")
        elif is_activation and not _is_probability(node) and (share := _share_beside_outliers(inner)) > _MOST_CROWDED:
            reach = float(torch.maximum(high, -low))
            crowded.append(
                f"{place} reaches {reach:.3g}, {100 * share:.1f} % are within {_CROWDED_STEPS} steps of zero"
            )
        smallest = getattr(inner, "eps", None)
        reach = high.clamp(min=0) - low.clamp(max=0)
        if not isinstance(smallest, torch.Tensor):
            continue
        if bool((reach == 0).any()):
            smallest.clamp_(min=smallest_scales.ACTIVATION if is_activation else smallest_scales.WEIGHT)
        if 0 < float(reach.max()) < _FEW_STEPS * float(smallest):
            coarse.append(f"{place} reaches {float(reach.max()):.3g}, a step is {float(smallest):.3g}")
    for what, places in (
        ("constant on all of the calibration data, so that its scale fits nothing else", constant),
        (
            "few integers for nearly all values beside a few outliers, which "
            "PercentileObserver.with_args(percentile=…) cuts "
            "off; layers that need them can be 'dynamic_int8' or None (set_module_name)",
            crowded,
        ),
        ("smaller than the steps that its configuration permits (eps of its observer)", coarse),
        (
            "one scale for each whole row, because its columns are no multiple of group_size; set_module_name(…) "
            "gives a layer another quantization_config(group_size=…), or 8 bits",
            undivided,
        ),
    ):
        if places:
            warnings.warn(f"{what}:\n  " + "\n  ".join(places), QuantizationWarning, stacklevel=3)


def _group_that_divides(columns: int, group_size: int) -> str:
    """The largest group up to the size that was requested."""
    least = 8  # below, scales outweigh the integers
    divisor = next((size for size in range(group_size, least - 1, -1) if columns % size == 0), None)
    return f", no multiple of {group_size}" + (f": group_size={divisor} divides them" if divisor else "")


def _is_probability(node: Any) -> bool:
    """Whether an observer looks at probabilities, as they are or moved."""
    while node.op == "call_module" or node.target in MOVEMENT:
        node = node.args[0]
    return node.target in _PROBABILITIES


def _share_beside_outliers(observer: Any) -> float:
    """Share of the values other than zero within few steps of zero; 0 where the observer does not know, or steps are
    many.
    """
    steps = observer.quant_max - observer.quant_min
    if not hasattr(observer, "share_within") or steps < 16 * _CROWDED_STEPS:
        return 0.0
    reach = float(observer.max_val.clamp(min=0) - observer.min_val.clamp(max=0))
    if observer.share_within(_CROWDED_STEPS * reach / steps) <= _MOST_CROWDED:  # no range that is chosen is wider
        return 0.0
    return float(observer.share_within(_CROWDED_STEPS * float(observer.calculate_qparams()[0])))


def _word(values: torch.Tensor) -> str:
    return "NaN" if bool(torch.isnan(values).any()) else "infinity"


def require_samples(data: Any) -> None:
    """Calibration data is an iterable of samples.

    Raises:
        InvalidTypeError: It is not, or one sample itself.
    """
    if isinstance(data, Mapping):
        raise InvalidTypeError(f"the calibration data is {describe(data)}: one sample; give a list of such")
    if isinstance(data, (str, bytes)) or (not hasattr(data, "__iter__") and not hasattr(data, "__getitem__")):
        raise InvalidTypeError(
            f"the calibration data is {describe(data)}, must be an iterable of samples or a DataLoader"
        )


def describe(sample: Any) -> str:
    """A sample in a few words, for messages."""
    if isinstance(sample, torch.Tensor):
        return f"a tensor {tuple(sample.shape)}"
    if isinstance(sample, Mapping):
        return f"a dict of {', '.join(map(str, list(sample)[:5]))}"
    if isinstance(sample, (tuple, list)):
        return f"a {type(sample).__name__} of {len(sample)}"
    return f"a {type(sample).__name__}"
