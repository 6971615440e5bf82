"""Generated code as a shared library in this process: what `etpy build` writes, compiled against the package's kernels.

The kernels are those that the interpreter of this process calls (``_core`` and the package's libraries are one build),
so that the outputs of both must be the same bytes.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch

from executorch_py import _core
from executorch_py.element_types import item_size
from executorch_py.native import build_native
from executorch_py.native.examples import value_bytes
from executorch_py.runtime import Method, Program
from executorch_py.sdk import folder as package

_LIBRARIES = [f"kernels_{name}" for name in ("cortex_m", "quantized", "portable", "prim")]
_FLAGS = [
    "-std=c++17",
    "-O1",
    "-ffp-contract=off",
    "-fno-rtti",
    "-fno-exceptions",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wextra",
    "-Werror",
]


class Generated:
    """The methods of a program: in the interpreter with the kernels of firmware, and as generated code."""

    def __init__(self, data: bytes, folder: Path) -> None:
        build_native(data, folder, measure=False, library=True, name="model")
        library = folder / "model.so"
        libraries = [
            f"{package}/lib/libet_{name}.a" for name in (*_LIBRARIES, "runtime", "numerics", "threads", "base")
        ]
        sources = [folder / "model.cpp", folder / "weights.cpp"]
        command = ["g++", *_FLAGS, f'-DWEIGHTS="{folder}/weights.bin"', f"-I{folder}", f"-I{folder}/src", *sources]
        subprocess.run(
            [*command, "-o", library, "-Wl,--no-undefined", "-Wl,--start-group", *libraries, "-Wl,--end-group"],
            check=True,
        )
        self.text = (folder / "model.cpp").read_text()
        self.library = ctypes.CDLL(str(library))
        self.library.model_failed.restype = ctypes.c_char_p
        self.program = Program(_core.Program.from_bytes(data, firmware_kernels=True))
        self.is_dynamic = "_resize_input(" in self.text
        self.methods = {name: self.program.load_method(name) for name in self.program.method_names}

    def prefix(self, method: str) -> str:
        """What the method's functions begin with."""
        return "model" if method == "forward" or len(self.methods) == 1 else f"model_{method}"

    def run(self, method: str, inputs: Sequence[Any]) -> list[bytes | None]:
        """Bytes of the outputs of generated code."""
        meta, prefix = self.program.metadata(method), self.prefix(method)
        for i, value in enumerate(inputs):
            info = meta.input_tensor_meta(i) if meta.input_kind(i) == "Tensor" else None
            place, given = self._place(f"{prefix}_input", i), value_bytes(value, info)
            assert place or info is None, i
            if self.is_dynamic and info is not None:
                assert self.resize(method, i, value.shape) == 0, (i, value.shape)
            if place and given:
                ctypes.memmove(place, given, len(given))
        error = getattr(self.library, f"{prefix}_run")()
        assert error == 0, (error, self.library.model_failed())
        found: list[bytes | None] = []
        for i in range(meta.num_outputs()):
            sizes = {"Int": 8, "Double": 8, "Bool": 1, "None": 0}
            kind = meta.output_kind(i)
            nbytes = sizes[kind] if kind in sizes else meta.output_tensor_meta(i).nbytes()
            place = self._place(f"{prefix}_output", i)
            assert place or kind == "None", i
            if self.is_dynamic and kind == "Tensor":
                nbytes = item_size(meta.output_tensor_meta(i).dtype()) * prod(self.output_sizes(method, i))
            found.append(ctypes.string_at(place, nbytes) if place else None)
        return found

    def resize(self, method: str, i: int, sizes: Sequence[int]) -> int:
        """Gives an input other sizes; an error's number."""
        array = (ctypes.c_int64 * len(sizes))(*sizes)
        return int(getattr(self.library, f"{self.prefix(method)}_resize_input")(i, array))

    def output_sizes(self, method: str, i: int) -> list[int]:
        """Sizes of an output after a run."""
        function = getattr(self.library, f"{self.prefix(method)}_output_sizes")
        function.restype = ctypes.POINTER(ctypes.c_int64)
        rank = len(self.program.metadata(method).output_tensor_meta(i).sizes())
        return function(i)[:rank]  # type: ignore[no-any-return]

    def expected(self, method: str, inputs: Sequence[Any]) -> list[bytes | None]:
        """The same of the interpreter."""
        meta, outputs = self.program.metadata(method), self._method(method).execute(list(inputs))
        infos = [meta.output_tensor_meta(i) if meta.output_kind(i) == "Tensor" else None for i in range(len(outputs))]
        return [value_bytes(value, info) for value, info in zip(outputs, infos, strict=True)]

    def check(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """The calls give the same bytes in both."""
        for turn, (method, inputs) in enumerate(calls):
            wanted = self.expected(method, [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs])
            assert self.run(method, inputs) == wanted, f"call {turn} of {method}"

    def reset(self) -> None:
        """The state of both as it began."""
        self.library.model_reset_state()
        for method in self.methods.values():
            method.reset_state()

    def _method(self, name: str) -> Method:
        return self.methods[name]

    def _place(self, function: str, i: int) -> int:
        found = getattr(self.library, function)
        found.restype = ctypes.c_void_p
        return int(found(i) or 0)
