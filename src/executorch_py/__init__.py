"""PyTorch models, exported with ``torch.export``, compiled into a small ``.pte`` file and run by a small C++ runtime.

Public names are loaded on first use (PEP 562): importing this package imports neither torch nor numpy, and the names of
the runtime work where torch is not installed. ``_EXPORTS`` is the one table of public names.

Example:
    >>> import executorch_py as et
    >>> module = et.load("model.pte")  # doctest: +SKIP
    >>> outputs = module(*inputs)  # doctest: +SKIP
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# module -> its public names, as the package gives them
_EXPORTS: dict[str, tuple[str, ...]] = {
    "lowering.config": ("EdgeCompileConfig", "ExecutorchBackendConfig", "MemoryPlanningPass"),
    "lowering.edge": ("EdgeProgramManager", "to_edge", "to_edge_transform_and_lower"),
    "lowering.program": ("ETRecord", "ExecutorchProgramManager"),
    "devtools.delegation_report": ("delegation_report",),
    "devtools.delegation_table": ("DelegatedOperator", "DelegationReport"),
    "devtools.quantization.macs": ("MacCount", "count_macs"),
    "devtools.quantization.report": ("quantization_report",),
    "devtools.quantization.table": ("QuantizationReport",),
    "devtools.validate": ("Tolerance", "ValidationReport", "validate"),
    "errors": (
        "AccessFailedError",
        "CancelledError",
        "DelegateError",
        "Diagnostic",
        "ErrorCode",
        "ExecutorchError",
        "InternalError",
        "InvalidArgumentError",
        "InvalidExternalDataError",
        "InvalidProgramError",
        "InvalidStateError",
        "InvalidTypeError",
        "NotFoundError",
        "NotSupportedError",
        "OperatorMissingError",
        "OutOfMemoryError",
        "OutOfResourcesError",
        "PartitionError",
        "RegistrationError",
        "VerificationError",
    ),
    "export.recurrent": ("dynamic_sequences",),
    "export.verify": ("verify_dialect",),
    "module": ("Module", "load"),
    "runtime": (
        "Backend",
        "Method",
        "MethodMetadata",
        "Program",
        "Runtime",
        "ScalarType",
        "Session",
        "TensorInfo",
        "Verification",
        "load_kernel_library",
        "set_log_level",
        "set_num_threads",
    ),
    "sdk": ("cmake_prefix_path",),
}

#: Packages that are attributes of this one without an import of their own: ``et.pruning.prune_weights(…)``.
_PACKAGES = ("pruning", "training")

_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = ["__version__", *_PACKAGES, *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
