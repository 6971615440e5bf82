"""Quantizing takes a time in proportion to the layers: counted calls, and how often a graph's code is written."""

import sys

import pytest
import torch
from torch import fx, nn

from executorch_py import quantizer

PRESETS = ("static_int8", "dynamic_int8", "dynamic_int4", "int8_weight_only", "int4_weight_only", "fp16")
X = torch.randn(2, 32)


def layers(count: int) -> torch.export.ExportedProgram:
    parts = [part for _ in range(count) for part in (nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU())]
    return torch.export.export(nn.Sequential(*parts).eval(), (X,))


def calls(work) -> int:
    """Functions of Python and C that ``work`` calls."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def quantize(program: torch.export.ExportedProgram, preset: str) -> None:
    quantizer.quantize(program, (), preset, [X] if preset == "static_int8" else None)


@pytest.mark.parametrize("preset", PRESETS)
def test_work_grows_with_the_layers(preset: str):
    """Four times the layers are four times the calls; with a part that grows with their square they were six and
    more.
    """
    quantize(layers(1), preset)
    few, many = layers(8), layers(32)
    assert calls(lambda: quantize(many, preset)) < 4.4 * calls(lambda: quantize(few, preset))


def test_code_of_graphs_is_written_where_it_runs(monkeypatch: pytest.MonkeyPatch):
    """Once for the calibration and once for the program; each takes a tenth."""
    program, written = layers(4), []
    original = fx.GraphModule.recompile
    monkeypatch.setattr(fx.GraphModule, "recompile", lambda self: written.append(self) or original(self))
    quantize(program, "static_int8")
    assert len(written) == 2
