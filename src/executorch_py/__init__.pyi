"""The public names, for type checkers; ``_lazy.py`` reads where each comes from."""

from . import pruning as pruning
from . import training as training
from .devtools.delegation_report import delegation_report as delegation_report
from .devtools.etrecord.record import ETRecord as ETRecord
from .devtools.quantization.report import quantization_report as quantization_report
from .devtools.quantization.table import QuantizationReport as QuantizationReport
from .devtools.validate import (
    Tolerance as Tolerance,
)
from .devtools.validate import (
    ValidationReport as ValidationReport,
)
from .devtools.validate import (
    validate as validate,
)
from .errors import (
    AccessFailedError as AccessFailedError,
)
from .errors import (
    CancelledError as CancelledError,
)
from .errors import (
    DelegateError as DelegateError,
)
from .errors import (
    Diagnostic as Diagnostic,
)
from .errors import (
    ErrorCode as ErrorCode,
)
from .errors import (
    ExecutorchError as ExecutorchError,
)
from .errors import (
    InternalError as InternalError,
)
from .errors import (
    InvalidArgumentError as InvalidArgumentError,
)
from .errors import (
    InvalidExternalDataError as InvalidExternalDataError,
)
from .errors import (
    InvalidProgramError as InvalidProgramError,
)
from .errors import (
    InvalidStateError as InvalidStateError,
)
from .errors import (
    InvalidTypeError as InvalidTypeError,
)
from .errors import (
    NotFoundError as NotFoundError,
)
from .errors import (
    NotHereError as NotHereError,
)
from .errors import (
    NotSupportedError as NotSupportedError,
)
from .errors import (
    OperatorMissingError as OperatorMissingError,
)
from .errors import (
    OutOfMemoryError as OutOfMemoryError,
)
from .errors import (
    OutOfResourcesError as OutOfResourcesError,
)
from .errors import (
    PartitionError as PartitionError,
)
from .errors import (
    RegistrationError as RegistrationError,
)
from .errors import (
    VerificationError as VerificationError,
)
from .export.decompose.recurrent import dynamic_sequences as dynamic_sequences
from .export.verify import verify_dialect as verify_dialect
from .graphs.macs import MacCount as MacCount
from .graphs.macs import count_macs as count_macs
from .lowering.config import (
    EdgeCompileConfig as EdgeCompileConfig,
)
from .lowering.config import (
    ExecutorchBackendConfig as ExecutorchBackendConfig,
)
from .lowering.config import (
    MemoryPlanningPass as MemoryPlanningPass,
)
from .lowering.delegation_table import DelegatedOperator as DelegatedOperator
from .lowering.delegation_table import DelegationReport as DelegationReport
from .lowering.edge import (
    EdgeProgramManager as EdgeProgramManager,
)
from .lowering.edge import (
    to_edge as to_edge,
)
from .lowering.edge import (
    to_edge_transform_and_lower as to_edge_transform_and_lower,
)
from .lowering.program import (
    ExecutorchProgramManager as ExecutorchProgramManager,
)
from .module import (
    Module as Module,
)
from .module import (
    load as load,
)
from .runtime import (
    Backend as Backend,
)
from .runtime import (
    Method as Method,
)
from .runtime import (
    MethodMetadata as MethodMetadata,
)
from .runtime import (
    Program as Program,
)
from .runtime import (
    Runtime as Runtime,
)
from .runtime import (
    ScalarType as ScalarType,
)
from .runtime import (
    Session as Session,
)
from .runtime import (
    TensorInfo as TensorInfo,
)
from .runtime import (
    Verification as Verification,
)
from .runtime import (
    load_kernel_library as load_kernel_library,
)
from .runtime import (
    set_log_level as set_log_level,
)
from .runtime import (
    set_num_threads as set_num_threads,
)
from .sdk import c_library_path as c_library_path
from .sdk import cmake_prefix_path as cmake_prefix_path

__version__: str
