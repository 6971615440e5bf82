"""``etpy``: exports, runs, inspects, measures and validates programs from a shell.

etpy export my.models:make -o model.pte         make() returns (model, example_inputs); a .pt2 file, too
etpy run model.pte --input x.npy --runs 100     prints outputs and the latency
etpy inspect model.pte                          methods, tensors, operators, delegates, memory
etpy validate model.pte my.models:make          the program against its model
etpy bench model.pte model.onnx --threads 1     percentiles of its calls, beside the peers that are installed
etpy quantization float.pt2 int8.pt2 --data my.models:samples   what quantization costs, layer by layer
etpy ops model.pte                              its operators, the kernel that each call got, and what is missing
etpy select model.pte -o kernels.txt            the kernels and element types that it calls, for a selective build
etpy strip model.pte -o small.pte               without debug information and names
etpy profile model.pte --etrecord model.etrecord   where the time goes, by line, module or operator
etpy trace model.pte -o trace.json              runs as a trace for ui.perfetto.dev
etpy plan my.models:make                        what lives at the peak of the planned memory, with its lines
etpy compare a.pte b.pte                        sizes, operators, times and numbers of two programs
etpy bundle model.pte my.models:make -o model.bpte   a program with test cases in its file
etpy firmware model.pte -o folder               a project that runs a program on a microcontroller
etpy build model.pte -o folder                  the program as C++ code without an interpreter, built for a target
etpy passes                                     the compiler's passes
etpy doctor                                     what is installed, what this machine has, one inference
etpy completion bash                            a script that completes commands and options in a shell

The exit status is 0, 1 for a check that fails, 2 for an error, 3 for an exception of the model's own code or of etpy.
A command is a file of this folder, with ``add`` for its options.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from executorch_py import __version__
from executorch_py.errors import ExecutorchError

from . import (
    bench,
    build,
    bundle,
    compare,
    completion,
    doctor,
    export,
    firmware,
    inspect,
    ops,
    passes,
    plan,
    profile,
    quantization,
    run,
    select,
    strip,
    trace,
    validate,
)
from .parser import Parser
from .terminal import complain

__all__ = ["main"]

#: In the order of ``etpy --help``.
_COMMANDS = (
    *(export, run, inspect, validate, bench, profile, trace, plan, compare, bundle, quantization),
    *(ops, select, strip, firmware, build, passes, doctor),
)


def _parser() -> argparse.ArgumentParser:
    """The command line's parser."""
    found = Parser(prog="etpy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--version", action="version", version=f"etpy {__version__}")
    commands = found.add_subparsers(required=True, metavar="command")
    for command in _COMMANDS:
        command.add(commands)
    completion.add(commands, _parser)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status is 0, 1 for a check that fails, 2 for an error, 3 for any other exception."""
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `etpy passes | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except (ExecutorchError, OSError, ModuleNotFoundError, AttributeError) as error:
        complain(f"{type(error).__name__}: {error}")
        return 2
    except Exception:  # of the model's own code; or a mistake of ours, which a traceback tells best
        traceback.print_exc()
        return 3
