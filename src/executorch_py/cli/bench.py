"""``etpy bench``: how long calls take, with percentiles, by threads, beside the peers that are installed."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from executorch_py._shown import nbytes_text
from executorch_py.errors import InvalidArgumentError
from executorch_py.runtime import Runtime
from executorch_py.text_table import aligned

from .arguments import inputs_of, positive
from .engines import ENGINES, EngineError, Running, engines_for
from .instruction_sets import ISAS, check_isa, environment, highest_isa, isa_settings
from .models import add_lowering, lowered
from .terminal import add_json, followed, show

__all__ = ["add"]

PERCENTILES = (50, 90, 99)


@dataclass
class Row:
    """An engine with a file and a number of threads."""

    file: str
    engine: str
    threads: int
    load_seconds: float = 0.0
    first_seconds: float = 0.0
    peak_bytes: int = 0
    times: list[float] = field(default_factory=list)
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain data, times in ms."""
        data: dict[str, Any] = {"file": self.file, "engine": self.engine, "threads": self.threads}
        if self.error:
            return {**data, "error": self.error}
        data |= {"load_ms": 1e3 * self.load_seconds, "first_ms": 1e3 * self.first_seconds, "runs": len(self.times)}
        data |= {f"p{share}_ms": 1e3 * self.percentile(share) for share in PERCENTILES}
        return {**data, "best_ms": 1e3 * min(self.times), "peak_bytes": self.peak_bytes}

    def percentile(self, share: int) -> float:
        """Seconds that so many percent of the calls took at most."""
        import numpy as np

        return float(np.percentile(self.times, share))

    def cells(self) -> list[str]:
        """As cells of the table."""
        head = [os.path.basename(self.file), self.engine, str(self.threads)]
        if self.error:
            return [*head, *[""] * (len(PERCENTILES) + 5), f"FAIL {self.error}"]
        milliseconds = [self.load_seconds, self.first_seconds, *map(self.percentile, PERCENTILES), min(self.times)]
        figures = [f"{1e3 * one:.4g}" for one in milliseconds]
        return [*head, *figures, str(len(self.times)), nbytes_text(self.peak_bytes), ""]


def add(commands: Any) -> None:
    """Adds the command."""
    bench = commands.add_parser("bench", help="how long calls take, beside onnxruntime, openvino and executorch")
    add_lowering(bench)
    bench.add_argument("beside", nargs="*", help="files to measure as well: .pte, .onnx, .xml (OpenVINO)")
    bench.add_argument("--method", default="forward")
    bench.add_argument(
        "--input", action="append", default=[], help=".npy file (a number: JSON); in order, rest generated"
    )
    bench.add_argument("--threads", type=positive, action="append", help="may be repeated; all processors otherwise")
    bench.add_argument("--seconds", type=float, default=2.0, help="of each row, in turns")
    bench.add_argument("--runs", type=positive, default=100_000, help="calls of each row at most")
    bench.add_argument("--warmup", type=int, default=3, help="calls before those that count, beside the first")
    bench.add_argument("--rounds", type=positive, default=5, help="how often each has its turn")
    bench.add_argument("--engine", action="append", choices=list(ENGINES), help="only these; may be repeated")
    bench.add_argument("--isa", choices=ISAS, help="the highest instruction set, of engines that obey a limit")
    add_json(bench)
    bench.set_defaults(run=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.isa is not None:
        check_isa(arguments.isa)
    with tempfile.TemporaryDirectory() as folder, environment(isa_settings(arguments.isa)):
        files, notes = _files(arguments, folder)
        inputs = inputs_of(Runtime.get().load_program(files[0]).load_method(arguments.method), arguments.input)
        rows = []
        for threads in arguments.threads or [len(os.sched_getaffinity(0))]:
            chosen = list(_rows(files, arguments, threads, notes))
            _measure(chosen, inputs, arguments)
            rows += chosen
    titles = ("file", "engine", "threads", "load", "first", *(f"p{share}" for share in PERCENTILES), "best")
    table = aligned(
        (*titles, "runs", "peak memory", ""), [row.cells() for row in rows], right=range(2, 11), indent="", widest=60
    )
    told = {
        "unit": "ms",
        "isa": arguments.isa,
        "machine_isa": highest_isa(),
        "rows": [row.as_dict() for row in rows],
        "notes": notes,
    }
    about = ["times in ms; memory beyond the imported package", *_instruction_set(arguments), *notes]
    show(arguments, "\n".join([*table, "", *about]), lambda: told)
    return 2 if any(row.error for row in rows) else 0


def _instruction_set(arguments: argparse.Namespace) -> Iterator[str]:
    """Which the figures are of."""
    highest = highest_isa()
    limit = os.environ.get("ET_MAX_ISA", highest)
    if arguments.isa is not None:
        yield f"instruction set: {arguments.isa} (--isa), of a machine that has {highest}"
    elif highest and ISAS.index(limit) < ISAS.index(highest):  # all have loaded by now, so that it is a word
        yield f"instruction set: {limit} for executorch_py (ET_MAX_ISA), {highest} for its peers (--isa: all)"
    elif highest:
        yield f"instruction set: {highest}, the highest of this machine"


def _files(arguments: argparse.Namespace, folder: str) -> tuple[list[str], list[str]]:
    """The files to measure, a .pte first, and what is to be said of them. Models become files in ``folder``."""
    notes: list[str] = []
    files = [arguments.model, *arguments.beside]
    if not arguments.model.endswith(".pte"):
        if os.path.splitext(arguments.model)[1] in (".onnx", ".xml"):
            raise InvalidArgumentError(f"name a .pte before {arguments.model}: all run on its inputs")
        program, model, inputs, kwargs = lowered(arguments)
        own = os.path.join(folder, "model.pte")
        program.save(own)
        files[0] = own
        if not any(one.endswith(".onnx") for one in files) and _is_wanted(arguments, "onnxruntime", "openvino"):
            files += _onnx(model, inputs, kwargs, folder, notes)
    for file in files:
        if not Path(file).exists():
            raise InvalidArgumentError(f"{file} is not there")
        if not engines_for(file):
            raise InvalidArgumentError(f"no engine reads {file}; write a .pte, an .onnx or an OpenVINO .xml")
    return files, notes


def _is_wanted(arguments: argparse.Namespace, *names: str) -> bool:
    chosen = [ENGINES[name] for name in names if arguments.engine is None or name in arguments.engine]
    return any(one.is_installed and (arguments.isa is None or one.obeys_isa) for one in chosen)


def _onnx(model: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any], folder: str, notes: list[str]) -> list[str]:
    """The model as ONNX, where torch can write it."""
    if not all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript")):
        notes.append("no ONNX file for the peers: torch needs the packages onnx and onnxscript to write one")
        return []
    import torch

    file = os.path.join(folder, "model.onnx")
    logging.disable(logging.WARNING)  # what torch does not find and does not need
    try:
        torch.onnx.export(model, inputs, file, kwargs=kwargs or None, dynamo=True, external_data=False, verbose=False)
    except Exception as error:  # torch raises what its passes raise
        notes.append(f"no ONNX file for the peers: {type(error).__name__}: {str(error).splitlines()[0]:.100}")
        return []
    finally:
        logging.disable(logging.NOTSET)
    return [file]


def _rows(files: Sequence[str], arguments: argparse.Namespace, threads: int, notes: list[str]) -> Iterator[Row]:
    for file in files:
        for engine in engines_for(file):
            if arguments.engine is not None and engine.name not in arguments.engine:
                continue
            if engine.is_installed and (arguments.isa is None or engine.obeys_isa):
                yield Row(file, engine.name, threads)
                continue
            why = "does not obey --isa" if engine.is_installed else "is not installed"
            if (note := f"not measured, because it {why}: {engine.name}") not in notes:
                notes.append(note)


def _measure(rows: list[Row], inputs: list[Any], arguments: argparse.Namespace) -> None:
    """All rows load, then take turns, so that all see the same machine."""
    with ExitStack() as stack:
        running: list[tuple[Row, Running]] = []
        for row in followed(rows, "loading", len(rows)):
            try:
                one = stack.enter_context(Running(row.engine, row.file, arguments.method, inputs, row.threads))
            except EngineError as error:
                row.error = str(error)
                continue
            row.load_seconds, row.first_seconds = one.load_seconds, one.first_seconds
            running.append((row, one))
        for _, one in running:
            if arguments.warmup > 0:
                one.block(arguments.seconds, arguments.warmup)
        for _ in followed(range(arguments.rounds), "measuring", arguments.rounds):
            for row, one in running:
                left = arguments.runs - len(row.times)
                if left > 0:
                    row.times += one.block(arguments.seconds / arguments.rounds, -(-left // arguments.rounds))
        for row, one in running:
            row.peak_bytes = one.peak_bytes()
