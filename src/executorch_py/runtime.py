"""Running programs: ``Runtime``, ``Program``, ``Method`` and ``load``. Works where torch is not installed.

Tensors go in as torch tensors, numpy arrays or anything with the buffer protocol or DLPack, and come out as the
caller gave them: torch in, torch out; numpy in, numpy out. Nothing is copied where nothing needs to be; an input with
strides or in another memory layout is converted. Outputs own their memory. The GIL is held only while converting.

Example:
    >>> program = Runtime.get().load_program("model.pte")  # doctest: +SKIP
    >>> method = program.load_method("forward")  # doctest: +SKIP
    >>> (y,) = method.execute([x])  # doctest: +SKIP

    The model's own structure of arguments and results:

    >>> module = load("model.pte")  # doctest: +SKIP
    >>> y = module(x)  # doctest: +SKIP

Threads: a Program may be used by any number of threads. A Method runs one call at a time; methods of one program run
at the same time unless they share mutable state of one session, which is refused with InvalidStateError. Give each
thread a method of its own, and a session of its own (:meth:`Program.new_session`) where the model has state.
"""

from __future__ import annotations

import enum
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Protocol

from executorch_py import _arguments, _core, _core_shown, _logging
from executorch_py._shown import Card, Shown, counted, nbytes_text
from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from executorch_py.method_metadata import ROW_TITLES, MethodMetadata, ScalarType, TensorInfo

__all__ = [
    "Backend",
    "BackendRegistry",
    "Method",
    "MethodMetadata",
    "OperatorRegistry",
    "Program",
    "Runtime",
    "ScalarType",
    "Session",
    "TensorInfo",
    "Verification",
    "set_num_threads",
]

PathLike = str | os.PathLike[str]

_LARGEST = 2**63 - 1
#: More threads than any machine has processors are a mistake.
_MAX_THREADS = 4096


class Verification(enum.Enum):
    """How much of a file is checked at load. Both mean the whole; the names are those of the published API."""

    Minimal = 0
    InternalConsistency = 1


class Session(Shown):
    """Mutable state (a KV cache, running statistics) that methods of one program share.

    Methods loaded with the same session see each other's writes; sessions are independent of each other.
    """

    __slots__ = ("_core",)

    def __init__(self, core: _core.Session) -> None:
        self._core = core

    def reset_state(self) -> None:
        """Puts every mutable buffer back to its initial value.

        Raises:
            InvalidStateError: A method of the session is running.
        """
        self._core.reset()

    def _card(self) -> Card:
        return Card("Session", ["mutable state that methods of a program share"])


class Method(Shown):
    """A method ready to run. Made by :meth:`Program.load_method`."""

    __slots__ = ("__weakref__", "_core", "_execute", "_metadata")

    def __init__(self, core: _core.Method) -> None:
        self._core = core
        self._execute = core.execute
        self._metadata: MethodMetadata | None = None

    def execute(self, inputs: Sequence[Any], *, out: Sequence[Any] | None = None) -> list[Any]:
        """Runs the method.

        Args:
            inputs: A list or tuple with a value for each input: tensors, numbers, strings, ``None``. Tensors are
            borrowed
                for the call; one in another layout than the method's is converted.
            out: A list or tuple with, for each output, a tensor that gets the result, or ``None`` for a new one.

        Returns:
            The outputs, which own their memory: torch tensors when an input is one (or, without tensor inputs, when
            torch is imported), else numpy arrays. A tensor of ``out`` is returned itself.

        Raises:
            InvalidArgumentError: Number, rank, sizes or value of inputs are wrong; the method stays usable.
            InvalidTypeError: An input is of the wrong kind or dtype.
            InvalidStateError: The method, or another one that shares its state, is running.
            CancelledError: Another thread called :meth:`cancel`.
            KeyboardInterrupt: Ctrl-C, on the main thread.
        """
        return self._execute(inputs, out)

    def cancel(self) -> None:
        """Makes a running :meth:`execute` end soon with CancelledError. From any thread."""
        self._core.cancel()

    def reset_state(self) -> None:
        """Puts the mutable buffers of the method's session back to their initial values.

        Raises:
            InvalidStateError: A method of the session is running.
        """
        self._core.reset_state()

    @property
    def metadata(self) -> MethodMetadata:
        """What the method takes and gives."""
        if self._metadata is None:
            self._metadata = MethodMetadata(self._core.meta)
        return self._metadata

    @property
    def session(self) -> Session:
        """The state that the method works on."""
        return Session(self._core.session)

    def memory_usage(self) -> dict[str, int]:
        """Bytes taken for this method: ``planned`` arenas, and ``other`` (tables, packed weights, scratch)."""
        return {"planned": self._core.planned_nbytes, "other": self._core.other_nbytes}

    def _card(self) -> Card:
        usage = self.memory_usage()
        memory = f"{nbytes_text(usage['planned'])} planned, {nbytes_text(usage['other'])} other"
        return Card(f"Method({self.metadata.name()!r})", [memory], ROW_TITLES, [self.metadata._row()])


class Program(Shown):
    """A loaded and verified program. Made by :meth:`Runtime.load_program`."""

    __slots__ = ("__weakref__", "_core")

    def __init__(self, core: _core.Program) -> None:
        self._core = core

    @property
    def method_names(self) -> set[str]:
        """Names of the methods."""
        return set(self._core.method_names)

    def metadata(self, method_name: str) -> MethodMetadata:
        """What a method takes, gives and needs, without loading it.

        Raises:
            NotFoundError: There is no such method.
        """
        return MethodMetadata(self._core.meta(_arguments.text("the name of a method", method_name)))

    def load_method(
        self, name: str, *, session: Session | None = None, seed: int = 0, max_backward_jumps: int = 10_000_000
    ) -> Method:
        """Makes a method ready to run.

        Args:
            name: Which one.
            session: The state it works on; ``None``: the program's default session, shared by all methods without one.
            seed: Of the random operators.
            max_backward_jumps: Most jumps back in one execution, so that a loop in a damaged file ends.

        Raises:
            NotFoundError: There is no such method, or a backend is missing.
            OperatorMissingError: Names all operators without a kernel.
            OutOfMemoryError: The planned memory is not to be had.
        """
        name = _arguments.text("the name of a method", name)
        core = None if session is None else _arguments.instance("session", session, Session, "a Session")._core
        seed = _arguments.integer("seed", seed, 0, 2**64 - 1)
        jumps = _arguments.integer("max_backward_jumps", max_backward_jumps, 0, _LARGEST)
        return Method(self._core.load_method(name, core, seed, jumps))

    def new_session(self) -> Session:
        """State of its own, at initial values: one a thread or conversation."""
        return Session(self._core.new_session())

    def named_data(self) -> Mapping[str, int]:
        """Keys of the program's named data, and their sizes in the file, in bytes.

        A weight without its zeros stands there as "sparse:" and its key, or "sparse_constant:" and its name
        (docs/reference/format.md).
        """
        return dict(self._core.named_data)

    def read_named_data(self, key: str) -> bytes:
        """The bytes under a key of the named data.

        Raises:
            NotFoundError: There is no such key.
        """
        return self._core.read_named_data(_arguments.text("a key of the named data", key))

    def has_etdump(self) -> bool:
        """True when the program records (``enable_etdump``); otherwise the calls below raise InvalidStateError."""
        return self._core.has_etdump

    def etdump(self) -> bytes:
        """The ETDump of all that was recorded. OutOfResourcesError: how large ``debug_buffer_size`` must be."""
        return self._core.etdump_bytes()

    def reset_etdump(self) -> None:
        """Forgets what was recorded, before the executions that matter."""
        self._core.reset_etdump()

    def write_etdump_result_to_file(self, etdump_path: PathLike, debug_buffer_path: PathLike | None = None) -> None:
        """Writes :meth:`etdump` to a file, which ``Inspector`` reads, and the values to another where one is named."""
        debug = "" if debug_buffer_path is None else _arguments.path("debug_buffer_path", debug_buffer_path)
        self._core.save_etdump(_arguments.path("etdump_path", etdump_path), debug)

    def _card(self) -> Card:
        names = sorted(self.method_names)
        return Card(f"Program({', '.join(names)})", [], ROW_TITLES, [self.metadata(name)._row() for name in names])


class BackendRegistry(Shown):
    """The backends of this process."""

    @property
    def registered_backend_names(self) -> list[str]:
        """Names of all registered backends, sorted."""
        return _core.backend_names()

    def is_available(self, backend_name: str) -> bool:
        """False when the backend is not registered or the device it needs is not there."""
        return _core.is_backend_available(_arguments.text("the name of a backend", backend_name))

    def _card(self) -> Card:
        rows = [(name, "yes" if self.is_available(name) else "no") for name in self.registered_backend_names]
        return Card("BackendRegistry", [counted(len(rows), "backend")], ("backend", "available"), rows)


class OperatorRegistry(Shown):
    """The operators of this process."""

    @property
    def operator_names(self) -> set[str]:
        """Names of all operators that have a kernel, such as ``aten::add.out``."""
        return set(_core.operator_names())

    def _card(self) -> Card:
        return Card(
            "OperatorRegistry",
            [f"{counted(len(self.operator_names), 'operator')} with a kernel; `etpy ops` lists them"],
        )


class Backend(Protocol):
    """What a backend written in Python has; see :meth:`Runtime.register_backend`."""

    def init(
        self, context: _core.BackendInitContext, processed: bytes, compile_specs: list[_core.CompileSpec]
    ) -> object:
        """Makes a delegate from its payload; what it returns is handed to ``execute``."""
        ...

    def execute(self, context: _core.BackendExecutionContext, handle: Any, args: tuple[Any, ...]) -> None:
        """Runs a delegate: ``args`` are its inputs, then its outputs, numpy arrays over the method's own memory.

        Results are written into the arrays of the outputs (``args[1][...] = y``).
        """
        ...


class Runtime(Shown):
    """The process's runtime. There is one: :meth:`get`."""

    _instance: Runtime | None = None

    @staticmethod
    def get() -> Runtime:
        """The runtime of this process."""
        if Runtime._instance is None:
            Runtime._instance = Runtime()
        return Runtime._instance

    def load_program(
        self,
        data: PathLike | bytes | bytearray | memoryview | BinaryIO,
        *,
        verification: Verification = Verification.InternalConsistency,
        data_path: PathLike | Sequence[PathLike] | None = None,
        mmap: bool = True,
        enable_etdump: bool = False,
        debug_buffer_size: int = 0,
        pack_cache: PathLike | bool = False,
    ) -> Program:
        """Loads a program and verifies all of it.

        Args:
            data: Path of a ``.pte`` file, its bytes (kept, not copied), or a file that is open for reading.
            verification: Taken for the published API's sake; everything is verified, always.
            data_path: ``.ptd`` file or files with external weights.
            mmap: Map a file given by its path, so that pages are read when they are used. The file must then not be
                changed while the program lives; ``False`` reads it into memory.
            enable_etdump: Record what the program does, for :meth:`Program.write_etdump_result_to_file`.
            debug_buffer_size: Bytes for intermediate values, which are then recorded, too; 0: none are.
            pack_cache: Keep packed weights in a file, which later processes map instead of packing again: ``True``
                beside the program, or a directory. A file that does not fit the model, this library or the processor,
                or is damaged, is replaced; the log says so.

        Raises:
            InvalidProgramError: The bytes are not a well-formed program; says where.
            AccessFailedError: The file cannot be read.
            InvalidExternalDataError: The ``.ptd`` file does not fit.
            InvalidArgumentError: ``pack_cache`` is no directory, or the program is read into memory.
        """
        if not isinstance(verification, Verification):
            raise InvalidTypeError(f"verification is {verification!r}, must be a member of Verification")
        several = data_path if isinstance(data_path, (list, tuple)) else [] if data_path is None else [data_path]
        data_files = [_arguments.path("data_path", path) for path in several]
        debug_nbytes = _arguments.integer("debug_buffer_size", debug_buffer_size, 0, _LARGEST)
        if debug_nbytes > 0 and not enable_etdump:
            raise InvalidArgumentError("debug_buffer_size is for an ETDump: pass enable_etdump=True, too")
        profile = (bool(enable_etdump), debug_nbytes)
        is_beside = pack_cache is True
        packs = "" if is_beside or pack_cache is False else _arguments.path("pack_cache", pack_cache)
        if isinstance(data, (str, os.PathLike)):
            path = _arguments.path("the program", data)
            packs = os.path.dirname(path) or "." if is_beside else packs
            return Program(_core.Program.from_file(path, data_files, bool(mmap), *profile, packs))
        if is_beside:
            raise InvalidArgumentError("pack_cache=True is for a program's path; name a directory for one in memory")
        if hasattr(data, "read") and not isinstance(data, io.TextIOBase):
            data = data.read()
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise InvalidTypeError(f"a program is a path, bytes or a binary file ('rb'), not a {type(data).__name__}")
        if isinstance(data, memoryview) and not data.c_contiguous:
            raise InvalidArgumentError("the memoryview of a program has strides; pass its bytes()")
        return Program(_core.Program.from_bytes(data, data_files, *profile, pack_cache=packs))

    def _card(self) -> Card:
        names = ", ".join(self.backend_registry.registered_backend_names) or "none"
        facts = [f"backends {names}", counted(len(self.operator_registry.operator_names), "operator")]
        return Card("Runtime", [*facts, counted(self.num_threads, "thread")])

    @property
    def backend_registry(self) -> BackendRegistry:
        """The backends of this process."""
        return BackendRegistry()

    @property
    def operator_registry(self) -> OperatorRegistry:
        """The operators of this process."""
        return OperatorRegistry()

    def set_num_threads(self, count: int) -> None:
        """Sets how many threads methods use, the calling one included; 0: all processors (at the start)."""
        set_num_threads(count)

    @property
    def num_threads(self) -> int:
        """How many threads methods use."""
        return _core.num_threads()

    def load_plugin(self, path: PathLike) -> str:
        """Loads a shared library with kernels or backends (``runtime/plugin.h``), which stays until the process ends.

        Returns:
            The plug-in's name.

        Raises:
            AccessFailedError: The library cannot be opened.
            NotSupportedError: It was built for another version; names both.
            RegistrationError: It brings a backend whose name is taken.
        """
        return _core.load_plugin(_arguments.path("the plug-in", path))

    def register_backend(self, name: str, backend: type[Backend] | Backend) -> None:
        """Registers a backend written in Python, for tests and prototypes; the same name again replaces it.

        Args:
            name: As its partitioner writes it into programs.
            backend: A class, or an object, with ``init(context, processed, compile_specs)`` and
                ``execute(context, handle, args)``; ``destroy(handle)`` and ``is_available()`` may be left out. An
                exception that it raises comes out of the call that ran it.

        Raises:
            RegistrationError: A backend of that name is built in.
        """
        if not _arguments.text("the name of a backend", name) or not name.isprintable():
            raise InvalidArgumentError(f"the name of a backend is {name!r}; it must have characters, all printable")
        implementation = backend() if isinstance(backend, type) else backend
        for required in ("init", "execute"):
            if not callable(getattr(implementation, required, None)):
                raise InvalidArgumentError(f"backend {name!r} has no method {required}()")
        _core.register_backend(name, implementation)

    def load_entry_points(self) -> list[str]:
        """Loads the plug-ins of installed packages: entry points of the group ``executorch_py.backends``.

        An entry point names a function without arguments that returns the path of a plug-in.

        Returns:
            The plug-ins' names.
        """
        from importlib.metadata import entry_points

        return [self.load_plugin(entry.load()()) for entry in entry_points(group="executorch_py.backends")]


def set_num_threads(count: int) -> None:
    """Sets how many threads methods use, the calling one included; 0: all processors (at the start).

    Raises:
        InvalidArgumentError: ``count`` is negative, or more than any machine has.
    """
    _core.set_num_threads(_arguments.integer("the number of threads (0: all processors)", count, 0, _MAX_THREADS))


def load_kernel_library(path: PathLike) -> str:
    """Loads a library of kernels for this process: :meth:`Runtime.load_plugin` of the one runtime.

    Its operators can be lowered and run from then on. docs/how-to/custom_operators.md shows how to build one.

    Returns:
        The library's name.
    """
    return Runtime.get().load_plugin(path)


def set_log_level(level: int) -> None:
    """Sets which messages of the C++ core reach ``logging`` (logger ``executorch_py``); at the start, warnings do."""
    _logging.set_level(_arguments.integer("the log level", level, 0, 100))


_core_shown.install(
    {
        _core.Method: Method,
        _core.MethodMeta: MethodMetadata,
        _core.Program: Program,
        _core.Session: Session,
        _core.TensorInfo: TensorInfo,
    }
)
