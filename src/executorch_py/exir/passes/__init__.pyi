from ...lowering.pass_manager import ExportedProgramPassManager as ExportedProgramPassManager
from ..dialects._ops import EdgeOpOverload as EdgeOpOverload
from ..dynamic_shape import DynamicMemoryPlanningMode as DynamicMemoryPlanningMode
from ..pass_base import ExportPass as ExportPass
from ..sym_util import eval_shape_upper_bound as eval_shape_upper_bound
from .fixed_passes import (
    ConstPropPass as ConstPropPass,
)
from .fixed_passes import (
    ConstraintBasedSymShapeEvalPass as ConstraintBasedSymShapeEvalPass,
)
from .fixed_passes import (
    CSEPass as CSEPass,
)
from .fixed_passes import (
    FoldRedundantDequantizeQuantizePass as FoldRedundantDequantizeQuantizePass,
)
from .fixed_passes import (
    HintBasedSymShapeEvalPass as HintBasedSymShapeEvalPass,
)
from .fixed_passes import (
    PropagateDeviceConfig as PropagateDeviceConfig,
)
from .fixed_passes import (
    QuantFusionPass as QuantFusionPass,
)
from .fixed_passes import (
    ReplaceViewCopyWithViewPass as ReplaceViewCopyWithViewPass,
)
from .fixed_passes import (
    ToOutVarPass as ToOutVarPass,
)
from .graph_passes import (
    DebugPass as DebugPass,
)
from .graph_passes import (
    RemoveNoopPass as RemoveNoopPass,
)
from .graph_passes import (
    ScalarToTensorPass as ScalarToTensorPass,
)
from .graph_passes import (
    SpecPropPass as SpecPropPass,
)
from .graph_passes import (
    dead_code_elimination_pass as dead_code_elimination_pass,
)
from .graph_passes import (
    make_spec as make_spec,
)
from .memory_planning_pass import MemoryPlanningPass as MemoryPlanningPass
