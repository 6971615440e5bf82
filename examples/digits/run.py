"""Handwritten digits on a microcontroller: scikit-learn's 1,797 real pictures of 8 x 8 pixels.

    python examples/digits/run.py [--target cortex-m55]

Trains, quantizes, writes firmware, runs it on every test picture and holds its scores against this machine's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from application import UNIT, Network, Program, keep, lower, percent, say, seed, train


def pictures() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels as a camera's integers, int8 [pictures, 64], and digits: training and test, drawn by class."""
    digits = load_digits()
    pixels = (digits.data * 15 - 128).astype(np.int8)  # 0 to 16 as -128 to 112
    return tuple(train_test_split(pixels, digits.target, test_size=0.3, random_state=0, stratify=digits.target))


def network() -> torch.nn.Module:
    """Convolutions over 8 x 8 pixels: 10,000 weights."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
        torch.nn.Conv2d(16, 24, 3, stride=2, padding=1), torch.nn.BatchNorm2d(24), torch.nn.ReLU(),
        torch.nn.Conv2d(24, 24, 3, padding=1), torch.nn.BatchNorm2d(24), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(24 * 16, 10),
    )  # fmt: skip


def shifted(x: torch.Tensor) -> torch.Tensor:
    """The pictures, moved by up to a pixel."""
    down, right = torch.randint(-1, 2, (2,)).tolist()
    return torch.roll(x, (down, right), (2, 3))


def make(epochs: int = 12) -> tuple[Network, np.ndarray, np.ndarray]:
    """Trains and lowers; the network with the test pictures and their digits."""
    seed()
    given, test, wanted, test_wanted = pictures()
    x, test_x = (torch.from_numpy(p.astype(np.float32)).reshape(-1, 1, 8, 8) * UNIT for p in (given, test))
    model = train(network(), x, torch.from_numpy(wanted), torch.nn.functional.cross_entropy, epochs, augment=shifted)
    with torch.inference_mode():
        right = (model(test_x).argmax(1).numpy() == test_wanted).mean()
    say(f"float, {len(test)} test pictures: {percent(right)} right")
    return lower("digits", model, given[:200], (1, 1, 8, 8)), test, test_wanted


def main(arguments: list[str] | None = None) -> int:
    """Everything; 0 when the target's scores are this machine's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", help="of etpy firmware; may be repeated (default: cortex-m55)")
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args(arguments)

    here, test, wanted = make(options.epochs)
    scores = here(test)
    figures: dict[str, Any] = {"right": (scores.argmax(1) == wanted).mean(), "targets": {}}
    say(f"int8, this machine: {percent(figures['right'])} right")
    for target in options.target or ["cortex-m55"]:
        program = Program.build("digits", target, [HERE / "main.cpp"])
        if program is None:
            continue
        results, said = program.run(test.tobytes())
        there = np.frombuffer(results, np.int8).reshape(-1, 10)
        equal = np.array_equal(there, scores)
        figures["targets"][target] = {"equal": equal, "said": said}
        say(f"int8, {program}: {percent((there.argmax(1) == wanted).mean())} right, scores "
            f"{'equal bit for bit' if equal else 'DIFFER'}; {said}\n{program.report}")  # fmt: skip
    keep("digits", figures)
    return 0 if all(one["equal"] for one in figures["targets"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
