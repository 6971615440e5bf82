from torch.export import ExportedProgram as ExportedProgram

from ..lowering.config import (
    EdgeCompileConfig as EdgeCompileConfig,
)
from ..lowering.config import (
    ExecutorchBackendConfig as ExecutorchBackendConfig,
)
from ..lowering.edge import (
    EdgeProgramManager as EdgeProgramManager,
)
from ..lowering.edge import (
    to_edge as to_edge,
)
from ..lowering.edge import (
    to_edge_transform_and_lower as to_edge_transform_and_lower,
)
from ..lowering.lowered_backend_module import LoweredBackendModule as LoweredBackendModule
from ..lowering.pass_manager import PassManager as PassManager
from ..lowering.program import ExecutorchProgramManager as ExecutorchProgramManager
from .dialects._ops import EdgeOpOverload as EdgeOpOverload
from .pass_base import (
    ExportedProgramPassBase as ExportedProgramPassBase,
)
from .pass_base import (
    ExportedProgramPassResult as ExportedProgramPassResult,
)
from .pass_base import (
    ExportPass as ExportPass,
)
from .passes.memory_planning_pass import MemoryPlanningPass as MemoryPlanningPass
