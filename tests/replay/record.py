"""Records what this process's executorch_py makes of each case: texts of all stages, the file, the outputs.

A record is a folder:

    index.json       case -> [[stage, hash]], in the order in which the stages were passed
    texts/<hash>.gz  the text of a stage, so that two records can be compared line by line

Stages: ``quantized`` (the fx graph behind the quantizer), ``edge`` (the imported IR), each pass by method, ``final``,
``pte`` (the bytes of the file) and ``outputs`` (bytes, element types and sizes). A case that raises ends with
``error``.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from executorch_py.backends.xnnpack import Precision, XnnpackPartitioner
from hypothesis.errors import UnsatisfiedAssumption
from torch.utils import _pytree as pytree

import executorch_py as et
from executorch_py import _core, quantizer

from .cases import FLOAT, Sample, samples

Stages = list[tuple[str, str]]


class Record:
    """A record being written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: dict[str, Stages] = {}
        shutil.rmtree(folder / "texts", ignore_errors=True)
        (folder / "texts").mkdir(parents=True, exist_ok=True)

    def text(self, text: str) -> str:
        """Keeps a text, once; returns its hash."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        path = self._folder / "texts" / f"{digest}.gz"
        if not path.exists():
            path.write_bytes(gzip.compress(text.encode(), 1, mtime=0))
        return digest

    def add(self, case: str, stages: Stages) -> None:
        """Adds a case; the index is complete after each."""
        self._index[case] = stages
        (self._folder / "index.json").write_text(json.dumps(self._index, indent=1))


def record(folder: Path, quick: bool, only: str = "") -> None:
    """Writes the record of all cases whose name contains ``only``."""
    out = Record(folder)
    start = time.perf_counter()
    for name, make in samples(quick):
        if only and only not in name:
            continue
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for case, stages in _cases(out, name, make):
                out.add(case, stages)
        print(f"[replay] {time.perf_counter() - start:5.0f} s  {name}", file=sys.stderr, flush=True)


def _cases(out: Record, name: str, make: Any) -> Iterator[tuple[str, Stages]]:
    torch.manual_seed(0)
    try:
        sample = make()
    except UnsatisfiedAssumption:
        return  # torch.export refuses this network
    except Exception as error:
        yield name, [("error", out.text(_text_of(error)))]
        return
    for preset in (FLOAT, *sample.presets):
        torch.manual_seed(0)
        try:
            programs = sample.programs if preset == FLOAT else _quantized(sample, preset)
        except Exception as error:
            yield f"{name}/{preset}", [("error", out.text(_text_of(error)))]
            continue
        for way, partitioners in (
            ("kernels", []),
            ("delegate", [XnnpackPartitioner(config_precisions=list(Precision))]),
        ):
            stages: Stages = []
            if preset != FLOAT:
                stages += [("quantized", out.text(_graphs(programs)))]
            try:
                stages += _lowered(out, sample, copy.deepcopy(programs), partitioners)
            except Exception as error:
                stages += [("error", out.text(_text_of(error)))]
            yield f"{name}/{preset}/{way}", stages


def _text_of(error: Exception) -> str:
    """Our messages whole; of others, which may name temporary files, the kind."""
    return str(error) if isinstance(error, et.ExecutorchError) else type(error).__name__


def _quantized(sample: Sample, preset: str) -> dict[str, torch.export.ExportedProgram]:
    ((method, program),) = sample.programs.items()
    data = [sample.inputs[method]] if preset.startswith("static") else None
    return {method: quantizer.quantize(copy.deepcopy(program), config_or_quantizer=preset, calibration_data=data)}


def _graphs(programs: dict[str, torch.export.ExportedProgram]) -> str:
    return "\n".join(f"{name}\n{program.graph}" for name, program in programs.items())


def _lowered(out: Record, sample: Sample, programs: Any, partitioners: list[Any]) -> Stages:
    stages: Stages = []
    turns: dict[str, int] = {}

    def on_pass(id: str, method: str, changed: bool, text: str) -> None:
        turn = turns[f"{id}@{method}"] = turns.get(f"{id}@{method}", 0) + 1
        stages.append((f"{id}@{method}" + f"/{turn}" * (turn > 1), out.text(text)))

    def compile(program: Any, options: dict[str, Any], run: Any = _core.compile) -> Any:
        stages.append(("edge", out.text(program.text())))
        return run(program, {**options, "on_pass": on_pass})

    edge = et.to_edge_transform_and_lower(programs, partitioner=partitioners)
    with mock.patch.object(_core, "compile", compile):
        manager = edge.to_executorch()
    stages.append(("final", out.text(manager.dump())))
    stages.append(("pte", hashlib.sha256(manager.buffer).hexdigest()[:16]))
    program = et.Runtime.get().load_program(manager.buffer)
    results = [
        program.load_method(method).execute(pytree.tree_leaves(copy.deepcopy(inputs)))
        for method, inputs in sample.inputs.items()
    ]
    stages.append(("outputs", _hash_of(pytree.tree_leaves(results))))
    return stages


def _hash_of(values: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b"")
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()[:16]
