"""What the framework itself costs: an instruction beyond its kernel, a call from Python, and loading a file.

    python -m benchmarks.overhead [--peer PYTHON]

The cost of an instruction is the slope between chains of 10 and 1,010 additions of one element, minus the time the same
kernel takes alone, which the smallest chain bounds from above. With --peer (the interpreter of an environment that has
executorch==1.5.1) the same files, written in the published vocabulary, are timed in that runtime in between.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import executorch_py as et

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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, help="python of an environment with executorch==1.5.1")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    et.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = {n: Path(folder) / f"chain{n}.pte" for n in (SHORT, LONG)}
        for length, path in paths.items():
            write_chain(length, path)
        ours: dict[int, list[float]] = {n: [] for n in paths}
        peer: dict[int, list[float]] = {n: [] for n in paths}
        for _ in range(options.rounds):
            for n, path in paths.items():
                ours[n].append(median_call(path))
            if options.peer:
                command = [options.peer, "-c", _PEER, *paths.values()]
                output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                times = json.loads(output.splitlines()[-1])
                for n, path in paths.items():
                    peer[n].append(times[str(path)])
    print(f"{'':<18}{'an instruction':>16}{'a call':>12}")
    for name, samples in (("executorch_py", ours), ("executorch 1.5.1", peer)):
        if samples[SHORT]:
            low, high = (statistics.median(samples[n]) for n in (SHORT, LONG))
            slope = (high - low) / (LONG - SHORT)
            print(f"{name:<18}{slope * 1e6:>13.4f} µs{(low - SHORT * slope) * 1e6:>9.2f} µs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
