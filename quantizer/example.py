"""The example quantizer: what backends/example/int8.py computes with, and nothing else. Made to be cloned.

The device has three integer kernels: convolution, linear layer, and linear layer with relu.
docs/how-to/add_quantizer.md goes through this file.

>>> program = quantize(model, example_inputs, ExampleQuantizer(), calibration_data)  # doctest: +SKIP
"""

from torch import fx

from .calibration import torchao_folding  # noqa: F401  torchao's own functions fold as ours
from .rules.annotation import product
from .rules.matching import Pattern, find, is_annotated
from .spec.config import quantization_config
from .spec.pt2e import Quantizer

#: One row a kernel: a linear layer and its relu are one kernel, so nothing is rounded between them. The batch norm is
#: folded into its convolution before the device sees it.
PATTERNS: tuple[Pattern, ...] = (
    Pattern("linear", "y = RELU?(LINEAR(...), ...)", product, frozenset({"static"})),
    Pattern("conv", "y = BATCH_NORM?(CONV(...), ...)", product, frozenset({"static"})),
)


class ExampleQuantizer(Quantizer):
    """int8 activations with a scale a tensor, int8 weights with a scale a channel.

    Args:
        is_qat: For ``prepare_qat``: fake quantization instead of observers.
    """

    def __init__(self, is_qat: bool = False) -> None:
        super().__init__()
        self._config = quantization_config("int8", "int8", per_channel=True, qat=is_qat)

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Writes annotations into ``node.meta``; torchao puts observers where they say."""
        for pattern in PATTERNS:
            for match in find(model.graph, pattern):
                if not any(is_annotated(node) for node in match.nodes):
                    pattern.rule(match, self._config)
        return model

    def validate(self, model: fx.GraphModule) -> None:
        """The patterns annotate only what the device has."""
