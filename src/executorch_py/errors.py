"""Exceptions of this package: one class a kind of failure, each also the builtin exception that fits.

Every exception carries ``.code`` (an :class:`ErrorCode`, the number of ``base/error_codes.def``) and ``.diagnostics``
(what is wrong and where, as far as it is known: method, instruction, operator, module path, Python source line). The
text says what is wrong, where, what was expected and what to do.

Errors of the C++ core arrive here through :func:`make_exception`, which the extension module calls; that is the one
place where an error code becomes an exception.

Example:
    >>> try:
    ...     raise InvalidArgumentError("input 0 has 3 elements, the method takes 4")
    ... except ValueError as error:
    ...     print(error.code.name, int(error.code))
    InvalidArgument 18
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from executorch_py import _core


class ErrorCode(enum.IntEnum):
    """The published error codes; the meanings stand in docs/reference/error_handling.md."""

    Ok = 0x00
    Internal = 0x01
    InvalidState = 0x02
    EndOfMethod = 0x03
    AlreadyLoaded = 0x04
    Cancelled = 0x05
    NotSupported = 0x10
    NotImplemented = 0x11
    InvalidArgument = 0x12
    InvalidType = 0x13
    OperatorMissing = 0x14
    RegistrationExceedingMaxKernels = 0x15
    RegistrationAlreadyRegistered = 0x16
    NotFound = 0x20
    MemoryAllocationFailed = 0x21
    AccessFailed = 0x22
    InvalidProgram = 0x23
    InvalidExternalData = 0x24
    OutOfResources = 0x25
    DelegateInvalidCompatibility = 0x30
    DelegateMemoryAllocationFailed = 0x31
    DelegateInvalidHandle = 0x32


@dataclass(frozen=True)
class Diagnostic:
    """One thing that is wrong, and where. ``None`` means not known.

    Attributes:
        message: One sentence, and what to do.
        code: The error code.
        method: Name of the method.
        instruction: Index of the instruction in the method's chain.
        op: Operator of the node or instruction, such as ``aten::embedding.out``.
        node: Name of the node in the fx graph or in the IR.
        module_path: Path of the ``nn.Module``, such as ``layers.0.attention``.
        file: The user's Python file.
        line: Line in ``file``, from 1.
        debug_handle: The operator's debug handle, as ``ExecutorchProgramManager.debug_handle_map`` and the ETRecord
            have it.
    """

    message: str
    code: ErrorCode = ErrorCode.Internal
    method: str | None = None
    instruction: int | None = None
    op: str | None = None
    node: str | None = None
    module_path: str | None = None
    file: str | None = None
    line: int | None = None
    debug_handle: int | None = None

    def where(self) -> str:
        """The place in one line: ``method 'forward', instruction 3, aten::add.out, layers.0, model.py:12``."""
        parts = []
        if self.method is not None:
            parts.append(f"method '{self.method}'")
        if self.instruction is not None:
            parts.append(f"instruction {self.instruction}")
        if self.op is not None:
            parts.append(self.op if self.debug_handle is None else f"{self.op} (handle {self.debug_handle})")
        if self.node is not None:
            parts.append(f"node {self.node}")
        if self.module_path:
            parts.append(f"module {self.module_path}")
        if self.file is not None:
            parts.append(self.file if self.line is None else f"{self.file}:{self.line}")
        return ", ".join(parts)

    def __str__(self) -> str:
        place = self.where()
        return f"{self.message} [{place}]" if place else self.message


class ExecutorchError(RuntimeError):
    """Base of every exception that this package raises on purpose.

    Attributes:
        code: What kind of failure it is.
        diagnostics: What is wrong and where; may be empty.
    """

    default_code: ClassVar[ErrorCode] = ErrorCode.Internal
    code: ErrorCode
    diagnostics: tuple[Diagnostic, ...]

    def __init__(
        self, message: str = "", *, code: ErrorCode | int | None = None, diagnostics: Iterable[Diagnostic] = ()
    ) -> None:
        super().__init__(message)
        self.code = type(self).default_code if code is None else ErrorCode(code)
        self.diagnostics = tuple(diagnostics)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self.args[0]) if self.args else "", int(self.code), self.diagnostics)


def _rebuild(
    cls: type[ExecutorchError], message: str, code: int, diagnostics: tuple[Diagnostic, ...]
) -> ExecutorchError:
    return cls(message, code=code, diagnostics=diagnostics)


class InternalError(ExecutorchError):
    """An invariant of this library does not hold: a bug of ours."""


class InvalidStateError(ExecutorchError):
    """The object is not in a state in which this call is allowed."""

    default_code = ErrorCode.InvalidState


class CancelledError(ExecutorchError):
    """The call was cancelled by its caller (:meth:`Method.cancel`, or a signal handler that did not raise)."""

    default_code = ErrorCode.Cancelled


class NotSupportedError(ExecutorchError, NotImplementedError):
    """Valid, but not supported by this build or component."""

    default_code = ErrorCode.NotSupported


class NotHereError(NotSupportedError, ImportError):
    """Something of the published package that is not here; the text says why, and what to take."""


class InvalidArgumentError(ExecutorchError, ValueError):
    """An argument has a wrong value, shape or layout."""

    default_code = ErrorCode.InvalidArgument


class InvalidTypeError(ExecutorchError, TypeError):
    """A value has a wrong type or dtype."""

    default_code = ErrorCode.InvalidType


class OperatorMissingError(ExecutorchError, LookupError):
    """No kernel fits an operator of the program."""

    default_code = ErrorCode.OperatorMissing


class RegistrationError(ExecutorchError):
    """A registry is full, or the name is registered already."""

    default_code = ErrorCode.RegistrationAlreadyRegistered


class NotFoundError(ExecutorchError, LookupError):
    """A named thing (file, method, entry of external data) does not exist."""

    default_code = ErrorCode.NotFound


class OutOfMemoryError(ExecutorchError, MemoryError):
    """An allocator has no memory left."""

    default_code = ErrorCode.MemoryAllocationFailed


_Access = TypeVar("_Access", bound="AccessFailedError")


class AccessFailedError(ExecutorchError, OSError):
    """A file or buffer cannot be read or written."""

    default_code = ErrorCode.AccessFailed

    # OSError's own __new__ must run, and would take several arguments for errno and file name: here there is one, the
    # message.
    def __new__(cls: type[_Access], message: str = "", **_: Any) -> _Access:
        return OSError.__new__(cls, message)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidProgramError(ExecutorchError, ValueError):
    """The bytes are not a well-formed program."""

    default_code = ErrorCode.InvalidProgram


class InvalidExternalDataError(ExecutorchError, ValueError):
    """The external data (``.ptd``) does not fit the program."""

    default_code = ErrorCode.InvalidExternalData


class OutOfResourcesError(ExecutorchError):
    """A limit (threads, instructions, handles, planned size) was reached."""

    default_code = ErrorCode.OutOfResources


class DelegateError(ExecutorchError):
    """A backend refused its payload or failed in it."""

    default_code = ErrorCode.DelegateInvalidCompatibility


class VerificationError(InternalError):
    """The compiler's verifier found a graph that breaks the rules of its stage."""


class PartitionError(InvalidArgumentError):
    """A partitioner's tags cannot be cut out of the graph."""


# code -> class, for errors that come from the core. One line a code; a test compares it with error_codes.def.
CLASS_OF_CODE: dict[ErrorCode, type[ExecutorchError]] = {
    ErrorCode.Internal: InternalError,
    ErrorCode.InvalidState: InvalidStateError,
    ErrorCode.EndOfMethod: InvalidStateError,
    ErrorCode.AlreadyLoaded: InvalidStateError,
    ErrorCode.Cancelled: CancelledError,
    ErrorCode.NotSupported: NotSupportedError,
    ErrorCode.NotImplemented: NotSupportedError,
    ErrorCode.InvalidArgument: InvalidArgumentError,
    ErrorCode.InvalidType: InvalidTypeError,
    ErrorCode.OperatorMissing: OperatorMissingError,
    ErrorCode.RegistrationExceedingMaxKernels: RegistrationError,
    ErrorCode.RegistrationAlreadyRegistered: RegistrationError,
    ErrorCode.NotFound: NotFoundError,
    ErrorCode.MemoryAllocationFailed: OutOfMemoryError,
    ErrorCode.AccessFailed: AccessFailedError,
    ErrorCode.InvalidProgram: InvalidProgramError,
    ErrorCode.InvalidExternalData: InvalidExternalDataError,
    ErrorCode.OutOfResources: OutOfResourcesError,
    ErrorCode.DelegateInvalidCompatibility: DelegateError,
    ErrorCode.DelegateMemoryAllocationFailed: DelegateError,
    ErrorCode.DelegateInvalidHandle: DelegateError,
}


def make_exception(code: int, message: str, diagnostics: Iterable[Mapping[str, Any]] = ()) -> ExecutorchError:
    """The exception for an error of the core.

    The text is the message, then each diagnostic that says something more (a place, or another message).

    Args:
        code: Number of the error.
        message: What went wrong.
        diagnostics: Fields of :class:`Diagnostic`, one mapping each.
    """
    found = tuple(Diagnostic(**{**item, "code": ErrorCode(item.get("code", code))}) for item in diagnostics)
    text = message
    for item in found:
        place = item.where()
        if item.message and item.message not in message:
            text += f"\n  {item}"
        elif place and place not in message:
            text += f"\n  at {place}"
    known = ErrorCode(code)
    return CLASS_OF_CODE[known](text, code=known, diagnostics=found)


_core.set_exception_factory(make_exception)
