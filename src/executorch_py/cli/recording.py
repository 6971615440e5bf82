"""Runs for ``etpy profile`` and ``etpy trace``: a program that records, or an ETDump that was written before."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidArgumentError
from executorch_py.runtime import Runtime

from .arguments import add_inputs, inputs_of, positive
from .terminal import followed

__all__ = ["add_recording", "inspector_of"]


def add_recording(parser: argparse.ArgumentParser) -> None:
    """The options of commands that run a program and look at what it did."""
    add_inputs(parser, "a .pte file, which is run, or an ETDump of runs before")
    parser.add_argument("--etrecord", help="its ETRecord, which etpy export --etrecord writes: lines, modules")
    parser.add_argument("--runs", type=positive, default=20)
    parser.add_argument("--warmup", type=int, default=3, help="runs before those that count")
    parser.add_argument("--unit", choices=("ns", "us", "ms", "s", "cycles"), default="ms", help="cycles: an ETDump's")


def inspector_of(arguments: argparse.Namespace) -> Any:
    """The Inspector of the runs."""
    from executorch_py.devtools import Inspector, TimeScale

    unit = TimeScale(arguments.unit)
    data = Path(arguments.program).read_bytes()
    if data[8:12] == b"ED00":
        if arguments.input:
            raise InvalidArgumentError(f"{arguments.program} is an ETDump of runs before; --input is for a .pte")
        source = TimeScale.CYCLES if unit is TimeScale.CYCLES else TimeScale.NS
        return Inspector(
            arguments.program, etrecord=arguments.etrecord, source_time_scale=source, target_time_scale=unit
        )
    if unit is TimeScale.CYCLES:
        raise InvalidArgumentError("--unit cycles is for an ETDump whose times are cycles, as firmware writes it")
    runtime = Runtime.get()
    if arguments.threads is not None:
        runtime.set_num_threads(arguments.threads)
    program = runtime.load_program(arguments.program, data_path=arguments.data, enable_etdump=True)
    method = program.load_method(arguments.method)
    inputs = inputs_of(method, arguments.input)
    for _ in range(max(arguments.warmup, 0)):
        method.execute(inputs)
    if arguments.warmup > 0:
        program.reset_etdump()
    for _ in followed(range(arguments.runs), "running", arguments.runs):
        method.execute(inputs)
    return Inspector.of(program, arguments.etrecord, target_time_scale=unit)
