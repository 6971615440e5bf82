"""The published home of ``executorch_call_delegate``."""

from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate

__all__ = ["executorch_call_delegate"]
