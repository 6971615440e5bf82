"""From a model to a quantized program: in one call, or step by step.

>>> program = quantize(model, example_inputs, "static_int8", calibration_data)  # doctest: +SKIP

>>> prepared = prepare(model, example_inputs, quantizer)  # observers are in the graph  # doctest: +SKIP
>>> calibrate(prepared, calibration_data)  # doctest: +SKIP
>>> program = convert(prepared)  # an ExportedProgram with q/dq nodes  # doctest: +SKIP

>>> prepared = prepare_qat(model, example_inputs, quantizer)  # train it as any module  # doctest: +SKIP
>>> program = convert(prepared)  # doctest: +SKIP
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

import torch
from executorch_py.quantizer.calibration import batch_norm, fake_quantization
from executorch_py.quantizer.calibration.biases import fit_biases, round_biases
from executorch_py.quantizer.calibration.checks import (
    check_observers,
    check_weight,
    describe,
    is_exported_module,
    needs_data,
    require_annotations,
    require_eval_mode,
    require_eval_program,
    require_fixed_momentum,
    require_float_model,
    require_float_program,
    require_samples,
)
from executorch_py.quantizer.calibration.half_range import wants_ranges
from executorch_py.quantizer.calibration.input_moments import recorded_moments, wants_moments
from executorch_py.quantizer.calibration.observer_calls import is_weight, observers_of, weight_observers
from executorch_py.quantizer.calibration.prepared_graphs import (
    convert_graph,
    prepare_graph,
    prepare_graph_for_training,
)
from executorch_py.quantizer.rules.input_parts import share_input_scales
from executorch_py.quantizer.rules.lifting import (
    constant_value,
    fold_quantized_constants,
    freeze_computed_weights,
    lift,
    unlift,
)
from executorch_py.quantizer.rules.loops import graphs_of, held_in_bodies
from executorch_py.quantizer.rules.matching import constants_remembered
from executorch_py.quantizer.spec.config import as_config
from executorch_py.quantizer.spec.pt2e import FakeQuantizeBase, QuantizationConfig, Quantizer
from executorch_py.quantizer.xnnpack_quantizer import XNNPACKQuantizer
from torch import fx, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError
from executorch_py.export.functional.functionalize import functionalize
from executorch_py.graphs.modes import in_mode

#: Where a prepared module keeps the program that it was made of.
PROGRAM = "executorch_py.float_program"

Choice = QuantizationConfig | Quantizer | str


def quantize(
    model: nn.Module | ExportedProgram,
    example_inputs: tuple[Any, ...] = (),
    config_or_quantizer: Choice = "static_int8",
    calibration_data: Iterable[Any] | None = None,
    *,
    example_kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    transform: Callable[[Any], Any] | None = None,
    progress: bool = False,
) -> ExportedProgram:
    """Post-training quantization: static, dynamic, weight-only or half precision, as the configuration says.

    Args:
        model: The float model in eval mode, or its exported program.
        example_inputs: What the model is exported with, as for torch.export; not used for an exported program.
        config_or_quantizer: A quantizer, a configuration for all of the model, or the name of a preset: "static_int8",
            "dynamic_int8", "dynamic_int4", "int8_weight_only", "int4_weight_only", "fp16".
        calibration_data: Samples, any iterable or DataLoader; read once, one sample at a time. A sample is the model's
            arguments: a tensor, a tuple or list of them, or a dict of keyword arguments. Static quantization needs
            them; int4 weights in groups are rounded by what they do to the outputs of their layers where there are
            samples.
        example_kwargs: Keyword arguments beside ``example_inputs``.
        dynamic_shapes: As in torch.export.
        transform: Makes the model's arguments of a sample, such as ``lambda sample: sample[0]`` where labels stand
            beside.
        progress: Show on stderr how far the calibration is.

    Returns:
        A program with quantize and dequantize nodes, for ``to_edge_transform_and_lower``; ``program.module()`` runs it
        in eager PyTorch.

    Raises:
        InvalidArgumentError: Calibration data that is empty, or that the model cannot take; NaN or infinity in what it
            gave.
        InvalidStateError: The model is in training mode, or the quantizer found nothing to quantize.
        InvalidTypeError: The model is not float32.
        NotSupportedError: The model went through eager-mode quantization; a combination that nothing computes with.
    """
    prepared = prepare(
        model, example_inputs, config_or_quantizer, example_kwargs=example_kwargs, dynamic_shapes=dynamic_shapes
    )
    if needs_data(prepared) or (calibration_data is not None and (wants_moments(prepared) or wants_ranges(prepared))):
        if calibration_data is None:
            raise InvalidArgumentError(
                "static quantization measures activations: give samples of your data as calibration_data (some 100 are "
                "enough), or choose a dynamic or weight-only configuration"
            )
        calibrate(prepared, calibration_data, transform=transform, progress=progress)
    return convert(prepared)


def prepare(
    model: nn.Module | ExportedProgram,
    example_inputs: tuple[Any, ...] = (),
    config_or_quantizer: Choice = "static_int8",
    *,
    example_kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> fx.GraphModule:
    """The model with observers, for :func:`calibrate` and :func:`convert`.

    Arguments and errors as in :func:`quantize`.
    """
    quantizer = _quantizer(config_or_quantizer)
    if isinstance(config_or_quantizer, QuantizationConfig) and config_or_quantizer.is_qat:
        raise InvalidArgumentError("the configuration is for training (is_qat): give it to prepare_qat, or one without")
    if isinstance(model, nn.Module):
        require_float_model(model)
        require_eval_mode(model)
    exported = _exported(model, example_inputs, example_kwargs, dynamic_shapes)
    if isinstance(model, ExportedProgram) or is_exported_module(model):
        require_eval_program(exported)
    program = functionalize(exported)
    module = unlift(program)
    freeze_computed_weights(module)
    return _kept(prepare_graph(module, quantizer), program)


def prepare_qat(
    model: nn.Module | ExportedProgram,
    example_inputs: tuple[Any, ...] = (),
    config_or_quantizer: Choice | None = None,
    *,
    example_kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> fx.GraphModule:
    """The model with fake quantization and folded batch norms, to be trained by a loop of your own.

    ``train()`` and ``eval()`` work on it, parameters are those of the model. Then :func:`convert`.

    Args:
        model: The float model; exported in training mode.
        example_inputs: As in :func:`quantize`; a batch of more than one, which batch norm wants in training mode.
        config_or_quantizer: A quantizer or configuration for training (``is_qat=True``); by default int8 by channel.
        example_kwargs: As in :func:`quantize`.
        dynamic_shapes: As in torch.export; batch sizes of the training loop are usually a dynamic dimension.

    Raises:
        InvalidArgumentError: A configuration that is not for training; a norm with ``momentum=None``.
    """
    from executorch_py.quantizer.spec.config import quantization_config

    config = quantization_config(qat=True) if config_or_quantizer is None else config_or_quantizer
    if isinstance(config, (str, QuantizationConfig)) and not as_config(config).is_qat:
        raise InvalidArgumentError(
            "prepare_qat needs a configuration for training: quantization_config(qat=True) or "
            "get_symmetric_quantization_config(is_qat=True)"
        )
    quantizer = _quantizer(config)
    if isinstance(model, nn.Module):
        require_float_model(model)
    with _as_it_trains(model):
        program = _exported(model, example_inputs, example_kwargs, dynamic_shapes)
    module = unlift(program)
    prepared = _kept(prepare_graph_for_training(module, quantizer), program)
    fake_quantization.keep_in_checkpoints(prepared)
    return prepared


def _as_it_trains(model: Any) -> contextlib.AbstractContextManager[None]:
    """Has a model in training mode for a while. An exported module has no ``train()`` of its own."""
    if not isinstance(model, nn.Module) or is_exported_module(model):
        return contextlib.nullcontext()
    require_fixed_momentum(model)
    return in_mode(model, training=True)


def calibrate(
    prepared: fx.GraphModule,
    data: Iterable[Any],
    *,
    transform: Callable[[Any], Any] | None = None,
    progress: bool = False,
) -> int:
    """Runs samples through a prepared module; one is held at a time. Returns how many there were.

    Raises:
        InvalidArgumentError: There is none, or the module cannot take one.
        InvalidStateError: The module was not made by :func:`prepare`, or was converted.
        InvalidTypeError: The data is no iterable of samples.
    """
    if not isinstance(prepared, fx.GraphModule) or not any(True for _ in observers_of(prepared)):
        raise InvalidStateError(
            "calibrate takes what prepare made, before it is converted: there is no observer in this module"
        )
    require_samples(data)
    total = len(data) if isinstance(data, Sized) else None
    weights = weight_observers(prepared)  # convert shows them theirs
    count, started = 0, time.monotonic()
    state = _written_buffers(prepared)
    writes_inputs = _writes_inputs(prepared)
    try:
        for module in weights:
            module.forward = _unchanged
        with torch.no_grad(), recorded_moments(prepared):
            for sample in data:
                args, kwargs = _arguments(sample if transform is None else transform(sample))
                if writes_inputs:
                    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
                try:
                    prepared(*args, **kwargs)
                except Exception as error:
                    raise InvalidArgumentError(
                        f"calibration sample {count}, {describe(sample)}, does not run through the model: "
                        f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
                        f"{_hint(sample, transform)}"
                    ) from error
                count += 1
                if progress:
                    _show(count, total, time.monotonic() - started)
    finally:
        for module in weights:
            module.__dict__.pop("forward", None)
        for buffer, value in state:
            buffer.copy_(value)
        if progress and count:
            print(file=sys.stderr)
    if count == 0:
        raise InvalidArgumentError(
            "the calibration data has no sample; an iterator that was read before is empty, too: give a list or a "
            "DataLoader"
        )
    return count


def convert(prepared: fx.GraphModule) -> ExportedProgram:
    """Replaces observers by quantize and dequantize nodes; ``prepared`` is used up.

    Biases that integer kernels add become whole steps of their sums (biases.py): the program computes what the kernels
    do.

    Raises:
        InvalidStateError: It was not made by :func:`prepare` or :func:`prepare_qat`, or was never calibrated or
            trained.
        InvalidArgumentError: Observers have seen NaN, infinity, or ranges that no scale fits; names the layer.
    """
    is_trained = isinstance(prepared, fx.GraphModule) and any(
        isinstance(module, FakeQuantizeBase) for module in prepared.modules()
    )
    converted, program = converted_graph(prepared)
    if not is_trained:
        share_input_scales(converted)
    for graph in graphs_of(converted):
        round_biases(graph)
    return lift(converted, program)


def converted_graph(prepared: fx.GraphModule) -> tuple[fx.GraphModule, ExportedProgram]:
    """What :func:`convert` makes, with the model's own biases, and the float program; errors as there."""
    program = prepared.meta.get(PROGRAM) if isinstance(prepared, fx.GraphModule) else None
    if program is None:
        raise InvalidStateError(
            "convert takes what prepare or prepare_qat of this package made, once; a module of torchao's prepare_pt2e "
            "goes through torchao's convert_pt2e and torch.export.export"
        )
    for graph in [*graphs_of(prepared)]:
        batch_norm.close_after_training(graph)
        held_in_bodies(graph)
    with constants_remembered():
        for graph in graphs_of(prepared):
            _observe_weights(graph)
        check_observers(prepared)
        for graph in graphs_of(prepared):
            fit_biases(graph)
    del prepared.meta[PROGRAM]
    converted = convert_graph(prepared, fold_quantize=False)
    for graph in graphs_of(converted):
        fold_quantized_constants(graph)
        freeze_computed_weights(graph)  # biases
    return converted, program


def _quantizer(choice: Choice) -> Quantizer:
    if isinstance(choice, Quantizer):
        return choice
    if isinstance(choice, type):
        raise InvalidTypeError(f"{choice.__name__} is a class; give an object of it, {choice.__name__}()")
    return XNNPACKQuantizer().set_global(as_config(choice))


def _exported(
    model: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    if isinstance(model, ExportedProgram):
        if kwargs or dynamic_shapes is not None:
            raise InvalidArgumentError("an exported program has its inputs and dynamic shapes already")
        require_float_program(model)
        return model
    if not isinstance(model, nn.Module):
        raise InvalidTypeError(f"model is {model!r:.80}, must be a torch.nn.Module or an ExportedProgram")
    if not isinstance(inputs, tuple):
        raise InvalidTypeError(f"example_inputs is {describe(inputs)}, must be a tuple of the model's arguments")
    program = torch.export.export(model, inputs, kwargs, dynamic_shapes=dynamic_shapes)
    require_float_program(program)
    return program


def _kept(prepared: fx.GraphModule, program: ExportedProgram) -> fx.GraphModule:
    require_annotations(prepared)
    prepared.meta[PROGRAM] = program
    return prepared


def _observe_weights(prepared: fx.GraphModule) -> None:
    """Shows observers of constants what they observe."""
    values: dict[fx.Node, Any] = {}
    with torch.no_grad():
        for node in prepared.graph.nodes:
            if node.op == "call_module" and is_weight(node):
                observer = prepared.get_submodule(str(node.target))
                value = constant_value(prepared, node.args[0], values)
                check_weight(node, observer, value)
                observer(value)


def _written_buffers(prepared: fx.GraphModule) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Buffers that the model writes, such as a cache, with copies: they are the user's, and calibration leaves no
    traces.
    """
    program = prepared.meta.get(PROGRAM)
    if program is None:
        return []
    names = set(program.graph_signature.buffers_to_mutate.values())
    return [(buffer, buffer.detach().clone()) for name, buffer in prepared.named_buffers() if name in names]


def _writes_inputs(prepared: fx.GraphModule) -> bool:
    """Whether a run changes tensors that it is given: samples are the user's, too."""
    program = prepared.meta.get(PROGRAM)
    return program is not None and bool(program.graph_signature.user_inputs_to_mutate)


def _arguments(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(sample, Mapping):
        return (), dict(sample)
    return (tuple(sample), {}) if isinstance(sample, (tuple, list)) else ((sample,), {})


def _hint(sample: Any, transform: Any) -> str:
    values = (
        sample if isinstance(sample, (tuple, list)) else sample.values() if isinstance(sample, Mapping) else [sample]
    )
    if any(type(value).__module__ == "numpy" for value in values):
        return "; the model takes tensors: make them of arrays with torch.from_numpy, in transform= for instance"
    if transform is None and isinstance(sample, (tuple, list)) and len(sample) > 1:
        return "; where labels stand beside the inputs, give transform=lambda sample: sample[0]"
    return ""


def _unchanged(x: torch.Tensor) -> torch.Tensor:
    return x


def _show(count: int, total: int | None, seconds: float) -> None:
    of = f" of {total}" if total is not None else ""
    print(
        f"\rcalibration: {count}{of} samples, {count / max(seconds, 1e-9):.1f} a second",
        end="",
        file=sys.stderr,
        flush=True,
    )
