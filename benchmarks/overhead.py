"""What the framework itself costs: an instruction with the smallest kernel, a call from Python, and the first
inference.

    python -m benchmarks.overhead [--peer PYTHON] [--rounds N] [--only instruction|first]

An instruction's cost is the slope between chains of 10 and 1,010 additions of one element, a call's what is left of the
shorter chain. With --peer (the interpreter of an environment that has executorch==1.5.1) the same files, written in the
published vocabulary, are timed in that runtime in between.

The first inference is that of MobileNetV2, in a fresh process each time: loading the file (verification, packed
weights) and the first call, less a later call. The file is in the system's cache. Aim: under 5 ms with one thread and
with two. Processor time is what to look at with one thread on a busy machine; with two it contains the workers' active
waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import executorch_py as et

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.models.zoo import ZOO

SHORT, LONG = 10, 1010
_PEER = """
import json, sys, time, torch
from executorch.runtime import Runtime
result = {}
for name in sys.argv[1:]:
    method = Runtime.get().load_program(name).load_method("forward")
    x = (torch.zeros(1),)
    for _ in range(50): method.execute(x)
    times = []
    for _ in range(400):
        start = time.perf_counter(); method.execute(x); times.append(time.perf_counter() - start)
    result[name] = sorted(times)[len(times) // 2]
print(json.dumps(result))
"""
_FIRST = """
import json, sys, time
import numpy
import executorch_py as et
runtime = et.Runtime.get()
et.set_num_threads(int(sys.argv[2]))
inputs = (numpy.ones((1, 3, 224, 224), numpy.float32),)
clocks = (time.perf_counter, time.process_time)
times = [[clock() for clock in clocks]]
program = runtime.load_program(sys.argv[1])
times.append([clock() for clock in clocks])
method = program.load_method("forward")
times.append([clock() for clock in clocks])
for _ in range(21):
    method.execute(inputs)
    times.append([clock() for clock in clocks])
wall, processor = ([1e3 * (end[i] - start[i]) for start, end in zip(times, times[1:])] for i in (0, 1))
beyond = [sum(spans[:3]) - sorted(spans[3:])[10] for spans in (wall, processor)]
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
print(json.dumps({"load": sum(wall[:2]), "first": wall[2], "later": sorted(wall[3:])[10], "beyond": beyond[0],
                  "processor": beyond[1], "peak": int(peak) / 1024}))
"""


class Chain(torch.nn.Module):
    """`length` additions that no pass can merge: each adds what the one before gave to the input."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for _ in range(self.length):
            y = y + x
        return y


def write_chain(length: int, path: Path) -> None:
    exported = torch.export.export(Chain(length), (torch.zeros(1),))
    et.to_edge(exported).to_executorch(et.ExecutorchBackendConfig(compatible=True)).save(path)


def median_call(path: Path, repeats: int = 400) -> float:
    """Median seconds of one call of the file from Python."""
    method = et.Runtime.get().load_program(path).load_method("forward")
    inputs = (torch.zeros(1),)
    for _ in range(50):
        method.execute(inputs)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        method.execute(inputs)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def child(python: str | Path, program: str, *arguments: str | Path) -> dict[str, float]:
    """What a program that prints JSON says, in a process of its own, where numpy's BLAS has no thread.

    That one would wait actively for some 20 ms after the import, on a processor that two threads of ours are to have.
    """
    command = [python, "-c", program, *arguments]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return json.loads(output.splitlines()[-1])


def measure_instruction(folder: Path, rounds: int, peer_python: Path | None) -> None:
    et.set_num_threads(1)
    paths = {n: folder / f"chain{n}.pte" for n in (SHORT, LONG)}
    for length, path in paths.items():
        write_chain(length, path)
    ours: dict[int, list[float]] = {n: [] for n in paths}
    peer: dict[int, list[float]] = {n: [] for n in paths}
    for _ in range(rounds):
        for n, path in paths.items():
            ours[n].append(median_call(path))
        if peer_python:
            times = child(peer_python, _PEER, *paths.values())
            for n, path in paths.items():
                peer[n].append(times[str(path)])
    print(f"{'':<18}{'an instruction':>16}{'a call':>12}")
    for name, samples in (("executorch_py", ours), ("executorch 1.5.1", peer)):
        if samples[SHORT]:
            low, high = (statistics.median(samples[n]) for n in (SHORT, LONG))
            slope = (high - low) / (LONG - SHORT)
            print(f"{name:<18}{slope * 1e6:>13.4f} µs{(low - SHORT * slope) * 1e6:>9.2f} µs")


def measure_first(folder: Path, rounds: int) -> None:
    path = folder / "mobilenet_v2.pte"
    et.to_edge_transform_and_lower(ZOO["mobilenet_v2"]()["forward"].export()).to_executorch().save(path)
    columns = {"load": "load", "first": "first call", "later": "later call", "beyond": "load + first - later",
               "processor": "of which processor", "peak": "peak MB"}  # fmt: skip
    samples: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads, rows in samples.items():
            rows.append(child(sys.executable, _FIRST, path, str(threads)))
    print("MobileNetV2, ms" + "".join(f"{title:>{len(title) + 3}}" for title in columns.values()))
    for threads, rows in samples.items():
        medians = (statistics.median(row[key] for row in rows) for key in columns)
        figures = (f"{figure:>{len(title) + 3}.2f}" for figure, title in zip(medians, columns.values(), strict=True))
        print(f"{threads} thread(s)    " + "".join(figures))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, help="python of an environment with executorch==1.5.1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("instruction", "first"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "first":
            measure_instruction(Path(folder), options.rounds, options.peer)
        if options.only != "instruction":
            measure_first(Path(folder), options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
