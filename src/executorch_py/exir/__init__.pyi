from torch.export import ExportedProgram as ExportedProgram

from ..lowering.config import (
    EdgeCompileConfig as EdgeCompileConfig,
    ExecutorchBackendConfig as ExecutorchBackendConfig,
)
from ..lowering.edge import (
    EdgeProgramManager as EdgeProgramManager,
    to_edge as to_edge,
    to_edge_transform_and_lower as to_edge_transform_and_lower,
)
from ..lowering.program import ExecutorchProgramManager as ExecutorchProgramManager
from .dialects._ops import EdgeOpOverload as EdgeOpOverload
from .lowered_backend_module import LoweredBackendModule as LoweredBackendModule
from .pass_base import (
    ExportedProgramPassBase as ExportedProgramPassBase,
    ExportedProgramPassResult as ExportedProgramPassResult,
    ExportPass as ExportPass,
)
from .pass_manager import PassManager as PassManager
from .passes.memory_planning_pass import MemoryPlanningPass as MemoryPlanningPass
