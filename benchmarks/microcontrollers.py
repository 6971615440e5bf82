"""Firmware of five networks on three cores, beside the peers' figures: docs/reference/microcontroller_figures.md.

    python -m benchmarks.microcontrollers                     # measures all rows of the page: minutes
    python -m benchmarks.microcontrollers ds_cnn cortex-m55   # one of them

For: the table that a firmware engineer compares. Not for: budgets, which tests/targets holds. Instructions are counted
in QEMU; they are no cycles, and nothing here measures energy.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import write_firmware
from executorch_py.firmware.build import build, image_of
from executorch_py.firmware.project import Project
from tests.models.zoo import autoencoder, ds_cnn, settle

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "microcontroller_figures.md"
TARGETS = ("cortex-m55", "cortex-m4", "cortex-m3")


class MobileNetV1(nn.Module):
    """MobileNetV1: depthwise-separable blocks; `width` scales the channels."""

    def __init__(self, width: float = 0.25, classes: int = 2) -> None:
        super().__init__()
        before = int(32 * width)
        layers = [nn.Conv2d(3, before, 3, stride=2, padding=1), nn.BatchNorm2d(before), nn.ReLU6()]
        rest = [(512, 1)] * 5
        for channels, stride in [
            (64, 1),
            (128, 2),
            (128, 1),
            (256, 2),
            (256, 1),
            (512, 2),
            *rest,
            (1024, 2),
            (1024, 1),
        ]:
            after = int(channels * width)
            layers += [nn.Conv2d(before, before, 3, stride, 1, groups=before), nn.BatchNorm2d(before), nn.ReLU6()]
            layers += [nn.Conv2d(before, after, 1), nn.BatchNorm2d(after), nn.ReLU6()]
            before = after
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(before, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """``image`` is [1, rows, columns, 3], as a camera gives it."""
        return self.classifier(self.features(image.permute(0, 3, 1, 2)).flatten(1))


class Recurrent(nn.Module):
    """A gesture from 16 readings of ten sensors: one LSTM or GRU layer and a classifier over its last state."""

    def __init__(self, layer: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.recurrent = layer(10, 32, batch_first=True)
        self.classifier = nn.Linear(32, 4)

    def forward(self, readings: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.recurrent(readings)[0][:, -1])


Network = tuple[nn.Module, tuple[int, ...]]  # a module and the shape of its input


def _of_zoo(make: Callable[[], dict]) -> Network:
    method = make()["forward"]
    return method.module, tuple(method.inputs[0].shape)


def _mobilenet() -> Network:
    torch.manual_seed(0)
    return settle(MobileNetV1()), (1, 96, 96, 3)


def _recurrent(layer: type[nn.LSTM | nn.GRU]) -> Network:
    torch.manual_seed(0)
    return Recurrent(layer).eval(), (1, 16, 10)


#: Name -> what makes it.
NETWORKS: dict[str, Callable[[], Network]] = {
    "ds_cnn": lambda: _of_zoo(ds_cnn),
    "autoencoder": lambda: _of_zoo(autoencoder),
    "mobilenet": _mobilenet,
    "lstm": lambda: _recurrent(nn.LSTM),
    "gru": lambda: _recurrent(nn.GRU),
}


def lowered(name: str) -> bytes:
    """The int8 file of a network for firmware, with int8 at both ends."""
    module, shape = NETWORKS[name]()
    torch.manual_seed(0)
    samples = [torch.randn(shape) for _ in range(4)]
    quantized = quantizer.quantize(module.eval(), (samples[0],), "static_int8", samples)
    config = et.ExecutorchBackendConfig(
        quantized_io=True, memory_planning_pass=et.MemoryPlanningPass(overlap_inputs=True)
    )
    return bytes(et.to_edge_transform_and_lower(quantized).to_executorch(config).buffer)


@dataclass(frozen=True)
class Row:
    """A network on a target: bytes, and millions of instructions.

    ``trusting`` is the flash of an image that leaves the verifier to a checksum of its model.
    """

    network: str
    target: str
    model: int
    text: int
    rodata: int
    data: int
    bss: int
    arena: int
    stack: int
    trusting: int
    millions: float

    @property
    def flash(self) -> int:
        """Bytes beside the model."""
        return self.text + self.rodata + self.data

    @property
    def ram(self) -> int:
        """Bytes with the stack."""
        return self.data + self.bss + self.stack

    def cells(self) -> list[str]:
        """As the page has them."""
        sizes = (self.model, self.text, self.rodata, self.data, self.bss, self.arena, self.stack, self.trusting)
        return [self.network, self.target, *(f"{size:,}" for size in sizes), f"{self.millions:.3f}"]

    @classmethod
    def of_line(cls, line: str) -> Row:
        """What a line of the page says."""
        network, target, *numbers = (cell.strip().replace(",", "") for cell in line.strip().strip("|").split("|"))
        return cls(network, target, *map(int, numbers[:-1]), float(numbers[-1]))


#: Of baselines measured on the same machine and networks: flash without the model, RAM with stack, and millions of
#: instructions, for TARGETS in order. CMSIS-NN 99f736a6, TFLM 90b983c2b, gcc 12.2.1.
PEERS = {
    ("ds_cnn", "CMSIS-NN called directly"): ((15_900, 21_352, 1.807), (19_700, 17_100, 7.691), (14_100, None, 10.53)),
    ("ds_cnn", "TFLM with CMSIS-NN"): ((36_800, 28_256, 1.811), (46_200, 23_640, 7.695), (39_800, None, 10.53)),
    ("ds_cnn", "TFLM, its reference kernels"): ((31_800, 23_508, 41.9), (34_200, 23_508, 43.0), (35_500, 23_508, 42.0)),
    ("autoencoder", "CMSIS-NN called directly"): ((None, None, 0.153), (None, None, 0.593), (None, None, 0.964)),
    ("autoencoder", "TFLM with CMSIS-NN"): ((None, None, 0.291), (None, None, 0.596), (None, None, 0.966)),
    ("autoencoder", "TFLM, its reference kernels"): ((None, None, 1.43), (None, None, 1.69), (None, None, 1.69)),
}

_HEAD = """# Firmware figures

Written by `make mcu-table` (`python -m benchmarks.microcontrollers`): int8 networks with int8 at both ends and random
weights, as projects of `etpy firmware` that the emulator ran. Their outputs are those of the host, bit for bit.

- Instructions are millions an inference, counted by QEMU (`-icount shift=5`). They are no cycles. Nothing here measures
  energy.
- DS-CNN and the autoencoder are those of MLPerf Tiny. The MobileNetV1 has a quarter of the channels and takes 96x96
  pixels as a camera gives them, channels innermost. The LSTM and the GRU have 32 units and read 16 steps
  of 10 numbers.
- M55 uses MVE, M4 the DSP instructions, M3 has neither. All images are compiled by gcc 12.2 with -Os, their integer
  kernels with -O2.

## What an image takes

Bytes. `model`, `text`, `rodata` and the values of `data` stand in flash. `data` and `bss` stand in RAM; of `bss`, the
`arena` holds activations, and the rest is the pools and the program's own. `stack` is what an inference takes.
`trusting` is text, rodata and data of the same project with `-DEXECUTORCH_VERIFIER=OFF`: the build and each start
compare a checksum of the model, and nothing verifies its tables.

"""
_PEERS_HEAD = """
## Beside the peers

`flash` is text, rodata and data without the model. `RAM` is data, bss and stack. A hyphen: not measured. `times ours`
compares instructions. CMSIS-NN has no file to verify. The peers ran DS-CNN and the autoencoder only, in the same
emulator; their weights are random, too, and their outputs within two steps of ours.

"""


def measured(name: str, target: str, folder: Path) -> Row:
    """Builds and runs a network. RuntimeError: outputs differ from the host's, or tools are missing."""
    report = write_firmware(lowered(name), folder, target)
    if report.run is None or report.image is None or not report.run.matches:
        raise RuntimeError(f"{name} on {target}: {report}")
    image, run = report.image, report.run
    elf = build(Project(folder, report.target), ["-DEXECUTORCH_VERIFIER=OFF"], "build-trusting")
    return Row(
        name, target, report.model_bytes, image.text, image.rodata, image.initialised, image.bss,
        sum(report.pools.arenas), run.stack, image_of(elf, report.target).code, round(run.instructions / 1e6, 3),
    )  # fmt: skip


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]) + "\n"


def page(rows: Sequence[Row]) -> str:
    """The page with these rows and the peers' figures."""
    head = ["network", "target", "model", "text", "rodata", "data", "bss", "arena", "stack", "trusting", "instructions"]
    compared = []
    for row in rows:
        peers = [(name, found[TARGETS.index(row.target)]) for (of, name), found in PEERS.items() if of == row.network]
        ours = [
            ("executorch_py", (row.flash, row.ram, row.millions)),
            ("executorch_py, trusting", (row.trusting, None, None)),
        ]
        for name, cells in [*ours, *peers] if peers else []:
            times = None if cells[2] is None else cells[2] / row.millions
            compared.append(
                [row.network, row.target, name, *map(_cell, cells), "-" if times is None else f"{times:.2f}"]
            )
    columns = ["network", "target", "what", "flash", "RAM", "instructions", "times ours"]
    return _HEAD + _lines(head, (row.cells() for row in rows)) + _PEERS_HEAD + _lines(columns, compared)


def _cell(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:,}" if isinstance(figure, int) else f"{figure:.3f}"


def rows_of(text: str) -> list[Row]:
    """The rows of a page."""
    return [
        Row.of_line(line) for line in re.findall(r"^\| \w+ \| cortex-m\d+ \| (?:[\d,]+ \| ){8}[\d.]+ \|$", text, re.M)
    ]


def main() -> None:
    """Measures the rows that are asked for, or all, and brings the page to them; its other rows stay."""
    parser = argparse.ArgumentParser(description="Firmware of five networks, measured in the emulator.")
    parser.add_argument("network", nargs="?", choices=list(NETWORKS))
    parser.add_argument("target", nargs="?", choices=TARGETS)
    arguments = parser.parse_args()
    rows = (
        {(row.network, row.target): row for row in rows_of(PAGE.read_text(encoding="utf-8"))} if PAGE.exists() else {}
    )
    with tempfile.TemporaryDirectory() as folder:
        for network in [arguments.network] if arguments.network else NETWORKS:
            for target in [arguments.target] if arguments.target else TARGETS:
                row = rows[network, target] = measured(network, target, Path(folder) / f"{network}-{target}")
                print("| " + " | ".join(row.cells()) + " |", flush=True)
                PAGE.write_text(
                    page([rows[key] for key in product(NETWORKS, TARGETS) if key in rows]), encoding="utf-8"
                )


if __name__ == "__main__":
    main()
