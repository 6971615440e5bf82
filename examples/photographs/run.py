"""Real photographs on Linux: of which of ten photographs is a patch of 48 x 48 pixels?

    python examples/photographs/run.py

Trains on the left parts and tests on the right parts (photographs.py). Quantizes, writes a file with the XNNPACK
delegate for Python and a static C++ program, and holds the scores of both against each other.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import photographs
from application import BUILD, UNIT, Network, Program, block, checked, keep, lower, percent, say, seed, train
from photographs import NAMES, SIDE


def network() -> torch.nn.Module:
    """Like a small MobileNet: 1.6 million multiply-accumulates, 23,000 weights."""
    first = [torch.nn.Conv2d(3, 16, 3, stride=2, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()]
    middle = [*block(16, 32, 2), *block(32, 64, 2), *block(64, 96), *block(96, 96, 2)]
    return torch.nn.Sequential(
        *first, *middle, torch.nn.AvgPool2d(3), torch.nn.Flatten(), torch.nn.Linear(96, len(NAMES))
    )


def varied(x: torch.Tensor) -> torch.Tensor:
    """Mirrored, brighter, with more or less contrast."""
    x = x.flip(3) if torch.rand(()) < 0.5 else x
    x = x * (1 + 0.2 * torch.randn(len(x), 1, 1, 1)) + 0.3 * torch.randn(len(x), 3, 1, 1)
    return x.clamp(-4, 4)


def make(epochs: int = 10, each: int = 200) -> Network:
    """Trains and lowers."""
    seed()
    given, wanted = photographs.patches(False, each, 1)
    x = torch.from_numpy(given.astype(np.float32)) * UNIT
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.05)
    model = train(network(), x, torch.from_numpy(wanted), loss, epochs, rate=6e-3, augment=varied)
    return lower("photographs", model, given[:: len(given) // 100], (1, 3, SIDE, SIDE), for_linux=True)


def main(arguments: list[str] | None = None) -> int:
    """Everything; 0 when the C++ program's scores are Python's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--each", type=int, default=200, help="training patches of each photograph")
    options = parser.parse_args(arguments)

    network = make(options.epochs, options.each)
    patches, classes = photographs.patches(True, 40, 2)
    start = time.perf_counter()
    scores = Network(BUILD / "photographs" / "linux.pte")(patches)
    took = 1e3 * (time.perf_counter() - start) / len(patches)
    correct = percent((scores.argmax(1) == classes).mean())
    say(f"int8, Python with XNNPACK: {correct} of {len(patches)} test patches right, "
        f"{took:.2f} ms each")  # fmt: skip
    same = np.array_equal(scores, network(patches))
    say(f"  the delegate and our kernels: scores {'equal bit for bit' if same else 'DIFFER'}")

    figures = {"right": (scores.argmax(1) == classes).mean(), "milliseconds, Python": took}
    program = Program.build("photographs", "host", [HERE / "linux.cpp"])
    if program is None:
        keep("photographs", figures)
        return 0 if same else 1
    right = 0
    for number, name in enumerate(NAMES):
        picture = BUILD / "photographs" / f"{name}.ppm"
        pixels = photographs.parts(name)[1]
        Image.fromarray(pixels).save(picture)
        said = checked([program.path, picture], BUILD)
        there = np.array([line.split()[1] for line in said.splitlines() if line.startswith("score ")], int)
        here = Network(BUILD / "photographs" / "linux.pte")(photographs.grid(pixels)).astype(int).sum(0)
        same = same and np.array_equal(there, here)
        right += int(there.argmax()) == number
    (each,) = re.findall(r"\d+ patches, (\S+) us each", said)
    size = program.path.stat().st_size
    say(f"int8, C++, static, {size:,} bytes with its model: {right} of {len(NAMES)} test pictures "
        f"right, {float(each) / 1e3:.2f} ms a patch, scores {'equal bit for bit' if same else 'DIFFER'}")  # fmt: skip
    figures |= {"milliseconds, C++": float(each) / 1e3, "bytes": size, "pictures right": right}
    keep("photographs", figures)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
