"""torchao's PT2E classes and functions, the same objects. The only file of this package that imports torchao.

torchao takes over a second to import and says three things at start-up that no user of this package can act on (kernels
of its own for other processors, newer calls of torch). They are kept quiet during the import, and only there.
"""

import contextlib
import functools
import logging
import types
import warnings
from collections.abc import Iterator

from torch.fx._lazy_graph_module import _LazyGraphModule as LazyGraphModule


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("torchao", "torch.utils._pytree", "torch.distributed")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


with _quiet():
    try:
        import torchao  # noqa: F401
    except ImportError as error:
        raise ImportError("quantization needs torchao: pip install 'torchao>=0.18,<0.19'") from error
    from torchao.quantization.pt2e import (
        FakeQuantize,
        FakeQuantizeBase,
        FixedQParamsObserver,
        FusedMovingAvgObsFakeQuantize,
        MinMaxObserver,
        MovingAverageMinMaxObserver,
        MovingAveragePerChannelMinMaxObserver,
        ObserverBase,
        PerChannelMinMaxObserver,
        PlaceholderObserver,
        UniformQuantizationObserverBase,
    )
    from torchao.quantization.pt2e import export_utils as mode_switches
    from torchao.quantization.pt2e.constant_fold import constant_fold
    from torchao.quantization.pt2e.convert import convert as _convert
    from torchao.quantization.pt2e.prepare import _create_obs_or_fq_from_qspec as make_observer
    from torchao.quantization.pt2e.prepare import _get_edge_or_node_to_group_id as groups_of_shared
    from torchao.quantization.pt2e.prepare import _get_edge_or_node_to_qspec as specs_in
    from torchao.quantization.pt2e.prepare import _is_mutable_buffer_arg as is_written_buffer
    from torchao.quantization.pt2e.quantize_pt2e import _quant_node_constraint as is_quantize
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e as convert_prepared
    from torchao.quantization.pt2e.quantize_pt2e import reference_representation_rewrite
    from torchao.quantization.pt2e.quantizer import (
        ComposableQuantizer,
        DerivedQuantizationSpec,
        DuplicateDQPass,
        EdgeOrNode,
        FixedQParamsQuantizationSpec,
        PortNodeMetaForQDQ,
        QuantizationAnnotation,
        QuantizationConfig,
        QuantizationSpec,
        QuantizationSpecBase,
        Quantizer,
        SharedQuantizationSpec,
    )
    from torchao.quantization.pt2e.utils import _get_node_name_to_scope as node_name_to_scope

#: torchao's replacing of observers, except that the code of the module that it makes is written when it first runs.
replace_observers = functools.partial(
    types.FunctionType(
        _convert.__code__, {**_convert.__globals__, "GraphModule": LazyGraphModule}, "convert", _convert.__defaults__
    ),
    is_reference=True,
    _remove_qconfig_flag=False,
    is_decomposed=True,
)


#: Where torchao looks for a node's annotation: ``node.meta[ANNOTATION]``.
ANNOTATION = "quantization_annotation"

__all__ = [
    "ANNOTATION",
    "ComposableQuantizer",
    "DerivedQuantizationSpec",
    "DuplicateDQPass",
    "EdgeOrNode",
    "FakeQuantize",
    "FakeQuantizeBase",
    "FixedQParamsObserver",
    "FixedQParamsQuantizationSpec",
    "FusedMovingAvgObsFakeQuantize",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "PortNodeMetaForQDQ",
    "QuantizationAnnotation",
    "QuantizationConfig",
    "QuantizationSpec",
    "QuantizationSpecBase",
    "Quantizer",
    "SharedQuantizationSpec",
    "UniformQuantizationObserverBase",
    "constant_fold",
    "convert_prepared",
    "groups_of_shared",
    "is_quantize",
    "is_written_buffer",
    "make_observer",
    "mode_switches",
    "node_name_to_scope",
    "reference_representation_rewrite",
    "replace_observers",
    "specs_in",
]
