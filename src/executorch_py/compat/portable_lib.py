"""``extension.pybindings.portable_lib``: the published module for running files, over this package's runtime.

>>> module = _load_for_executorch("model.pte")  # doctest: +SKIP
>>> (y,) = module.forward([x])  # doctest: +SKIP

With ``enable_etdump`` what the program does is recorded, for ``write_etdump_result_to_file``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

from executorch_py import _arguments, _core
from executorch_py.errors import InvalidArgumentError, NotFoundError
from executorch_py.runtime import Method, MethodMetadata, Program, Runtime, TensorInfo, Verification, set_num_threads

__all__ = [
    "BundledModule",
    "ExecuTorchMethod",
    "ExecuTorchModule",
    "ExecuTorchProgram",
    "MethodMeta",
    "TensorInfo",
    "Verification",
    "_get_operator_names",
    "_get_registered_backend_names",
    "_is_available",
    "_load_bundled_program_from_buffer",
    "_load_for_executorch",
    "_load_for_executorch_from_buffer",
    "_load_for_executorch_from_bundled_program",
    "_load_program",
    "_load_program_from_buffer",
    "_loaded",
    "_threadpool_get_thread_count",
    "_unsafe_reset_threadpool",
]

#: What a method takes and gives.
MethodMeta = MethodMetadata


class ExecuTorchMethod:
    """A method that is ready to run."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._inputs: Sequence[Any] = ()
        self._outputs: list[Any] | None = None

    def set_inputs(self, inputs: Sequence[Any] = ()) -> None:
        """Sets what the next ``execute`` takes."""
        self._inputs = list(inputs)

    def execute(self) -> None:
        """Runs the method."""
        self._outputs = self._method.execute(self._inputs)

    def get_outputs(self, clone_outputs: bool = True) -> list[Any]:
        """The results of the last run. They own their memory, whatever ``clone_outputs`` says.

        Raises:
            InvalidArgumentError: The method has not run yet.
        """
        if self._outputs is None:
            raise InvalidArgumentError(f"method '{self._method.metadata.name()}' has not run yet: call execute()")
        return list(self._outputs)

    def call(self, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """``set_inputs``, ``execute`` and ``get_outputs`` in one."""
        self.set_inputs(_several(inputs))
        self.execute()
        return self.get_outputs(clone_outputs)

    __call__ = call

    def get_attribute(self, name: str) -> Any:
        """A live view of a mutable buffer, by its name in the module.

        Raises:
            NotFoundError: The method has no such buffer.
        """
        found = self._method._core.attribute(name)
        if found is None:
            meta = self.method_meta()
            known = [meta.attribute_tensor_meta(index).name() for index in range(meta.num_attributes())]
            raise NotFoundError(f"the method has no attribute '{name}'; it has {', '.join(known) or 'none'}")
        return found

    def method_meta(self) -> MethodMetadata:
        """What the method takes and gives."""
        return self._method.metadata


class ExecuTorchProgram:
    """A loaded program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names = sorted(program.method_names)

    def num_methods(self) -> int:
        """How many methods it has."""
        return len(self._names)

    def get_method_name(self, method_index: int) -> str:
        """The name of a method; they are sorted.

        Raises:
            IndexError: There is no such method.
        """
        return self._names[method_index]

    def load_method(self, method_name: str) -> ExecuTorchMethod:
        """Makes a method ready to run."""
        return ExecuTorchMethod(self._program.load_method(method_name))

    def method_meta(self, method_name: str) -> MethodMetadata:
        """What a method takes and gives."""
        return self._program.metadata(method_name)

    def has_etdump(self) -> bool:
        """True when it was loaded with ``enable_etdump``."""
        return self._program.has_etdump()

    def write_etdump_result_to_file(self, path: str, debug_buffer_path: str | None = None) -> None:
        """Writes what was recorded, and the debug buffer where a path for it is given."""
        self._program.write_etdump_result_to_file(path, debug_buffer_path)


class ExecuTorchModule(ExecuTorchProgram):
    """A program whose methods are loaded when they are first called."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._methods: dict[str, Method] = {}

    def method_names(self) -> list[str]:
        """Names of the methods, sorted."""
        return list(self._names)

    def run_method(self, method_name: str, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """Runs a method on a list or tuple of inputs, or on a single tensor."""
        if method_name not in self._methods:
            self._methods[method_name] = self._program.load_method(method_name)
        return self._methods[method_name].execute(_several(inputs))

    def forward(self, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """Runs the method ``forward``."""
        return self.run_method("forward", inputs, clone_outputs)

    __call__ = forward

    def plan_execute(self, method_name: str, clone_outputs: bool = True) -> list[Any]:
        """Runs a method without inputs."""
        return self.run_method(method_name, (), clone_outputs)


def _several(inputs: Any) -> Sequence[Any]:
    return inputs if isinstance(inputs, (list, tuple)) else [inputs]


def _load_program(
    path: str,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.Minimal,
    data_path: str | None = None,
) -> ExecuTorchProgram:
    """Loads a program from a file."""
    return ExecuTorchProgram(_loaded(path, program_verification, data_path, enable_etdump, debug_buffer_size))


def _load_program_from_buffer(
    buffer: bytes,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.Minimal,
    data_path: str | None = None,
) -> ExecuTorchProgram:
    """Loads a program from bytes."""
    return ExecuTorchProgram(_loaded(buffer, program_verification, data_path, enable_etdump, debug_buffer_size))


def _load_for_executorch(
    program_path: str,
    data_path: str | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Loads a file, with a ``.ptd`` file where its weights are outside."""
    return ExecuTorchModule(_loaded(program_path, program_verification, data_path, enable_etdump, debug_buffer_size))


def _load_for_executorch_from_buffer(
    buffer: bytes,
    data_map_buffer: bytes | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Loads bytes, with those of a ``.ptd`` file where weights are outside."""
    if data_map_buffer is None:
        return ExecuTorchModule(_loaded(buffer, program_verification, None, enable_etdump, debug_buffer_size))
    with tempfile.TemporaryDirectory() as folder:  # the file is mapped, and stays so when its name is gone
        path = os.path.join(folder, "data.ptd")
        with open(path, "wb") as file:
            file.write(data_map_buffer)
        return ExecuTorchModule(_loaded(buffer, program_verification, path, enable_etdump, debug_buffer_size))


class BundledModule:
    """A program with test cases, ``.bpte``."""

    def __init__(self, buffer: bytes) -> None:
        self._bundle = _core.BundledProgram(buffer)
        self._methods: dict[str, Method] = {}

    def verify_result_with_bundled_expected_output(
        self, method_name: str, testset_idx: int, rtol: float = 1e-5, atol: float = 1e-8
    ) -> list[Any]:
        """Runs a test case and returns the outputs.

        Raises:
            NotFoundError: An output is not the expected one: names the first element; or there is no such method.
            InvalidArgumentError: There is no such test case, or it does not fit the method.
        """
        if method_name not in self._methods:
            self._methods[method_name] = Runtime.get().load_program(self._bundle.program).load_method(method_name)
        index = _arguments.integer("testset_idx", testset_idx, 0, 2**31 - 1)
        return self._bundle.verify(self._methods[method_name]._core, index, rtol, atol)


def _load_bundled_program_from_buffer(buffer: bytes, non_const_pool_size: int = 0) -> BundledModule:
    """Loads the bytes of a ``.bpte`` file. Memory is taken as it is needed, whatever ``non_const_pool_size`` says."""
    return BundledModule(bytes(buffer))


def _load_for_executorch_from_bundled_program(
    ptr: BundledModule, data_path: str | bytes | None = None, enable_etdump: bool = False, debug_buffer_size: int = 0
) -> ExecuTorchModule:
    """The program of a bundle, with a ``.ptd`` file or its bytes where its weights are outside."""
    program = ptr._bundle.program
    if isinstance(data_path, str):
        checks = Verification.InternalConsistency
        return ExecuTorchModule(_loaded(program, checks, data_path, enable_etdump, debug_buffer_size))
    return _load_for_executorch_from_buffer(program, data_path, enable_etdump, debug_buffer_size)


def _loaded(
    data: Any, verification: Verification, data_path: str | None, enable_etdump: bool, debug_buffer_size: int
) -> Program:
    return Runtime.get().load_program(
        data,
        verification=verification,
        data_path=data_path,
        enable_etdump=enable_etdump,
        debug_buffer_size=debug_buffer_size if enable_etdump else 0,
    )


def _get_operator_names() -> list[str]:
    """Names of all operators that have a kernel."""
    return sorted(Runtime.get().operator_registry.operator_names)


def _get_registered_backend_names() -> list[str]:
    """Names of the registered backends."""
    return Runtime.get().backend_registry.registered_backend_names


def _is_available(backend_name: str) -> bool:
    """Whether a backend is registered and its device is there."""
    return Runtime.get().backend_registry.is_available(backend_name)


def _threadpool_get_thread_count() -> int:
    """How many threads methods use."""
    return Runtime.get().num_threads


def _unsafe_reset_threadpool(num_threads: int) -> None:
    """Sets how many threads methods use."""
    set_num_threads(num_threads)
