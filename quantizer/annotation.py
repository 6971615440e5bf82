"""For quantizers of your own: the rules that annotate what a pattern matched. See docs/how-to/add_quantizer.md."""

from .rules.annotation import (
    activation,
    annotate,
    binary,
    joined,
    matmul,
    padded,
    parted,
    product,
    rescaled,
    shared,
    table,
)

__all__ = [
    "activation",
    "annotate",
    "binary",
    "joined",
    "matmul",
    "padded",
    "parted",
    "product",
    "rescaled",
    "shared",
    "table",
]
