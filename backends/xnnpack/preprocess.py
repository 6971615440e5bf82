"""The backend's id and options. Preprocess itself is C++ (compiler/)."""

import enum
from collections.abc import Iterable

from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec

BACKEND_ID = "XnnpackBackend"


class Precision(enum.Enum):
    """Kinds of numbers that the delegate computes with."""

    FP32 = "fp32"
    FP16 = "fp16"
    STATIC_QUANT = "static_quant"
    DYNAMIC_QUANT = "dynamic_quant"


def delegation_spec(precisions: Iterable[Precision], weight_only: bool = False) -> DelegationSpec:
    """What the compiler half gets to know: the precisions it may use, and whether floats are multiplied by integer
    weights.
    """
    words = sorted({precision.value for precision in precisions}) + ["weight_only"] * weight_only
    return DelegationSpec(BACKEND_ID, [CompileSpec("precisions", " ".join(words).encode())])
