"""TOSA, and through it Arm's Ethos-U: parts of a quantized model as a TOSA graph.

>>> from executorch_py.backends.tosa import TOSAPartitioner  # doctest: +SKIP
>>> program = et.to_edge_transform_and_lower(quantized, partitioner=[TOSAPartitioner()])  # doctest: +SKIP

Names are loaded on first use: firmware is written without torch.
"""

from executorch_py import _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, __file__)
