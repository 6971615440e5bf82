from ..dialects._ops import EdgeOpOverload as EdgeOpOverload
from ..dynamic_shape import DynamicMemoryPlanningMode as DynamicMemoryPlanningMode
from ..pass_base import ExportPass as ExportPass
from ..pass_manager import ExportedProgramPassManager as ExportedProgramPassManager
from ..sym_util import eval_shape_upper_bound as eval_shape_upper_bound
from .fixed_passes import (
    ConstPropPass as ConstPropPass,
    ConstraintBasedSymShapeEvalPass as ConstraintBasedSymShapeEvalPass,
    CSEPass as CSEPass,
    FoldRedundantDequantizeQuantizePass as FoldRedundantDequantizeQuantizePass,
    HintBasedSymShapeEvalPass as HintBasedSymShapeEvalPass,
    PropagateDeviceConfig as PropagateDeviceConfig,
    QuantFusionPass as QuantFusionPass,
    ReplaceViewCopyWithViewPass as ReplaceViewCopyWithViewPass,
    ToOutVarPass as ToOutVarPass,
)
from .graph_passes import (
    DebugPass as DebugPass,
    RemoveNoopPass as RemoveNoopPass,
    ScalarToTensorPass as ScalarToTensorPass,
    SpecPropPass as SpecPropPass,
    dead_code_elimination_pass as dead_code_elimination_pass,
    make_spec as make_spec,
)
from .memory_planning_pass import MemoryPlanningPass as MemoryPlanningPass
