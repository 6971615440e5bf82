"""The XNNPACK delegate: convolutions, products, poolings and what stands between them, on the CPU.

>>> from executorch_py.backends.xnnpack import XnnpackPartitioner  # doctest: +SKIP
>>> program = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])  # doctest: +SKIP
"""

from .configs import get_xnnpack_edge_compile_config, get_xnnpack_executorch_backend_config
from .partitioner import XnnpackDynamicallyQuantizedPartitioner, XnnpackPartitioner
from .preprocess import BACKEND_ID, Precision

__all__ = [
    "BACKEND_ID",
    "Precision",
    "XnnpackDynamicallyQuantizedPartitioner",
    "XnnpackPartitioner",
    "get_xnnpack_edge_compile_config",
    "get_xnnpack_executorch_backend_config",
]
