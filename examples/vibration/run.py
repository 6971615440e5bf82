"""Anomalies of a bearing on a microcontroller: an autoencoder that saw healthy vibration only.

    python examples/vibration/run.py [--target cortex-m4]

The vibration is synthesised (bearing.py). Trains, quantizes, writes firmware, runs front end and network there on test
windows of health and of four faults, holds every integer against this machine's, and tells the ROC AUC.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import bearing
from application import BUILD, UNIT, Network, Program, cached, front_end, keep, lower, on_linux, say, seed, train

BANDS = 40
#: As main.cpp writes a result.
RESULT = np.dtype([("features", np.int8, BANDS), ("outputs", np.int8, BANDS), ("score", "<u4")])


def features(samples: np.ndarray) -> np.ndarray:
    """The device's own front end: int16 [windows, 4096] to int8 [windows, 40]."""
    library = front_end("vibration", [HERE / "features.cpp"])
    result = np.empty((len(samples), BANDS), np.int8)
    samples = np.ascontiguousarray(samples)
    library.window_features(samples.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(samples)),
                            result.ctypes.data_as(ctypes.c_void_p))  # fmt: skip
    return result


def data() -> dict[str, np.ndarray]:
    """Windows of health to train on and to choose a threshold by; of health and of each fault to test on."""
    made = {"train": bearing.windows(1, 1200), "threshold": bearing.windows(2, 200), "healthy": bearing.windows(3, 160)}
    return made | {name: bearing.windows(10 + i, 40, name) for i, name in enumerate(bearing.FAULTS)}


def autoencoder() -> torch.nn.Module:
    """40 levels through a waist of 6 numbers, and back."""
    sizes = (BANDS, 32, 6, 32)
    layers = [m for a, b in pairwise(sizes) for m in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(32, BANDS))


def area(healthy: np.ndarray, faulty: np.ndarray) -> float:
    """ROC AUC: how often a faulty window scores above a healthy one; ties count half."""
    above = (faulty[:, None] > healthy[None]).mean() + 0.5 * (faulty[:, None] == healthy[None]).mean()
    return float(above)


def results_here(network: Network, samples: np.ndarray) -> np.ndarray:
    """What main.cpp computes, on this machine."""
    result = np.zeros(len(samples), RESULT)
    result["features"] = features(samples)
    result["outputs"] = network(result["features"])
    scale, zero = round(network.output_scale / UNIT * 65536), int(network.output_zero)
    difference = result["features"].astype(np.int64) * 65536 - (result["outputs"].astype(np.int64) - zero) * scale
    whole = np.abs(difference) // 256  # as in C++, towards zero; the sign is squared away
    result["score"] = (whole * whole).sum(1) >> 8
    return result


def report(results: dict[str, np.ndarray], threshold: float) -> str:
    """AUC of each fault and of all, and what a threshold finds."""
    healthy = results["healthy"]["score"]
    faults = {name: results[name]["score"] for name in bearing.FAULTS}
    lines = [f"  {name:<12} ROC AUC {area(healthy, score):.3f}, found {(score > threshold).mean():5.1%}"
             for name, score in (*faults.items(), ("all faults", np.concatenate(list(faults.values()))))]  # fmt: skip
    return "\n".join([*lines, f"  {'healthy':<12} false alarms {(healthy > threshold).mean():5.1%}"])


def make(epochs: int = 60) -> tuple[Network, dict[str, np.ndarray]]:
    """Trains and lowers; the network with all windows."""
    seed()
    windows = cached("vibration-2", data)
    given = features(windows["train"])
    x = torch.from_numpy(given.astype(np.float32)) * UNIT
    model = train(autoencoder(), x, x, torch.nn.functional.mse_loss, epochs)
    return lower("vibration", model, given[:300], (1, BANDS)), windows


def watched_on_linux(samples: bytes, scores: np.ndarray, threshold: int) -> dict[str, Any]:
    """The C++ and the Python program on the same windows: whether their scores are `scores`, and what they say last."""
    path = BUILD / "vibration" / "samples.raw"
    path.write_bytes(samples)
    commands: dict[str, list[object]] = {"Python": [sys.executable, HERE / "watch.py", path]}
    if program := Program.build("vibration", "host", [HERE / "linux.cpp", HERE / "features.cpp"]):
        commands[f"C++, static, {program.path.stat().st_size:,} bytes"] = [program.path, threshold, path]
    return on_linux("scores", commands, lambda lines: [int(line.split()[2]) for line in lines] == scores.tolist())


def main(arguments: list[str] | None = None) -> int:
    """Everything; 0 when the target's integers are this machine's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", help="of etpy firmware; may be repeated (default: cortex-m4)")
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args(arguments)

    network, windows = make(options.epochs)
    threshold = float(np.quantile(results_here(network, windows["threshold"])["score"], 0.99))
    names = ["healthy", *bearing.FAULTS]
    here = {name: results_here(network, windows[name]) for name in names}
    say(
        f"int8, this machine; threshold {threshold:.0f} passes 99 % of other healthy windows\n{report(here, threshold)}"
    )
    figures: dict[str, Any] = {"threshold": threshold, "targets": {}} | {
        f"auc {name}": area(here["healthy"]["score"], here[name]["score"]) for name in bearing.FAULTS
    }
    keep("vibration", figures)
    samples = np.concatenate([windows[name] for name in names]).tobytes()
    for target in options.target or ["cortex-m4"]:
        program = Program.build("vibration", target, [HERE / "main.cpp", HERE / "features.cpp"])
        if program is None:
            continue
        written, said = program.run(samples)
        ends = np.cumsum([len(windows[name]) for name in names])[:-1]
        there = dict(zip(names, np.split(np.frombuffer(written, RESULT), ends), strict=True))
        equal = all(np.array_equal(there[name], here[name]) for name in names)
        figures["targets"][target] = {"equal": equal, "said": said}
        say(f"int8, {program}: features, outputs and scores {'equal bit for bit' if equal else 'DIFFER'}; {said}\n"
            f"{report(there, threshold)}\n{program.report}")  # fmt: skip
    figures["linux"] = watched_on_linux(
        samples, np.concatenate([here[name]["score"] for name in names]), int(threshold)
    )
    keep("vibration", figures)
    parts = [*figures["targets"].values(), *figures["linux"].values()]
    return 0 if all(one["equal"] for one in parts) else 1


if __name__ == "__main__":
    sys.exit(main())
