"""``etpy run``: runs a method and tells its latency."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

from executorch_py.runtime import Runtime

from .arguments import add_inputs, inputs_of, positive

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
    for index, output in enumerate(outputs):
        if not isinstance(output, np.ndarray):
            print(f"output {index}: {output!r}")
            continue
        print(f"output {index}: {output.dtype} {tuple(output.shape)}")
        if arguments.print:
            print(np.array2string(output, threshold=arguments.print))
        if arguments.output:
            path = os.path.join(arguments.output, f"output_{index}.npy")
            os.makedirs(arguments.output, exist_ok=True)
            np.save(path, output)
            print(f"  written to {path}")
    print(f"load {1e3 * (loaded - started):.3f} ms, first run {1e3 * (first - loaded):.3f} ms")
    if times:
        print(
            f"median of {len(times)} further runs {1e3 * float(np.median(times)):.4f} ms, best {1e3 * min(times):.4f} ms"
        )
    return 0
