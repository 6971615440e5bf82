"""A payload as a program of its own: a file whose method ``forward`` is one call of the delegate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from executorch_py.codegen.flatbuffer import read_root
from executorch_py.lowering.lowered_backend_module import LoweredBackendModule

#: Numbers of TOSA's types.
_DTYPES = {1: np.bool_, 3: np.int8, 4: np.int16, 5: np.int32, 7: np.float32, 8: np.float16}


def inputs_of(payload: bytes) -> list[tuple[type, list[int]]]:
    """Type and shape of each input of a payload."""
    (region,) = read_root(payload, b"TOSA").tables(1)
    (block,) = region.tables(1)
    tensors = {tensor.text(0): tensor for tensor in block.tables(2)}
    inputs = [tensors[name] for name in block.texts(3)]
    return [(_DTYPES[tensor.scalar(2, "I")], tensor.numbers(1)) for tensor in inputs]


class _Shapes(torch.nn.Module):
    """Outputs of the shapes and dtypes that a payload has; what it computes never runs."""

    def __init__(self, outputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.outputs = [(tuple(output.shape), output.dtype) for output in outputs]

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return [inputs[0].new_zeros(shape, dtype=dtype) for shape, dtype in self.outputs]


def as_program(
    payload: bytes, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], backend: str = "TOSABackend"
) -> bytes:
    """The bytes of a `.pte` that runs ``payload``. Of ``inputs`` and ``outputs`` only shapes and dtypes count."""
    examples = tuple(torch.from_numpy(np.array(array)) for array in inputs)
    shapes = _Shapes([torch.from_numpy(np.array(array)) for array in outputs])
    program = torch.export.export(shapes, examples)
    return LoweredBackendModule(program, backend, payload, []).buffer()
