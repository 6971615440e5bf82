"""The C++ core. Internal: executorch_py's modules are the interface. Made by tools/core_stub.py."""

import collections.abc
from typing import Any

class AdamW:
    """An optimizer; its options are those of the Python class of that name"""

    def __init__(self) -> None: ...

    def add_param_group(self, parameters: dict[Any, Any], options: dict[Any, Any]) -> None: ...

    def state(self, options: list[Any]) -> dict[Any, Any]:
        """What it remembers: name -> live view"""

    def step(self, gradients: dict[Any, Any], options: list[Any]) -> None: ...


class BackendExecutionContext:
    """What execute of a backend may use"""

    @property
    def failed_step(self) -> int: ...

    @failed_step.setter
    def failed_step(self, value: int) -> None: ...

    @property
    def instruction(self) -> int: ...

    @property
    def method_name(self) -> str: ...

    def record_step(self, id: int | str, start_ns: int, end_ns: int, name: str = '') -> None:
        """Tells the tracer, if there is one, when one of the delegate's own operators ran (time.monotonic_ns). `id` is a key of PreprocessResult.debug_handle_map"""

    def resize(self, index: int, sizes: collections.abc.Sequence[int]) -> Any:
        """Gives output `index` of the call its sizes; the array over its memory"""


class BackendInitContext:
    """What init of a backend may use"""

    @property
    def delegate_index(self) -> int: ...

    @property
    def failed_step(self) -> int: ...

    @failed_step.setter
    def failed_step(self, value: int) -> None: ...

    @property
    def method_name(self) -> str: ...

    def named_data(self, key: str) -> bytes:
        """Bytes of an entry of the program's named data"""


class BundledProgram:
    """A program with test cases"""

    def __init__(self, bytes: bytes) -> None: ...

    @property
    def cases(self) -> list[tuple[str, int]]: ...

    @property
    def program(self) -> bytes: ...

    def verify(self, method: Method, index: int, rtol: float = 1e-05, atol: float = 1e-08) -> list[Any]:
        """Runs a test case on a method, compares its outputs with the expected ones and returns them"""


class CompileSpec:
    """A key and bytes that the partitioner gave"""

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> bytes: ...


class CompiledProgram:
    """A compiled program; write it with save() or to_bytes()."""

    @property
    def debug_handles(self) -> dict[Any, Any]: ...

    @property
    def delegate_calls(self) -> dict[Any, Any]: ...

    @property
    def external_files(self) -> dict[Any, Any]: ...

    def external_to_bytes(self, name: str) -> bytes: ...

    @property
    def memory(self) -> list[Any]: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def pass_timings(self) -> list[Any]: ...

    def save(self, path: str) -> None:
        """Streams the file to a temporary name and renames it"""

    def save_external(self, name: str, path: str) -> None: ...

    @property
    def text(self) -> str: ...

    def to_bytes(self) -> bytes: ...


class Method:
    """A method ready to run"""

    def attribute(self, name: str) -> Any:
        """A live view of a tensor of the state, or None"""

    def cancel(self) -> None:
        """Makes a running execution end soon; from any thread"""

    def execute(self, inputs: Any, out: Any = None) -> list[Any]:
        """Runs the method; a list with its outputs"""

    def execute_observed(self, inputs: Any, observer: collections.abc.Callable) -> list[Any]:
        """Runs the method and calls observer(instruction, operator, arguments before, {index: written}, module path, file, line) after each instruction that calls an operator or a delegate"""

    def input_value(self, index: int) -> Any:
        """Value of an input that is no tensor, as fixed at export or as last given; None for tensors"""

    @property
    def meta(self) -> MethodMeta: ...

    @property
    def other_nbytes(self) -> int: ...

    @property
    def planned_nbytes(self) -> int: ...

    def reset_state(self) -> None:
        """Puts the session's mutable buffers to their initial values"""

    @property
    def session(self) -> Session: ...


class MethodBuilder:
    """Writes one method of a program."""

    def begin_region(self, owner_result: Value, name: str, inputs: collections.abc.Sequence) -> list[Value]: ...

    def buffer(self, symbol: str, type: tuple[Any, ...], data: int, owner: Any, is_shared: bool = False, external_file: str = '') -> Value: ...

    def buffer_write(self, symbol: str, value: Value) -> None: ...

    def constant(self, symbol: str, type: tuple[Any, ...], data: int, owner: Any, external_file: str = '') -> Value: ...

    def delegate(self, backend_id: str, payload: bytes, compile_specs: collections.abc.Sequence[tuple[str, bytes]], args: collections.abc.Sequence, results: collections.abc.Sequence, source: tuple[Any, ...], steps: collections.abc.Mapping[int, tuple[str, tuple[Any, ...]]]) -> tuple[Any, ...]: ...

    def end_region(self, outputs: collections.abc.Sequence) -> None: ...

    def finish(self) -> None: ...

    def input(self, name: str, type: Any) -> Value: ...

    def input_write(self, index: int, value: Value) -> None: ...

    def node(self, op: str, args: collections.abc.Sequence, results: collections.abc.Sequence, source: tuple[Any, ...], tag: str = '') -> tuple[Any, ...]: ...

    def outputs(self, values: collections.abc.Sequence) -> None: ...

    def specs(self, inputs: str, outputs: str) -> None: ...


class MethodMeta:
    """What a method takes, gives and needs"""

    def attribute_tensor(self, index: int) -> TensorInfo: ...

    @property
    def backends(self) -> list[str]: ...

    def input_kind(self, index: int) -> str: ...

    def input_name(self, index: int) -> str: ...

    @property
    def input_structure(self) -> str: ...

    def input_tensor(self, index: int) -> TensorInfo: ...

    @property
    def name(self) -> str: ...

    @property
    def num_attributes(self) -> int: ...

    @property
    def num_inputs(self) -> int: ...

    @property
    def num_instructions(self) -> int: ...

    @property
    def num_outputs(self) -> int: ...

    @property
    def operators(self) -> list[str]: ...

    def output_kind(self, index: int) -> str: ...

    def output_name(self, index: int) -> str: ...

    @property
    def output_structure(self) -> str: ...

    def output_tensor(self, index: int) -> TensorInfo: ...

    @property
    def planned_buffer_sizes(self) -> list[int]: ...

    @property
    def state_buffers(self) -> list[int]: ...

    @property
    def uses_state(self) -> bool: ...


class Program:
    """A loaded and verified file"""

    def etdump_bytes(self) -> bytes:
        """The ETDump of what was recorded so far"""

    @staticmethod
    def from_bytes(bytes: bytes | bytearray | memoryview, data_files: collections.abc.Sequence[str] = [], enable_etdump: bool = False, debug_nbytes: int = 0, firmware_kernels: bool = False, pack_cache: str = '') -> Program: ...

    @staticmethod
    def from_file(path: str, data_files: collections.abc.Sequence[str] = [], mmap: bool = True, enable_etdump: bool = False, debug_nbytes: int = 0, pack_cache: str = '') -> Program: ...

    @property
    def has_etdump(self) -> bool: ...

    def load_method(self, name: str, session: Session | None = None, seed: int = 0, max_backward_jumps: int = 10000000) -> Method: ...

    def meta(self, name: str) -> MethodMeta: ...

    @property
    def method_names(self) -> list[str]: ...

    @property
    def named_data(self) -> list[tuple[str, int]]: ...

    def new_session(self) -> Session: ...

    @property
    def packed_nbytes(self) -> int: ...

    def read_named_data(self, key: str) -> bytes: ...

    def reset_etdump(self) -> None:
        """Forgets what was recorded"""

    def save_etdump(self, path: str, debug_path: str = '') -> None:
        """Writes the ETDump, and the debug buffer beside it"""


class ProgramBuilder:
    """An ir::Program; compile() consumes it."""

    def __init__(self) -> None: ...

    def constant_method(self, name: str, values: collections.abc.Sequence) -> None: ...

    def constant_tensor(self, symbol: str, type: tuple[Any, ...], data: int, owner: Any) -> None: ...

    def method(self, name: str) -> MethodBuilder: ...

    def named_data(self, key: str, data: bytes, external_file: str = '') -> None: ...

    def text(self) -> str: ...


class SGD:
    """An optimizer; its options are those of the Python class of that name"""

    def __init__(self) -> None: ...

    def add_param_group(self, parameters: dict[Any, Any], options: dict[Any, Any]) -> None: ...

    def state(self, options: list[Any]) -> dict[Any, Any]:
        """What it remembers: name -> live view"""

    def step(self, gradients: dict[Any, Any], options: list[Any]) -> None: ...


class Session:
    """Mutable state that methods share"""

    def reset(self) -> None:
        """Puts every buffer to its initial value"""


class TensorInfo:
    """A tensor that a method takes or gives"""

    @property
    def bounds(self) -> list[tuple[int, int]]: ...

    @property
    def dim_order(self) -> list[int]: ...

    @property
    def dtype(self) -> int: ...

    @property
    def is_dynamic(self) -> bool: ...

    @property
    def is_memory_planned(self) -> bool: ...

    @property
    def name(self) -> str: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def sizes(self) -> list[int]: ...

    @property
    def symbols(self) -> list[str]: ...


class TrainingMethod:
    """A method that returns gradients"""

    def __init__(self, program: Program, name: str, session: Session | None = None, seed: int = 0) -> None: ...

    def cancel(self) -> None:
        """Makes a running execution end soon"""

    def execute(self, inputs: Any) -> list[Any]:
        """Runs the method; a list with the model's outputs"""

    @property
    def gradients(self) -> dict[Any, Any]: ...

    @property
    def has_gradients(self) -> bool: ...

    @property
    def parameters(self) -> dict[Any, Any]: ...

    @property
    def state(self) -> dict[Any, Any]: ...


class Value:
    """A value of the IR; lives as long as its program."""

    @property
    def name(self) -> str: ...


def backend_names() -> list[str]:
    """Names of all registered backends, sorted"""

def compile(program: ProgramBuilder, options: dict[Any, Any] = {}) -> CompiledProgram:
    """Compiles an Edge program; the options are those of driver/compile.h by name"""

def compiler_backends() -> list[str]:
    """Ids of the backends of this build whose preprocess is C++"""

def content_hash(address: int, nbytes: int) -> int:
    """A number that changes with the bytes at an address"""

def delegate_parts(program: ProgramBuilder) -> dict[str, list[list[int]]]:
    """{method: [[debug handles of a part]]}: how the compiler would split the tagged nodes of an imported program"""

def error_codes() -> list[Any]:
    """[(name, value, python_class, meaning)] of every error code"""

def finish(program: ProgramBuilder, options: dict[Any, Any] = {}) -> CompiledProgram:
    """Plans the memory of a lowered program and lays out its file"""

def flush_log() -> None:
    """Hands the lines that wait to the handler"""

def is_backend_available(name: str) -> bool:
    """False for a backend that is not registered or whose device is not there"""

def kernel_table() -> list[Any]:
    """[(name, library, variant, priority, signature, may step aside)] of all kernels, in the order of their use"""

def kernels_of(method: Method) -> list[Any]:
    """[(instruction, name, library, variant)]: the kernel that each instruction of a loaded method got"""

def list_passes() -> list[Any]:
    """[(id, summary)] of every pass"""

def load_plugin(path: str) -> str:
    """Loads a plug-in (runtime/plugin.h); gives its name"""

def load_ptd(path: str, tensors: dict[Any, Any]) -> None:
    """Fills tensors from a .ptd file, all or none"""

def num_threads() -> int:
    """Threads of the process's pool"""

def operator_names() -> list[str]:
    """Names of all operators that have a kernel, sorted"""

def operator_table() -> list[Any]:
    """[(name, kernel, schema, kernel's schema, dtypes, tags as bits, is published)] of the compiler's operators"""

def parse_program(text: str) -> ProgramBuilder:
    """The program that a text of the IR describes"""

def query_support(program: ProgramBuilder, backend_id: str, compile_specs: collections.abc.Sequence[tuple[str, bytes]], leave_parts: bool = True, leave_functions: bool = True, isa: str = '') -> list[tuple[int, str, str]]:
    """[(debug handle, reason)] of the nodes of an imported program; an empty reason means that the backend takes it"""

def register_backend(name: str, implementation: Any) -> None:
    """Registers an object with init and execute as a backend, or replaces one written in Python"""

def run_passes(program: ProgramBuilder, ids: collections.abc.Sequence[str], compatible: bool = False) -> None:
    """Runs passes by their ids on a program, in place"""

def save_ptd(path: str, tensors: dict[Any, Any]) -> None:
    """Writes tensors to a .ptd file, whole or not at all"""

def set_exception_factory(factory: Any) -> None:
    """factory(code, message, diagnostics) makes the exceptions that this module raises; None: RuntimeError"""

def set_log_handler(handler: Any, lowest: int = 2) -> None:
    """handler(level, file, line, text) gets the lines from `lowest` (0 debug .. 3 error) up, when flush_log runs"""

def set_num_threads(count: int) -> None:
    """Threads of the process's pool, the calling one included; 0: all processors"""
