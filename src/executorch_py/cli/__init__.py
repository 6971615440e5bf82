"""``etpy``: exports, runs, inspects and validates programs from a shell.

etpy export my.models:make -o model.pte         make() returns (model, example_inputs)
etpy run model.pte --input x.npy --runs 100     prints outputs and the latency
etpy inspect model.pte                          methods, tensors, operators, delegates, memory
etpy validate model.pte my.models:make          the program against its model
etpy quantization float.pt2 int8.pt2 --data my.models:samples --html page.html   what quantization costs, layer by layer
etpy ops model.pte                              which operators it calls, which kernel each call got, and what is missing
etpy profile model.pte --etrecord model.etrecord   where the time goes, by line, module or operator
etpy trace model.pte -o trace.json              runs as a trace for ui.perfetto.dev
etpy plan my.models:make                        what lives at the peak of the planned memory, with its lines
etpy compare a.pte b.pte                        sizes, operators, times and numbers of two programs
etpy bundle model.pte my.models:make -o model.bpte   a program with test cases in its file
etpy passes                                     the compiler's passes

A command is a file of this folder, with ``add`` for its options.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from executorch_py import __version__
from executorch_py.errors import ExecutorchError

from . import bundle, compare, export, inspect, ops, passes, plan, profile, quantization, run, trace, validate

__all__ = ["main"]

#: In the order of ``etpy --help``.
_COMMANDS = (export, run, inspect, validate, profile, trace, plan, compare, bundle, quantization, passes, ops)


def _parser() -> argparse.ArgumentParser:
    """The command line's parser."""
    found = argparse.ArgumentParser(
        prog="etpy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--version", action="version", version=f"etpy {__version__}")
    commands = found.add_subparsers(required=True, metavar="command")
    for command in _COMMANDS:
        command.add(commands)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status is 0, 1 for a check that fails, 2 for an error."""
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `etpy passes | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ExecutorchError, OSError, ModuleNotFoundError, AttributeError) as error:
        print(f"etpy: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
