"""The engines that ``etpy bench`` measures, each in a process of its own: a file becomes a call.

A peer is measured where its package is installed. Each is set up as its documentation recommends for a CPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from types import TracebackType
from typing import Any

__all__ = ["ENGINES", "Engine", "EngineError", "Running", "engines_for"]

Call = Callable[[], Any]


class EngineError(RuntimeError):
    """An engine could not load or run a file; the text says why."""


def _own(file: str, method: str, inputs: Sequence[Any], threads: int) -> Call:
    from executorch_py.runtime import Runtime

    Runtime.get().set_num_threads(threads)
    loaded = Runtime.get().load_program(file).load_method(method)
    return lambda: loaded.execute(inputs)


def _executorch(file: str, method: str, inputs: Sequence[Any], threads: int) -> Call:
    import torch
    from executorch.extension.pybindings import portable_lib
    from executorch.runtime import Runtime

    if portable_lib._threadpool_get_thread_count() != threads:
        portable_lib._unsafe_reset_threadpool(threads)
    loaded = Runtime.get().load_program(file).load_method(method)
    tensors = [torch.as_tensor(value) if hasattr(value, "shape") else value for value in inputs]
    return lambda: loaded.execute(tensors)


def _onnxruntime(file: str, method: str, inputs: Sequence[Any], threads: int) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    feeds = {one.name: value for one, value in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: session.run(None, feeds)


def _openvino(file: str, method: str, inputs: Sequence[Any], threads: int) -> Call:
    import openvino

    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # its default may be bfloat16, which is another computation
    }
    request = openvino.Core().compile_model(file, "CPU", options).create_infer_request()
    return lambda: request.infer(list(inputs), share_inputs=True, share_outputs=True)


@dataclass(frozen=True)
class Engine:
    """A package that runs files.

    Attributes:
        name: Of the package, too.
        suffixes: Of the files that it reads.
        modules: What ``load`` imports; imported before time and memory count.
        load: (file, method, inputs, threads) -> a call that runs once.
        obeys_isa: Whether `isa_settings` limit it.
    """

    name: str
    suffixes: tuple[str, ...]
    modules: tuple[str, ...]
    load: Callable[[str, str, Sequence[Any], int], Call]
    obeys_isa: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether the package can be imported."""
        return importlib.util.find_spec(self.name) is not None


ENGINES = {
    one.name: one
    for one in (
        Engine("executorch_py", (".pte",), ("executorch_py.runtime",), _own, obeys_isa=True),
        Engine(
            "executorch",
            (".pte",),
            ("torch", "executorch.runtime", "executorch.extension.pybindings.portable_lib"),
            _executorch,
        ),
        Engine("onnxruntime", (".onnx",), ("onnxruntime",), _onnxruntime),
        Engine("openvino", (".onnx", ".xml"), ("openvino",), _openvino, obeys_isa=True),
    )
}


def engines_for(file: str) -> list[Engine]:
    """The engines that read a file, installed or not."""
    suffix = os.path.splitext(file)[1]
    return [one for one in ENGINES.values() if suffix in one.suffixes]


class Running:
    """An engine with a loaded file in a process of its own."""

    def __init__(self, engine: str, file: str, method: str, inputs: Sequence[Any], threads: int) -> None:
        """Starts the process, with the environment as it is now, and loads the file.

        Raises:
            EngineError: The engine cannot load or run it.
        """
        context = get_context("spawn")  # a fork would share pools of threads
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, engine, file, method, inputs, threads), daemon=True
        )
        self._process.start()
        theirs.close()
        self.load_seconds, self.first_seconds = self._answer()

    def block(self, seconds: float, most: int) -> list[float]:
        """Seconds of each call, for so long or so many calls, at least one."""
        self._pipe.send((seconds, most))
        return self._answer()

    def peak_bytes(self) -> int:
        """The most memory beyond what the imported package took."""
        self._pipe.send(None)
        return self._answer()

    def _answer(self) -> Any:
        try:
            good, value = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise EngineError(f"its process ended with status {self._process.exitcode}") from None
        if not good:
            raise EngineError(value)
        return value

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()


def _serve(pipe: Any, engine: str, file: str, method: str, inputs: Sequence[Any], threads: int) -> None:
    """The other process: loads, then runs blocks until the pipe closes."""
    warnings.filterwarnings("ignore")
    try:
        if engine != "executorch_py":  # peers talk while they work; their errors come as exceptions
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        for module in ENGINES[engine].modules:
            importlib.import_module(module)
        before = _memory("VmRSS", reset=True)
        started = time.perf_counter()
        call = ENGINES[engine].load(file, method, inputs, threads)
        loaded = time.perf_counter()
        call()
        pipe.send((True, (loaded - started, time.perf_counter() - loaded)))
        while True:
            request = pipe.recv()
            value: Any = _memory("VmHWM") - before if request is None else _block(call, *request)
            pipe.send((True, value))
    except EOFError:
        pass
    except Exception as error:  # whatever a package raises is told
        pipe.send((False, f"{type(error).__name__}: {error}".splitlines()[0]))


def _block(call: Call, seconds: float, most: int) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or (len(times) < most and time.perf_counter() < end):
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return times


def _memory(name: str, reset: bool = False) -> int:
    """A figure of /proc/self/status in bytes; 0 where there is none."""
    try:
        if reset:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # the peak begins anew
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))
    except (OSError, StopIteration):
        return 0
