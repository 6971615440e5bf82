"""TOSA, and through it Arm's Ethos-U: parts of a quantized model as a TOSA graph.

>>> from executorch_py.backends.tosa import TOSAPartitioner  # doctest: +SKIP
>>> program = et.to_edge_transform_and_lower(quantized, partitioner=[TOSAPartitioner()])  # doctest: +SKIP
"""

from .partitioner import TOSAPartitioner
from .preprocess import BACKEND_ID

__all__ = ["BACKEND_ID", "TOSAPartitioner"]
