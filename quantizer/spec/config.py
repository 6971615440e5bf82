"""Configurations: how activations and weights become integers. torchao's QuantizationConfig, made from words.

>>> get_symmetric_quantization_config(is_per_channel=True)  # doctest: +SKIP
>>> quantization_config(activations="int8", weights="int4", dynamic=True, group_size=32)  # doctest: +SKIP
>>> PRESETS["static_int8"]()  # doctest: +SKIP

A configuration is of one *kind*, which decides what a quantizer's patterns do with it:

kind           activations                 weights
static         a scale from calibration    integers
dynamic        a scale at run time         integers
weight_only    float32                     integers, dequantized by the kernel
half           float16                     float16
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotSupportedError

from . import smallest_scales
from .observers import HalfObserver, HistogramObserver, MinMax, MovingAverage, MSEObserver, PercentileObserver
from .pt2e import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PlaceholderObserver,
    QuantizationConfig,
    QuantizationSpec,
)
from .weight_observers import GroupwiseObserver, PerChannelMinMax, PerChannelMSEObserver

Kind = Literal["static", "dynamic", "weight_only", "half"]


@dataclass(frozen=True)
class Integers:
    """A type of integers: the dtype that holds them, and their range."""

    dtype: torch.dtype
    low: int
    high: int


#: Integers of activations. int16 is symmetric, as kernels with 8-bit weights have it.
ACTIVATIONS = {
    "int8": Integers(torch.int8, -128, 127),
    "uint8": Integers(torch.uint8, 0, 255),
    "int16": Integers(torch.int16, -32767, 32767),
}
#: Integers of weights; int4 is held in int8 in the graph and packed in the file.
WEIGHTS = {"int8": Integers(torch.int8, -127, 127), "int4": Integers(torch.int8, -8, 7)}
#: Observers of activations, by name.
OBSERVERS: dict[str, Any] = {
    "min_max": MinMax,
    "moving_average": MovingAverage,
    "histogram": HistogramObserver,
    "percentile": PercentileObserver,
    "mse": MSEObserver,
}


def get_symmetric_quantization_config(
    is_per_channel: bool = False,
    is_qat: bool = False,
    is_dynamic: bool = False,
    act_qmin: int = -128,
    act_qmax: int = 127,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
) -> QuantizationConfig:
    """int8 with symmetric weights, under the published name.

    Args:
        is_per_channel: A scale for each output channel of a weight instead of one for all of it.
        is_qat: For ``prepare_qat``: fake quantization instead of observers.
        is_dynamic: Activations get their scale at run time.
        act_qmin: Smallest integer of activations.
        act_qmax: Largest integer of activations.
        weight_qmin: Smallest integer of weights.
        weight_qmax: Largest integer of weights.

    Raises:
        InvalidArgumentError: A range is empty or does not hold zero.
    """
    return _assemble(
        activations=Integers(torch.int8, act_qmin, act_qmax),
        weights=Integers(torch.int8, weight_qmin, weight_qmax),
        per_channel=is_per_channel,
        dynamic=is_dynamic,
        qat=is_qat,
    )


def get_symmetric_a16w8_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = False,
    is_dynamic: bool = False,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
) -> QuantizationConfig:
    """Symmetric activations of int16 and weights of int8, under the published name.

    Args:
        is_per_channel: A scale for each output channel of a weight instead of one for all of it.
        is_qat: For ``prepare_qat``.
        is_dynamic: Not for int16.
        weight_qmin: Smallest integer of weights.
        weight_qmax: Largest integer of weights.

    Raises:
        InvalidArgumentError: A range is empty or does not hold zero.
        NotSupportedError: Scales that are chosen at run time.
    """
    weights = Integers(torch.int8, weight_qmin, weight_qmax)
    return _assemble(ACTIVATIONS["int16"], weights, is_per_channel, symmetric=True, dynamic=is_dynamic, qat=is_qat)


def get_symmetric_a8w4_quantization_config(
    is_per_channel: bool = True, is_qat: bool = False, is_dynamic: bool = False
) -> QuantizationConfig:
    """Activations of int8 and symmetric weights of 4 bits, -7 to 7, under the published name.

    Args:
        is_per_channel: A scale for each output channel of a weight instead of one for all of it.
        is_qat: For ``prepare_qat``.
        is_dynamic: Activations get their scale at run time.
    """
    return get_symmetric_quantization_config(is_per_channel, is_qat, is_dynamic, weight_qmin=-7, weight_qmax=7)


def quantization_config(
    activations: str | None = "int8",
    weights: str = "int8",
    *,
    per_channel: bool = True,
    symmetric_activations: bool = False,
    dynamic: bool = False,
    qat: bool = False,
    observer: str | Any = "histogram",
    weight_observer: Literal["min_max", "mse"] = "min_max",
    group_size: int | None = None,
    symmetric_weights: bool = True,
) -> QuantizationConfig:
    """Any combination that this package has.

    Args:
        activations: "int8", "uint8", "int16", "fp16", or None for weight-only.
        weights: "int8", "int4" or "fp16".
        per_channel: A scale for each output channel of a weight.
        symmetric_activations: Zero points in the middle of the range; always so for int16.
        dynamic: Activations get their scale at run time.
        qat: For ``prepare_qat``.
        observer: Of activations: "min_max", "moving_average", "histogram", "percentile", "mse", or a class or
            ``cls.with_args(…)`` as in torchao.
        weight_observer: "min_max" takes the largest value, "mse" looks for the scale with the least squared error.
        group_size: Columns that share a scale, for int4 weights of linear layers and embeddings.
        symmetric_weights: False gives each group a zero point, which loses less; weight-only, with ``group_size``.

    Raises:
        InvalidArgumentError: A name that is not known; a size of groups that is none.
        InvalidTypeError: ``observer`` is neither a name nor a class.
        NotSupportedError: A combination that nothing computes with.
    """
    if weights == "fp16" or activations == "fp16":
        if weights != "fp16" or activations not in ("fp16", None) or dynamic or qat or group_size:
            raise NotSupportedError(
                "fp16 goes with fp16: activations='fp16', weights='fp16', without dynamic, qat and group_size"
            )
        half = QuantizationSpec(torch.float16, HalfObserver.with_args(dtype=torch.float16))
        return QuantizationConfig(half, half, half, None, False)
    return _assemble(
        activations=None if activations is None else _known("activations", activations, ACTIVATIONS),
        weights=_known("weights", weights, WEIGHTS),
        per_channel=per_channel,
        symmetric=symmetric_activations or activations == "int16",
        dynamic=dynamic,
        qat=qat,
        observer=observer,
        search=_known("weight_observer", weight_observer, {"min_max": False, "mse": True}),
        group_size=group_size,
        symmetric_weights=symmetric_weights,
    )


#: Name -> what makes the configuration; ``quantize`` takes these names.
PRESETS: dict[str, Callable[[], QuantizationConfig]] = {
    "static_int8": lambda: quantization_config(),
    "dynamic_int8": lambda: quantization_config(dynamic=True),
    "dynamic_int4": lambda: quantization_config(weights="int4", dynamic=True, group_size=32, weight_observer="mse"),
    "int8_weight_only": lambda: quantization_config(None, "int8"),
    "int4_weight_only": lambda: quantization_config(
        None, "int4", group_size=32, weight_observer="mse", symmetric_weights=False
    ),
    "fp16": lambda: quantization_config("fp16", "fp16"),
}


def kind_of(config: QuantizationConfig) -> Kind:
    """What kind a configuration is of."""
    spec = config.input_activation
    if config.weight is not None and config.weight.dtype == torch.float16:
        return "half"
    if spec is None:
        return "weight_only"
    return "dynamic" if getattr(spec, "is_dynamic", False) else "static"


def as_config(what: Any) -> QuantizationConfig:
    """A configuration, or the preset of a name.

    Raises:
        InvalidArgumentError: No preset has that name.
        InvalidTypeError: It is neither.
    """
    if isinstance(what, str):
        return _known("configuration", what, PRESETS)()
    if not isinstance(what, QuantizationConfig):
        raise InvalidTypeError(
            f"{what!r:.80} is no QuantizationConfig; quantization_config() and get_symmetric_quantization_config() "
            "make one"
        )
    return what


def weight_of(config: QuantizationConfig, axis: int | None = 0) -> QuantizationSpec:
    """The spec of a weight whose channels lie along ``axis``.

    Scales by group stay only along axis 0, where rows are what groups divide; elsewhere there is one scale a channel.
    With None there is one scale for the whole weight.
    """
    spec = config.weight
    is_by_channel = spec.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine)
    if axis == 0 or not is_by_channel or spec.dtype == torch.float16:
        return spec
    return _weight_spec(
        Integers(spec.dtype, spec.quant_min, spec.quant_max), axis is not None, config.is_qat, axis=axis or 0
    )


def _class_of(made_by: Any) -> Any:
    """The class behind ``cls.with_args(…)``."""
    return getattr(getattr(made_by, "p", None), "func", made_by)


def _with_args(made_by: Any, **options: Any) -> Any:
    """``made_by.with_args(…)`` where ``made_by`` may be such a thing itself: torchao reads the class behind one
    only.
    """
    given = getattr(getattr(made_by, "p", None), "keywords", {})
    return _class_of(made_by).with_args(**{**options, **given})


def _known(what: str, name: str, table: dict[str, Any]) -> Any:
    if name not in table:
        raise InvalidArgumentError(f"{what} is {name!r}, must be one of {', '.join(map(repr, table))}")
    return table[name]


def _assemble(
    activations: Integers | None,
    weights: Integers,
    per_channel: bool,
    symmetric: bool = False,
    dynamic: bool = False,
    qat: bool = False,
    observer: str | Any = "histogram",
    search: bool = False,
    group_size: int | None = None,
    symmetric_weights: bool = True,
) -> QuantizationConfig:
    for what, integers in (("activations", activations), ("weights", weights)):
        if integers is not None and not _is_range(integers):
            raise InvalidArgumentError(
                f"the integers of {what} run from {integers.low} to {integers.high}; the range must hold zero and lie "
                f"within {integers.dtype}"
            )
    if dynamic and (activations is None or activations.dtype not in (torch.int8, torch.uint8)):
        raise NotSupportedError("dynamic quantization needs activations of int8 or uint8")
    if group_size is not None and (qat or (activations is not None and not dynamic)):
        raise NotSupportedError(
            "weights with a scale a group go with dynamic or weight-only quantization, without training"
        )
    if group_size is not None and (not isinstance(group_size, int) or group_size < 2):
        raise InvalidArgumentError(f"group_size is {group_size!r}, must be a whole number of at least 2")
    if group_size is not None and weights != WEIGHTS["int4"]:
        raise NotSupportedError("weights with a scale a group are int4")
    if not symmetric_weights and (group_size is None or activations is not None):
        raise NotSupportedError("weights with zero points go with weight-only quantization and a scale a group")
    if search and qat:
        raise NotSupportedError(
            "fake quantization follows the weights as they train: weight_observer must be 'min_max'"
        )
    if group_size is not None:
        made_by = GroupwiseObserver.with_args(group_size=group_size, search=search)
        scheme = torch.per_channel_symmetric if symmetric_weights else torch.per_channel_affine
        weight = QuantizationSpec(weights.dtype, made_by, weights.low, weights.high, scheme, ch_axis=0)
    else:
        weight = _weight_spec(weights, per_channel, qat, search)
    activation = None if activations is None else _activation_spec(activations, symmetric, dynamic, qat, observer)
    return QuantizationConfig(activation, None if dynamic else activation, weight, None, qat)


def _is_range(integers: Integers) -> bool:
    limits = torch.iinfo(integers.dtype)
    return limits.min <= integers.low <= 0 <= integers.high <= limits.max and integers.low < integers.high


def _activation_spec(integers: Integers, symmetric: bool, dynamic: bool, qat: bool, observer: Any) -> QuantizationSpec:
    scheme = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
    eps = smallest_scales.ACTIVATION * 255 / (integers.high - integers.low)  # more steps, smaller ones
    if dynamic and qat:
        made_by = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver.with_args(averaging_constant=1), eps=eps)
    elif dynamic:
        made_by = PlaceholderObserver.with_args(eps=smallest_scales.MEASURED)
    elif qat:
        made_by = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, eps=eps)
    else:
        kind = _known("observer", observer, OBSERVERS) if isinstance(observer, str) else observer
        if not hasattr(_class_of(kind), "with_args"):
            raise InvalidTypeError(
                f"observer is {observer!r:.60}, must be one of {', '.join(map(repr, OBSERVERS))}, or an observer's "
                "class"
            )
        made_by = _with_args(kind, eps=smallest_scales.MEASURED)
    return QuantizationSpec(
        integers.dtype, made_by, integers.low, integers.high, scheme, ch_axis=None, is_dynamic=dynamic
    )


def _weight_spec(
    integers: Integers, channels: bool, qat: bool, search: bool = False, axis: int = 0
) -> QuantizationSpec:
    eps = smallest_scales.WEIGHT if qat else smallest_scales.MEASURED
    if qat:
        observer = MovingAveragePerChannelMinMaxObserver if channels else MovingAverageMinMaxObserver
        # averaging_constant=1: the weight as it is now, not as it was
        fake = FakeQuantize if axis else FusedMovingAvgObsFakeQuantize  # the fused one knows the first axis only
        made_by = fake.with_args(
            observer=observer, eps=eps, averaging_constant=1.0, **({"ch_axis": axis} if channels else {})
        )
    elif channels:
        made_by = (PerChannelMSEObserver if search else PerChannelMinMax).with_args(eps=eps)
    else:
        made_by = (MSEObserver if search else MinMaxObserver).with_args(eps=eps)
    scheme = torch.per_channel_symmetric if channels else torch.per_tensor_symmetric
    return QuantizationSpec(
        integers.dtype, made_by, integers.low, integers.high, scheme, ch_axis=axis if channels else None
    )
