"""``etpy run``: runs a method and tells its latency."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

from executorch_py.runtime import Runtime

from .arguments import add_inputs, inputs_of, positive
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    run = commands.add_parser("run", help="run a method")
    add_inputs(run)
    run.add_argument("--output", help="folder for the outputs as .npy files")
    run.add_argument("--runs", type=positive, default=1)
    run.add_argument(
        "--print", type=int, nargs="?", const=16, default=0, help="print values, at most so many an output"
    )
    add_json(run)
    run.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    runtime = Runtime.get()
    if arguments.threads is not None:
        runtime.set_num_threads(arguments.threads)
    started = time.perf_counter()
    program = runtime.load_program(arguments.program, data_path=arguments.data)
    method = program.load_method(arguments.method)
    loaded = time.perf_counter()
    inputs = inputs_of(method, arguments.input)
    outputs = method.execute(inputs)
    first = time.perf_counter()
    times = []
    for _ in range(arguments.runs - 1):
        before = time.perf_counter()
        outputs = method.execute(inputs)
        times.append(time.perf_counter() - before)
    told = [_output(index, value, arguments) for index, value in enumerate(outputs)]
    milliseconds = {"load_ms": 1e3 * (loaded - started), "first_ms": 1e3 * (first - loaded)}
    lines = [line for one in told for line in one["lines"]]
    lines.append(f"load {milliseconds['load_ms']:.3f} ms, first run {milliseconds['first_ms']:.3f} ms")
    if times:
        milliseconds |= {"median_ms": 1e3 * float(np.median(times)), "best_ms": 1e3 * min(times)}
        figures = f"{milliseconds['median_ms']:.4f} ms, best {milliseconds['best_ms']:.4f} ms"
        lines.append(f"median of {len(times)} further runs {figures}")
    show(arguments, "\n".join(lines), lambda: {"outputs": [one["data"] for one in told], **milliseconds})
    return 0


def _output(index: int, value: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """An output as lines and as data; written to its file where a folder is named."""
    if not isinstance(value, np.ndarray):
        return {"lines": [f"output {index}: {value!r}"], "data": {"value": value}}
    lines = [f"output {index}: {value.dtype} {tuple(value.shape)}"]
    data: dict[str, Any] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if arguments.print:
        lines.append(np.array2string(value, threshold=arguments.print))
        data["values"] = value.astype(object).reshape(-1)[: arguments.print].tolist()
    if arguments.output:
        path = os.path.join(arguments.output, f"output_{index}.npy")
        os.makedirs(arguments.output, exist_ok=True)
        np.save(path, value)
        lines.append(f"  written to {path}")
        data["file"] = path
    return {"lines": lines, "data": data}
