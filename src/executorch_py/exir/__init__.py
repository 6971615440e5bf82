"""The published names of the export side: ``from executorch_py.exir import to_edge, EdgeCompileConfig, …``.

Code written for the published ExecuTorch moves by changing the import from ``executorch.exir`` to ``executorch_py.exir``.
"""

from executorch_py.lowering.config import EdgeCompileConfig, ExecutorchBackendConfig
from executorch_py.lowering.edge import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch_py.lowering.program import ExecutorchProgramManager

__all__ = [
    "EdgeCompileConfig",
    "EdgeProgramManager",
    "ExecutorchBackendConfig",
    "ExecutorchProgramManager",
    "to_edge",
    "to_edge_transform_and_lower",
]
