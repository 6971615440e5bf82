"""One engine in a process of its own: prepares files, and runs one model in a fresh child at a time.

    python -m benchmarks.peers.worker ENGINE

Requests come as JSON lines on stdin, answers go as JSON lines to the stream that was stdout; what the packages print
goes to stderr. The package is imported once, then each `load` forks, so that every model starts in a process without
history: its first inference and its peak of memory are its own.

    {"do": "prepare", "exported": PATH, "inputs": PATH, "precision": P, "out": PATH}   -> {"seconds": s, "bytes": n}
    {"do": "prepare", "jobs": [{"exported": …}, …]}                                    -> {"jobs": [an answer each]}
    {"do": "load", "file": PATH, "inputs": PATH, "expected": PATH, "threads": n,
     "clock": "wall" or "processor"}                                             -> {"load_ms": …, "first_ms": …,
                                                                                           "error": largest_error}
    {"do": "block", "ms": n}                                                           -> {"ms": mean of a call}
    {"do": "unload"}                                                                   -> {"peak_bytes": …}

An answer with "failed" says why the engine cannot do it.
Processor time is that of all threads of the process.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from benchmarks.peers.engines import ENGINES, Call, Engine, quiet


def status_bytes(field: str) -> int:
    """A field of the process's status, in bytes (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def settle_memory(nbytes: int = 512 << 20) -> None:
    """Touches memory and gives it back, small pages and huge ones. No load then pays for pages of a virtual machine
    which its host has not filled yet: that took 100 ms for a model of 90 MB, whoever came first.
    """
    for advice in (None, mmap.MADV_HUGEPAGE):
        with mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            if advice is not None:
                memory.madvise(advice)
            for page in range(0, nbytes, mmap.PAGESIZE):
                memory[page] = 1


def largest_error(outputs: Any, expected: list[np.ndarray]) -> float:
    """The worst of max |output - expected| / max |expected| over the outputs.

    In numpy: computed by torch it would count the pages of torch's code among the memory of an engine that uses none of
    them.
    """
    worst = 0.0
    for output, reference in zip(outputs, expected, strict=True):
        difference = float(np.abs(np.asarray(output, np.float64) - reference).max())
        worst = max(worst, difference / max(float(np.abs(reference).max()), 1e-12))
    return worst


class Session:
    """One model in the forked child."""

    def __init__(self, engine: Engine, request: dict[str, Any]) -> None:
        self.inputs = tuple(torch.load(request["inputs"]))
        expected = [np.asarray(tensor, np.float64) for tensor in torch.load(request["expected"])]
        largest_error(expected, expected)  # its pages are nobody's
        engine.enter(request["threads"])
        if request.get("settle", True):
            settle_memory()
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        self.before = status_bytes("VmRSS")
        self.clock = {"wall": time.perf_counter, "processor": time.process_time}[request["clock"]]
        start = self.clock()
        self.call: Call = engine.load(Path(request["file"]), self.inputs, request["threads"])
        loaded = self.clock()
        outputs = self.call()
        first = self.clock()
        self.answer = {
            "load_ms": (loaded - start) * 1e3,
            "first_ms": (first - loaded) * 1e3,
            "error": largest_error(outputs, expected),
        }
        self.calls = 0

    def block(self, ms: float) -> dict[str, Any]:
        """Mean milliseconds of a call over a block of about `ms`."""
        if not self.calls:
            for _ in range(3):
                self.call()
            start = self.clock()
            for _ in range(3):
                self.call()
            self.calls = max(1, int(ms / 1e3 / ((self.clock() - start) / 3)))
        self.call()
        start = self.clock()
        for _ in range(self.calls):
            self.call()
        return {"ms": (self.clock() - start) * 1e3 / self.calls}

    def close(self) -> dict[str, Any]:
        return {"peak_bytes": max(0, status_bytes("VmHWM") - self.before)}


def failure(problem: BaseException) -> dict[str, str]:
    text = str(problem).strip().splitlines()
    return {"failed": f"{type(problem).__name__}: {text[0][:300] if text else ''}"}


def serve_session(engine: Engine, request: dict[str, Any], requests: TextIO, answers: TextIO) -> None:
    """The child: loads, then answers until it is told to unload."""
    try:
        session = Session(engine, request)
    except Exception as problem:  # whatever a package raises is a result of the comparison
        _send(answers, failure(problem))
        return
    _send(answers, session.answer)
    gc.disable()
    for line in requests:
        request = json.loads(line)
        if request["do"] == "unload":
            _send(answers, session.close())
            return
        _send(answers, session.block(request["ms"]))


def _send(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def prepare(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    """Writes the engine's file of a model."""
    out = Path(request["out"])
    start = time.perf_counter()
    try:
        engine.prepare(Path(request["exported"]), tuple(torch.load(request["inputs"])), request["precision"], out)
    except Exception as problem:  # as above
        return failure(problem)
    size = sum(path.stat().st_size for path in out.parent.glob(out.stem + ".*") if path.suffix in (out.suffix, ".bin"))
    return {"seconds": time.perf_counter() - start, "bytes": size}


def main(name: str) -> int:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    quiet()
    engine = ENGINES[name]()
    engine.start()
    _send(answers, {"ready": True})
    while line := sys.stdin.readline():
        request = json.loads(line)
        # A child for each: neither a preparation nor a loaded model leaves anything behind in the parent.
        child = os.fork()
        if child == 0:
            if "jobs" in request:
                _send(answers, {"jobs": [prepare(engine, job) for job in request["jobs"]]})
            elif request["do"] == "prepare":
                _send(answers, prepare(engine, request))
            else:
                serve_session(engine, request, sys.stdin, answers)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            _send(answers, {"failed": f"the process ended by status {status}"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
