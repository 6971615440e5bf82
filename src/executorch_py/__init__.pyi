"""The public names, for type checkers; ``_lazy.py`` reads where each comes from."""

from . import pruning as pruning, training as training
from .lowering.config import (
    EdgeCompileConfig as EdgeCompileConfig,
    ExecutorchBackendConfig as ExecutorchBackendConfig,
    MemoryPlanningPass as MemoryPlanningPass,
)
from .lowering.edge import (
    EdgeProgramManager as EdgeProgramManager,
    to_edge as to_edge,
    to_edge_transform_and_lower as to_edge_transform_and_lower,
)
from .lowering.program import (
    ETRecord as ETRecord,
    ExecutorchProgramManager as ExecutorchProgramManager,
)
from .devtools.delegation_report import delegation_report as delegation_report
from .devtools.delegation_table import (
    DelegatedOperator as DelegatedOperator,
    DelegationReport as DelegationReport,
)
from .devtools.quantization.macs import (
    MacCount as MacCount,
    count_macs as count_macs,
)
from .devtools.quantization.report import quantization_report as quantization_report
from .devtools.quantization.table import QuantizationReport as QuantizationReport
from .devtools.validate import (
    Tolerance as Tolerance,
    ValidationReport as ValidationReport,
    validate as validate,
)
from .errors import (
    AccessFailedError as AccessFailedError,
    CancelledError as CancelledError,
    DelegateError as DelegateError,
    Diagnostic as Diagnostic,
    ErrorCode as ErrorCode,
    ExecutorchError as ExecutorchError,
    InternalError as InternalError,
    InvalidArgumentError as InvalidArgumentError,
    InvalidExternalDataError as InvalidExternalDataError,
    InvalidProgramError as InvalidProgramError,
    InvalidStateError as InvalidStateError,
    InvalidTypeError as InvalidTypeError,
    NotFoundError as NotFoundError,
    NotSupportedError as NotSupportedError,
    OperatorMissingError as OperatorMissingError,
    OutOfMemoryError as OutOfMemoryError,
    OutOfResourcesError as OutOfResourcesError,
    PartitionError as PartitionError,
    RegistrationError as RegistrationError,
    VerificationError as VerificationError,
)
from .export.recurrent import dynamic_sequences as dynamic_sequences
from .export.verify import verify_dialect as verify_dialect
from .module import (
    Module as Module,
    load as load,
)
from .runtime import (
    Backend as Backend,
    Method as Method,
    MethodMetadata as MethodMetadata,
    Program as Program,
    Runtime as Runtime,
    ScalarType as ScalarType,
    Session as Session,
    TensorInfo as TensorInfo,
    Verification as Verification,
    load_kernel_library as load_kernel_library,
    set_log_level as set_log_level,
    set_num_threads as set_num_threads,
)
from .sdk import cmake_prefix_path as cmake_prefix_path

__version__: str
