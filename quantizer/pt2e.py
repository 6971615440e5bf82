"""torchao's PT2E classes and functions, the same objects. The only file of this package that imports torchao.

torchao takes over a second to import and says three things at start-up that no user of this package can act on (kernels of
its own for other processors, newer calls of torch); they are kept quiet during the import, and only there.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator


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
    from torchao.quantization.pt2e.prepare import prepare as insert_observers
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e as convert_prepared
    from torchao.quantization.pt2e.quantizer import (
        ComposableQuantizer,
        DerivedQuantizationSpec,
        EdgeOrNode,
        FixedQParamsQuantizationSpec,
        QuantizationAnnotation,
        QuantizationConfig,
        QuantizationSpec,
        QuantizationSpecBase,
        Quantizer,
        SharedQuantizationSpec,
    )
    from torchao.quantization.pt2e.utils import _disallow_eval_train as without_modes
    from torchao.quantization.pt2e.utils import _get_node_name_to_scope as node_name_to_scope

#: Where torchao looks for a node's annotation: ``node.meta[ANNOTATION]``.
ANNOTATION = "quantization_annotation"

__all__ = [
    "ANNOTATION",
    "ComposableQuantizer",
    "DerivedQuantizationSpec",
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
    "QuantizationAnnotation",
    "QuantizationConfig",
    "QuantizationSpec",
    "QuantizationSpecBase",
    "Quantizer",
    "SharedQuantizationSpec",
    "UniformQuantizationObserverBase",
    "convert_prepared",
    "insert_observers",
    "node_name_to_scope",
    "without_modes",
]
