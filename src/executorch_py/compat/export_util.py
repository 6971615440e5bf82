"""``extension.export_util.utils``: from a module to a file in one call, under the published names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from executorch_py.lowering.config import EdgeCompileConfig, ExecutorchBackendConfig
from executorch_py.lowering.edge import EdgeProgramManager, to_edge
from executorch_py.lowering.program import ExecutorchProgramManager

__all__ = ["export_to_edge", "export_to_exec_prog", "save_pte_program"]


def export_to_edge(
    model: torch.nn.Module,
    example_inputs: tuple[Any, ...],
    example_kwarg_inputs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    edge_constant_methods: Mapping[str, Any] | None = None,
    edge_compile_config: EdgeCompileConfig | None = None,
    strict: bool = True,
    verbose: bool = True,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Exports a module and brings it into the Edge dialect.

    Args:
        model: The module.
        example_inputs: Positional arguments.
        example_kwarg_inputs: Keyword arguments.
        dynamic_shapes: As of ``torch.export.export``.
        edge_constant_methods: As of ``to_edge``.
        edge_compile_config: Options; without them the dialect is not checked, as in the published function.
        strict: As of ``torch.export.export``.
        verbose: Accepted; nothing is printed.
        generate_etrecord: As of ``to_edge``.
    """
    exported = torch.export.export(
        model, example_inputs, example_kwarg_inputs, dynamic_shapes=dynamic_shapes, strict=strict
    )
    config = edge_compile_config or EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(exported, edge_constant_methods, config, generate_etrecord=generate_etrecord)


def export_to_exec_prog(
    model: torch.nn.Module,
    example_inputs: tuple[Any, ...],
    example_kwarg_inputs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    edge_constant_methods: Mapping[str, Any] | None = None,
    edge_compile_config: EdgeCompileConfig | None = None,
    backend_config: ExecutorchBackendConfig | None = None,
    strict: bool = True,
) -> ExecutorchProgramManager:
    """Exports a module and compiles it.

    Arguments as of ``export_to_edge``; ``backend_config`` as of ``to_executorch``.
    """
    edge = export_to_edge(
        model, example_inputs, example_kwarg_inputs, dynamic_shapes, edge_constant_methods, edge_compile_config, strict
    )
    return edge.to_executorch(backend_config)


def save_pte_program(prog: ExecutorchProgramManager, model_name: str, output_dir: str = "") -> str:
    """Writes ``model_name`` into a folder, with ``.pte`` at its end, and its ``.ptd`` files; returns the path."""
    path = os.path.join(output_dir, model_name if model_name.endswith(".pte") else f"{model_name}.pte")
    prog.save(path)
    if prog.backend_config.external_constants is not False:
        prog.write_tensor_data_to_file(output_dir or os.curdir)
    return path
