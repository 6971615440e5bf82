"""Operators that the example backend registers for itself: schema, shape function and eager reference.

The kernel is kernels/conv2d_relu.cpp, its table ops.yaml; passes.py brings the operator in after Edge. A model that has
been rewritten is in the dialect "backend:ExampleBackend" (``executorch_py.verify_dialect``).
"""

import torch
from torch import fx
from torch.nn import functional as F

from executorch_py.exir.backend.dialect import BackendDialect, register_backend_dialect

from .preprocess import BACKEND_ID

_library = torch.library.Library("example", "FRAGMENT")
_library.define(
    "conv2d_relu(Tensor input, Tensor weight, Tensor? bias, int[2] stride, int[2] padding, int[2] dilation, int "
    "groups) -> Tensor"
)


@torch.library.register_fake("example::conv2d_relu", lib=_library)
def _shape(input, weight, bias, stride, padding, dilation, groups):  # type: ignore[no-untyped-def]
    sizes = [
        (size + 2 * pad - dilate * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, dilate in zip(
            input.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    return input.new_empty((input.shape[0], weight.shape[0], *sizes))


@torch.library.impl(_library, "conv2d_relu", "CompositeExplicitAutograd")
def _reference(input, weight, bias, stride, padding, dilation, groups):  # type: ignore[no-untyped-def]
    return torch.relu(F.conv2d(input, weight, bias, stride, padding, dilation, groups))


CONV2D_RELU = torch.ops.example.conv2d_relu.default


def _check(node: fx.Node) -> str:
    """The device computes in float32."""
    if node.target is CONV2D_RELU and node.meta["val"].dtype != torch.float32:
        return f"the device convolves float32 only, not {node.meta['val'].dtype}"
    return ""


register_backend_dialect(BackendDialect(BACKEND_ID, "example", frozenset({"example::conv2d_relu"}), _check))
