"""``etpy firmware``: a project that runs a program on a microcontroller."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from executorch_py.firmware import TARGETS, write_firmware

from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    firmware = commands.add_parser("firmware", help="write a project that runs a program on a microcontroller")
    firmware.add_argument("program", help="a .pte file, or a .bpte, whose test cases the target runs")
    firmware.add_argument("-o", "--output", required=True, help="folder of the project")
    firmware.add_argument("--target", choices=list(TARGETS), default="cortex-m55")
    firmware.add_argument("--method", default="forward")
    firmware.add_argument("--input", action="append", help=".npy file of an example input; once for each")
    firmware.add_argument("--rtol", type=float, default=1e-4, help="how far a .bpte's outputs may be off, of the value")
    firmware.add_argument("--atol", type=float, default=1e-5, help="the same, beside the value")
    firmware.add_argument("--etdump", action="store_true", help="record events, and write them as an ETDump: run.etdp")
    firmware.add_argument("--keep-names", action="store_true", help="keep debug information and names in the model")
    firmware.add_argument("--no-measure", action="store_true", help="write the project only: neither build nor run it")
    firmware.add_argument("--cost", action="store_true", help="tell what each layer takes: instructions, bytes, lines")
    add_json(firmware)
    firmware.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    inputs = [np.load(path) for path in arguments.input] if arguments.input else None
    report = write_firmware(
        arguments.program,
        arguments.output,
        arguments.target,
        method=arguments.method,
        inputs=inputs,
        tolerance=(arguments.rtol, arguments.atol),
        etdump=arguments.etdump,
        strip=not arguments.keep_names,
        measure=not arguments.no_measure,
        cost=arguments.cost,
    )
    show(arguments, str(report), report.as_dict)
    return 1 if report.run is not None and not report.run.matches else 0
