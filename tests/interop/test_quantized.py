"""Quantized programs without a delegate, both ways: q/dq nodes of the official quantizer as published operators.

The same nodes in the file of the official exporter and in ours (``compatible=True``), each run by both runtimes, and as
integer operators in ours. Results may differ from eager by one step of the output where a sum falls on the other side
of a rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.ao.quantization.fx._decomposed

import executorch_py as et
from executorch_py.exir import ExecutorchBackendConfig

from .test_xnnpack import QUANTIZED, quantizable

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]


def _ours(exported: torch.export.ExportedProgram, *, compatible: bool) -> et.ExecutorchProgramManager:
    return et.to_edge_transform_and_lower(exported).to_executorch(ExecutorchBackendConfig(compatible=compatible))


def _runs(path: Path, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return et.Runtime.get().load_program(path).load_method("forward").execute(inputs)


@pytest.fixture(scope="module")
def exchanged(
    tmp_path_factory: pytest.TempPathFactory, peer: Callable[[str, Path], None], chosen: Callable[[str], set[str]]
) -> tuple[Path, Path]:
    """Two folders: files of the official exporter; ours with the official runtime's outputs."""
    theirs, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")
    names = chosen("test_files_go_both_ways")
    for name, (module, inputs) in quantizable().items():
        if name not in names:
            continue
        torch.export.save(torch.export.export(module, inputs), theirs / f"{name}.float")
        for folder in (theirs, ours):
            torch.save([list(inputs)], folder / f"{name}.inputs.pt")
    peer("quantize", theirs)
    for name in sorted(names):
        exported = torch.export.load(theirs / f"{name}.pt2")
        _ours(exported, compatible=True).save(ours / f"{name}.pte")
    peer("lower", theirs)
    peer("run", ours)
    return theirs, ours


@pytest.mark.parametrize("name", QUANTIZED)
def test_files_go_both_ways(name: str, exchanged: tuple[Path, Path]) -> None:
    theirs, ours = exchanged
    for folder in exchanged:
        error = folder / f"{name}.error"
        assert not error.exists(), error.read_text()
    inputs = torch.load(ours / f"{name}.inputs.pt")[0]
    eager = torch.load(theirs / f"{name}.eager.pt")
    integers = _ours(torch.export.load(theirs / f"{name}.pt2"), compatible=False)
    assert "aten::linear" not in integers.dump().split("method @forward")[1]
    loaded = et.Runtime.get().load_program(integers.buffer).load_method("forward")
    results = {
        "their file, our runtime": _runs(theirs / f"{name}.pte", inputs),
        "our file, their runtime": torch.load(ours / f"{name}.outputs.pt")[0],
        "our file, our runtime": _runs(ours / f"{name}.pte", inputs),
        "our integer operators": loaded.execute(inputs),
    }
    for what, outputs in results.items():
        for output, expected in zip(outputs, eager, strict=True):
            assert (output - expected).abs().max() <= 0.02 * expected.abs().max(), what
