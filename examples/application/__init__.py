"""What the applications of examples/ share: train, quantize, lower, write firmware, run it on samples, compare.

For: `examples/<name>/run.py`. Not for: a framework; a product takes the steps that it needs from here.

A front end gives integers of 8 bits, in training and on the device the same ones. The network takes `UNIT` times them.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import TARGETS, FirmwareReport, write_firmware
from executorch_py.firmware.build import missing_tools

__all__ = [
    "BUILD",
    "UNIT",
    "Network",
    "Program",
    "block",
    "cached",
    "checked",
    "front_end",
    "keep",
    "lower",
    "on_linux",
    "percent",
    "say",
    "seed",
    "train",
]

HERE = Path(__file__).resolve().parent
#: Models, projects and programs.
BUILD = Path(os.environ.get("ET_EXAMPLES_BUILD", HERE.parents[1] / "build" / "examples"))
#: What one step of a front end is for the network.
UNIT = 1 / 32


def say(text: str) -> None:
    """Prints at once."""
    print(text, flush=True)


def block(inputs: int, outputs: int, stride: int = 1) -> list[torch.nn.Module]:
    """A depthwise and a pointwise convolution."""
    return [
        torch.nn.Conv2d(inputs, inputs, 3, stride=stride, padding=1, groups=inputs), torch.nn.BatchNorm2d(inputs),
        torch.nn.ReLU(), torch.nn.Conv2d(inputs, outputs, 1), torch.nn.BatchNorm2d(outputs), torch.nn.ReLU(),
    ]  # fmt: skip


def percent(share: float) -> str:
    """A share in the form of all reports."""
    return f"{100 * share:.1f} %"


def keep(name: str, figures: dict[str, Any]) -> None:
    """Writes what a run measured to BUILD/name/figures.json."""
    (BUILD / name / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")


def seed(value: int = 0) -> None:
    """Fixes every source of random numbers."""
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def cached(name: str, make: Callable[[], dict[str, np.ndarray[Any, Any]]]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays that are made once and kept in the cache of third-party sources (ET_CACHE)."""
    base = (
        os.environ.get("ET_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "executorch_py"
    )
    path = Path(base) / "examples" / f"{name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.npz")
        np.savez_compressed(partial, **make())
        partial.replace(path)
    with np.load(path) as arrays:
        return dict(arrays)


def train(
    model: torch.nn.Module,
    inputs: torch.Tensor,
    wanted: torch.Tensor,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    epochs: int,
    *,
    rate: float = 3e-3,
    batch: int = 64,
    augment: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
) -> torch.nn.Module:
    """Trains with AdamW and one cycle of learning rates, in one thread: the same weights on any number of cores."""
    torch.set_num_threads(1)
    start = time.process_time()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-3)
    steps = epochs * ((len(inputs) + batch - 1) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(batch):
            optimizer.zero_grad()
            result = loss(model(augment(inputs[rows])), wanted[rows])
            result.backward()
            optimizer.step()
            schedule.step()
    seconds = time.process_time() - start
    say(f"trained on {len(inputs):,} samples, {epochs} epochs, {seconds:.0f} s of processor: loss {result.item():.4f}")
    return model.eval()


class Network:
    """The int8 program on this machine, with a front end's integers as its input."""

    def __init__(self, path: Path) -> None:
        """Loads what `lower` wrote."""
        program = et.Runtime.get().load_program(str(path))
        self._forward = program.load_method("forward")
        self.sizes = tuple(self._forward.metadata.input_tensor_meta(0).sizes())
        scale, zero, low, high = program.load_method("forward.input.0").execute([])
        self.output_scale, self.output_zero, _, _ = program.load_method("forward.output.0").execute([])
        front_end = np.arange(-128, 128) * (UNIT / scale)
        #: The network's integer for each one of the front end.
        self.steps = np.clip(np.rint(front_end) + zero, low, high).astype(np.int8)

    def __call__(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Integers out for integers in: int8 [samples, …] to int8 [samples, outputs]."""
        given = self.steps[values.astype(np.int16) + 128].reshape(len(values), *self.sizes)
        return np.stack([np.array(self._forward.execute([row])[0]).reshape(-1) for row in given])

    def parameters(self) -> str:
        """parameters.h: the same for C++."""
        return (
            "// Written by examples/application: what the network takes and gives.\n#pragma once\n\n"
            "#include <cstddef>\n#include <cstdint>\n\nnamespace application {\n\n"
            f"inline constexpr size_t kNumInputs = {int(np.prod(self.sizes))};\n"
            f"inline constexpr int8_t kSteps[256] = {{{', '.join(map(str, self.steps))}}};\n"
            "/// An output stands for (value - kOutputZero) * kOutputScale / 65536 steps of the front end.\n"
            f"inline constexpr int32_t kOutputZero = {int(self.output_zero)};\n"
            f"inline constexpr int32_t kOutputScale = {round(self.output_scale / UNIT * 65536)};\n"
            "\n}  // namespace application\n"
        )


def lower(
    name: str, model: torch.nn.Module, values: np.ndarray[Any, Any], shape: Sequence[int], *, for_linux: bool = False
) -> Network:
    """Quantizes on calibration values, says layer by layer what that costs, and writes BUILD/name/model.pte.

    Args:
        name: The application.
        model: In float, in eval mode.
        values: A front end's integers, int8 [samples, …].
        shape: Of one input, with a batch of 1.
        for_linux: Write linux.pte beside it, for the XNNPACK delegate.
    """
    rows = np.ascontiguousarray(values, np.float32).reshape(-1, *shape)
    samples = [(torch.from_numpy(row) * UNIT,) for row in rows]
    exported = torch.export.export(model, samples[0])
    quantized = quantizer.quantize(exported, samples[0], "static_int8", samples)
    say(str(et.quantization_report(exported, quantized, samples[:32])))
    config = et.ExecutorchBackendConfig(quantized_io=True)
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    et.to_edge_transform_and_lower(quantized).to_executorch(config).save(folder / "model.pte")
    if for_linux:
        edge = et.to_edge_transform_and_lower(quantized, partitioner=[XnnpackPartitioner()])
        edge.to_executorch(config).save(folder / "linux.pte")
    network = Network(folder / "model.pte")
    (folder / "parameters.h").write_text(network.parameters())
    return network


def checked(command: Sequence[object], folder: Path) -> str:
    """Runs a command in a folder; what it printed, or an error with it."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    said = done.stdout + done.stderr  # semihosting writes to the latter
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said[-3000:]}")
    return said


def on_linux(
    what: str, commands: Mapping[str, Sequence[object]], equal: Callable[[list[str]], bool]
) -> dict[str, dict[str, Any]]:
    """Runs programs by their names; of each, whether the lines that it printed are equal, and the last one."""
    told: dict[str, dict[str, Any]] = {}
    for name, command in commands.items():
        *lines, last = checked(command, BUILD).splitlines()
        told[name] = {"equal": equal(lines), "said": last}
        say(f"Linux, {name}: {what} {'equal bit for bit' if told[name]['equal'] else 'DIFFER'}; {last}")
    return told


def front_end(name: str, sources: Sequence[Path]) -> ctypes.CDLL:
    """The C++ that the device runs in front of its network, for training: compiled when a source is newer."""
    path = BUILD / name / "front_end.so"
    sources = [HERE / "spectrum.cpp", *sources]
    headers = [header for source in sources for header in source.parent.glob("*.h")]
    if not path.exists() or path.stat().st_mtime < max(file.stat().st_mtime for file in (*sources, *headers)):
        path.parent.mkdir(parents=True, exist_ok=True)
        checked(["g++", "-std=c++17", "-O2", "-shared", "-fPIC", f"-I{HERE}", "-o", path, *sources], HERE)
    return ctypes.CDLL(str(path))


@dataclass(frozen=True)
class Program:
    """An application's program for a target."""

    path: Path
    report: FirmwareReport

    @classmethod
    def build(cls, name: str, target: str, sources: Sequence[Path]) -> Program | None:
        """Writes the firmware of BUILD/name/model.pte and builds the application beside it.

        None where the target's tools are not installed; says which.
        """
        if missing := missing_tools(TARGETS[target]):
            say(f"{target}: not built, {', '.join(missing)} is not installed (make mcu-setup, on Debian)")
            return None
        folder = BUILD / name / target
        report = write_firmware(BUILD / name / "model.pte", folder / "firmware", target)
        configure = [
            "cmake", "-S", HERE, "-B", folder / "build", "-G", "Ninja", f"-DFIRMWARE={folder / 'firmware'}",
            f"-DPARAMETERS={BUILD / name}", f"-DSOURCES={';'.join(map(str, sources))}",
        ]  # fmt: skip
        checked(configure, folder)
        checked(["cmake", "--build", folder / "build"], folder)
        return cls(folder / "build" / "application", report)

    def run(self, samples: bytes) -> tuple[bytes, str]:
        """What the program writes of these samples, and what it says; in the emulator where it is for a board."""
        folder = self.path.parents[1] / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "samples.bin").write_bytes(samples)
        said = checked([*self.report.target.emulator(), self.path], folder)
        return (folder / "results.bin").read_bytes(), said.strip()

    def __str__(self) -> str:
        where = "this machine" if self.report.target.is_host else f"{self.report.target.board} (QEMU)"
        return f"{self.report.target.name}, {where}"
