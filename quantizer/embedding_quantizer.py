"""EmbeddingQuantizer: tables of embeddings as integers; nothing else of the model is touched.

>>> EmbeddingQuantizer()  # int8, a scale a row  # doctest: +SKIP
>>> layers = XNNPACKQuantizer().set_global("dynamic_int8")  # doctest: +SKIP
>>> ComposableQuantizer([EmbeddingQuantizer("int4", group_size=32), layers])  # doctest: +SKIP
"""

from collections.abc import Callable

from torch import fx

from .rules.annotation import table
from .rules.matching import Pattern, find, is_annotated
from .spec.config import quantization_config
from .spec.pt2e import Quantizer

PATTERNS: tuple[Pattern, ...] = (Pattern("embedding", "y = EMBEDDING(...)", table, frozenset({"weight_only"})),)


class EmbeddingQuantizer(Quantizer):
    """Annotates embeddings.

    Args:
        weights: "int8" or "int4".
        group_size: Columns that share a scale (int4); None for a scale a row.
        keep: Nodes for which it gives False are left as they are.

    Raises:
        InvalidArgumentError: ``weights`` is no type of weights.
        NotSupportedError: Groups of something else than int4.
    """

    def __init__(
        self, weights: str = "int8", group_size: int | None = None, keep: Callable[[fx.Node], bool] | None = None
    ) -> None:
        super().__init__()
        self._config = quantization_config(None, weights, group_size=group_size)
        self._keep = keep

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Writes annotations; nodes that another quantizer has annotated are left."""
        for pattern in PATTERNS:
            for match in find(model.graph, pattern):
                if not is_annotated(match.first) and (self._keep is None or self._keep(match.first)):
                    pattern.rule(match, self._config)
        return model

    def validate(self, model: fx.GraphModule) -> None:
        """Nothing to check: any table can be quantized."""
