"""Options that published code takes from here (``backends.xnnpack.utils.configs``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from executorch_py.lowering.config import EdgeCompileConfig, ExecutorchBackendConfig

__all__ = ["get_transform_passes", "get_xnnpack_edge_compile_config", "get_xnnpack_executorch_backend_config"]


def get_xnnpack_edge_compile_config(skip_dim_order: bool = False) -> EdgeCompileConfig:
    """Options of ``to_edge`` for programs that are delegated."""
    return EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=skip_dim_order)


def get_transform_passes(additional_passes: Sequence[Callable[..., Any]] | None = None) -> list[Callable[..., Any]]:
    """Passes before delegation: those given. The compiler's own run in any case."""
    return list(additional_passes or [])


def get_xnnpack_executorch_backend_config(
    additional_passes: Sequence[Callable[..., Any]] | None = None,
) -> ExecutorchBackendConfig:
    """Options of ``to_executorch`` for programs that are delegated."""
    return ExecutorchBackendConfig(passes=list(additional_passes or []), extract_delegate_segments=True)
