"""The example backend: complete and minimal, made to be cloned. It takes 2-D convolution, relu and add in float32.

>>> from executorch_py.backends.example import ExamplePartitioner  # doctest: +SKIP
>>> program = et.to_edge_transform_and_lower(exported, partitioner=[ExamplePartitioner()])  # doctest: +SKIP
"""

from .partitioner import ExamplePartitioner
from .preprocess import BACKEND_ID

__all__ = ["BACKEND_ID", "ExamplePartitioner"]
