"""Runs one kernel on torch tensors, through the test library that tests/cpp/kernels/portable builds (et_kernel_test).

`run_kernel` runs the portable or quantized kernel; `prepare_and_run` any kernel that an operator has, as a load and two
calls do. ET_BUILD_DIR names another build folder, ET_INSTRUCTION_SET the one that vector kernels are held to (AVX2,
SSE4).

Example:
    >>> out = torch.empty(3)
    >>> run_kernel("aten::add.out", [torch.ones(3), torch.ones(3), 1, out])
    >>> out
    tensor([2., 2., 2.])
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]

# Values of runtime::Tag.
NONE, INT, BOOL, DOUBLE, TENSOR, STRING, INT_LIST, DOUBLE_LIST, BOOL_LIST, TENSOR_LIST, OPTIONAL_TENSOR_LIST = range(
    1, 12
)

DTYPE_CODES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15, torch.uint16: 27,
    torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
_MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}


class _Value(ctypes.Structure):
    pass


_Value._fields_ = [
    ("tag", ctypes.c_int32), ("dtype", ctypes.c_int32), ("number", ctypes.c_int64), ("real", ctypes.c_double),
    ("text", ctypes.c_char_p), ("data", ctypes.c_void_p), ("capacity", ctypes.c_int64),
    ("sizes", ctypes.POINTER(ctypes.c_int64)), ("dim_order", ctypes.POINTER(ctypes.c_uint8)), ("size", ctypes.c_int64),
    ("items", ctypes.POINTER(_Value)), ("flags", ctypes.c_int64),
]  # fmt: skip


_CONSTANT, _DYNAMIC = 1, 2


class KernelError(RuntimeError):
    """The kernel returned an error; `code` is the value of et::Error."""

    def __init__(self, name: str, code: int, message: str) -> None:
        super().__init__(f"{name}: error {code:#x}: {message}")
        self.code = code


class MissingKernelError(LookupError):
    """The test library has no kernel of that name."""


class Unbound:
    """An output whose shape the kernel decides; `value` is the tensor afterwards."""

    def __init__(self, dtype: torch.dtype, rank: int) -> None:
        """Makes an output of `rank` dimensions."""
        self.dtype, self.rank, self.value = dtype, rank, None


@functools.cache
def _library() -> ctypes.CDLL:
    build = Path(os.environ.get("ET_BUILD_DIR", ROOT / "build/dev"))
    path = build / "bin/libet_kernel_test.so"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: build the target et_kernel_test, or name the build folder in ET_BUILD_DIR")
    library = ctypes.CDLL(str(path))
    library.et_kernel_test_message.restype = ctypes.c_char_p
    library.et_kernel_test_run.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Value), ctypes.c_int64, ctypes.c_uint64]
    library.et_kernel_test_prepare_and_run.argtypes = [
        ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(_Value), ctypes.POINTER(_Value), ctypes.c_int64,
    ]  # fmt: skip
    if name := os.environ.get("ET_INSTRUCTION_SET"):
        library.et_kernel_test_hold_to.restype = ctypes.c_bool
        if not library.et_kernel_test_hold_to(name.encode()):
            raise ValueError(f"ET_INSTRUCTION_SET={name}: this build or processor has no such instructions")
    return library


def dim_order(tensor: torch.Tensor) -> list[int]:
    """Dimensions from outermost to innermost in memory; the tensor must be dense."""
    if tensor.is_contiguous():
        return list(range(tensor.dim()))
    return sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))


def is_dense(tensor: torch.Tensor) -> bool:
    """True when the strides follow from sizes and dim order, as the runtime needs it."""
    return tensor.permute(dim_order(tensor)).is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


class _Arguments:
    """Keeps alive what the flat structs point at."""

    def __init__(self) -> None:
        self.alive: list[Any] = []

    def fill(self, v: _Value, a: Any) -> None:
        if a is None:
            v.tag = NONE
        elif isinstance(a, bool):
            v.tag, v.number = BOOL, int(a)
        elif isinstance(a, int):
            v.tag, v.number = INT, a
        elif isinstance(a, float):
            v.tag, v.real = DOUBLE, a
        elif isinstance(a, str):
            v.tag, v.text = STRING, a.encode()
        elif isinstance(a, torch.dtype):
            v.tag, v.number = INT, DTYPE_CODES[a]
        elif isinstance(a, torch.memory_format):
            v.tag, v.number = INT, _MEMORY_FORMATS[a]
        elif isinstance(a, Unbound):
            self._shape(v, a.dtype, [0] * a.rank, list(range(a.rank)))
            v.data, v.capacity = None, -1
        elif isinstance(a, torch.Tensor):
            if not is_dense(a):
                a = a.resolve_conj().resolve_neg().contiguous()
            self._shape(v, a.dtype, list(a.shape), dim_order(a))
            v.data, v.capacity = a.data_ptr(), a.numel() * a.element_size()
        elif isinstance(a, (list, tuple)):
            self._list(v, list(a))
        else:
            raise TypeError(f"cannot pass a {type(a).__name__} to a kernel")
        self.alive.append(a)

    def values(self, arguments: list[Any], letters: str) -> Any:
        """The array of structs for these arguments."""
        array = (_Value * max(1, len(arguments)))()
        tags = {"v": TENSOR_LIST, "w": OPTIONAL_TENSOR_LIST, "f": DOUBLE_LIST, "F": DOUBLE_LIST, "m": BOOL_LIST}
        for i, (slot, argument) in enumerate(zip(array, arguments)):
            self.fill(slot, argument)
            if i < len(letters) and isinstance(argument, (list, tuple)):
                slot.tag = tags.get(letters[i], slot.tag)
        return array

    def _shape(self, v: _Value, dtype: torch.dtype, sizes: list[int], order: list[int]) -> None:
        v.tag, v.dtype, v.size = TENSOR, DTYPE_CODES[dtype], len(sizes)
        v.sizes = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
        v.dim_order = (ctypes.c_uint8 * max(1, len(sizes)))(*order)

    def _list(self, v: _Value, items: list) -> None:
        if any(i is None for i in items):
            v.tag = OPTIONAL_TENSOR_LIST
        elif any(isinstance(i, torch.Tensor) for i in items):
            v.tag = TENSOR_LIST
        elif any(isinstance(i, bool) for i in items):
            v.tag = BOOL_LIST
        elif any(isinstance(i, float) for i in items):
            v.tag, items = DOUBLE_LIST, [float(i) for i in items]
        else:
            v.tag = INT_LIST
        array = (_Value * max(1, len(items)))()
        for slot, item in zip(array, items):
            self.fill(slot, item)
        v.items, v.size = array, len(items)


def _raise(name: str, code: int) -> None:
    if code == 255:
        raise MissingKernelError(name)
    if code != 0:
        raise KernelError(name, code, _library().et_kernel_test_message().decode(errors="replace"))


def run_kernel(name: str, arguments: list[Any], letters: str = "", seed: int = 0) -> None:
    """Runs kernel `name`. Outputs are tensors of the right shape (or Unbound) among the arguments.

    Args:
        name: Kernel name, "aten::add.out".
        arguments: One value for each parameter of the out variant's schema.
        letters: Signature letters of the parameters, which decide the type of an empty list and of mixed lists.
        seed: Of the random generator.

    Raises:
        KernelError: The kernel returned an error.
        MissingKernelError: There is no such kernel.
    """
    keeper = _Arguments()
    values = keeper.values(arguments, letters)
    code = _library().et_kernel_test_run(name.encode(), values, len(arguments), seed)
    _raise(name, code)
    for slot, argument in zip(values, arguments):
        if isinstance(argument, Unbound):
            sizes = [slot.sizes[d] for d in range(argument.rank)]
            result = torch.empty(sizes, dtype=argument.dtype)
            if result.numel():
                ctypes.memmove(result.data_ptr(), slot.data, result.numel() * result.element_size())
            argument.value = result


def kernel_count(name: str) -> int:
    """How many kernels of that name there are in all libraries.

    The portable or quantized one, which most have, is the last.
    """
    return _library().et_kernel_test_count(name.encode())


def prepare_and_run(
    name: str, place: int, arguments: list[Any], letters: str, constant: set[int], called: list[Any] | None = None
) -> None:
    """Prepares a kernel with some arguments and runs it on others, then on those it was prepared with.

    Args:
        name: As for run_kernel.
        place: Which of the kernels of that name, best first.
        arguments: As for run_kernel; none is Unbound.
        letters: As for run_kernel.
        constant: Places of arguments that a kernel may take for the same in every call.
        called: The arguments of the first run: shapes of at most the sizes of `arguments`, whose elements they have,
            and numbers. None: those of `arguments`.

    Raises:
        KernelError: The kernel returned an error; NotSupported (0x10) where the arguments do not fit this kernel.
        MissingKernelError: There are fewer kernels of that name.
    """
    keeper = _Arguments()
    values = keeper.values(arguments, letters)
    changed = values if called is None else keeper.values(called, letters)
    for i in range(len(arguments)):
        for array in (values, changed):
            _flag(array[i], _CONSTANT if i in constant else _DYNAMIC if called is not None else 0)
    code = _library().et_kernel_test_prepare_and_run(name.encode(), place, values, changed, len(arguments))
    _raise(name, code)


def _flag(value: _Value, flags: int) -> None:
    value.flags = flags
    if value.tag in (INT_LIST, TENSOR_LIST, OPTIONAL_TENSOR_LIST):
        for i in range(value.size):
            _flag(value.items[i], flags)
