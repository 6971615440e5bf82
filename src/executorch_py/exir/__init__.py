"""The published names of the export side: ``from executorch_py.exir import to_edge, EdgeCompileConfig, …``.

Code written for the published ExecuTorch moves by changing the import from ``executorch.exir`` to ``executorch_py.exir``.
Names are loaded on first use: the lowering package itself uses the interfaces in ``exir.backend``.
"""

import importlib
from typing import Any

_HOME = {
    "EdgeCompileConfig": "config",
    "EdgeProgramManager": "edge",
    "ExecutorchBackendConfig": "config",
    "ExecutorchProgramManager": "program",
    "MemoryPlanningPass": "config",
    "to_edge": "edge",
    "to_edge_transform_and_lower": "edge",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"executorch_py.lowering.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
