"""Whole models both ways: the zoo and some small ones, our file in the official runtime, its exporter's file in ours.

Floats within 1e-5 of the largest value, integers equal; every model is called three times, so that state shows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import executorch_py as et
from executorch_py.exir import ExecutorchBackendConfig
from tests.models.zoo import ZOO

from . import small_models
from .compare import assert_close, flat

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CALLS = 3
NAMES = [*ZOO, *small_models.cases()]


def _make(name: str) -> tuple[torch.nn.Module, tuple[object, ...]]:
    """The module and one call's inputs. A model with several methods is represented by its first."""
    if name in ZOO:
        method = next(iter(ZOO[name]().values()))
        return method.module, method.inputs
    return small_models.cases()[name]


def _eager(module: torch.nn.Module, inputs: tuple[object, ...]) -> list[list[object]]:
    module = copy.deepcopy(module)
    with torch.no_grad():
        return [copy.deepcopy(flat(module(*inputs))) for _ in range(CALLS)]


@pytest.fixture(scope="module")
def exchanged(
    tmp_path_factory: pytest.TempPathFactory, peer: Callable[[str, Path], None], chosen: Callable[[str], set[str]]
) -> tuple[Path, Path]:
    """Two folders: files of the official exporter; ours in the published vocabulary with the official runtime's
    outputs.
    """
    theirs, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")
    by_them = chosen("test_their_file_runs_in_our_runtime")
    for name in sorted(by_them | chosen("test_our_file_runs_in_their_runtime")):
        module, inputs = _make(name)
        with torch.no_grad():
            exported = torch.export.export(module, inputs)
        if name in by_them:
            torch.export.save(exported, theirs / f"{name}.pt2")
        torch.save([flat(inputs)] * CALLS, ours / f"{name}.inputs.pt")
        et.to_edge(exported).to_executorch(ExecutorchBackendConfig(compatible=True)).save(ours / f"{name}.pte")
    peer("lower", theirs)
    peer("run", ours)
    return theirs, ours


@pytest.mark.parametrize("name", NAMES)
def test_their_file_runs_in_our_runtime(name: str, exchanged: tuple[Path, Path]) -> None:
    error = exchanged[0] / f"{name}.error"
    assert not error.exists(), error.read_text()
    module, inputs = _make(name)
    method = et.Runtime.get().load_program(exchanged[0] / f"{name}.pte").load_method("forward")
    for call, expected in enumerate(_eager(module, inputs)):
        actual = method.execute(flat(inputs))
        if call == 0 or _keeps_initial_state(module):
            assert_close(actual, expected)


@pytest.mark.parametrize("name", NAMES)
def test_our_file_runs_in_their_runtime(name: str, exchanged: tuple[Path, Path]) -> None:
    error = exchanged[1] / f"{name}.error"
    assert not error.exists(), error.read_text()
    module, inputs = _make(name)
    for actual, expected in zip(torch.load(exchanged[1] / f"{name}.outputs.pt"), _eager(module, inputs), strict=True):
        assert_close(actual, expected)


def test_there_are_twenty_models() -> None:
    assert len(NAMES) >= 20


def _keeps_initial_state(module: torch.nn.Module) -> bool:
    """Every buffer starts at zero: the official exporter drops other initial values."""
    return all(not buffer.any() for buffer in module.buffers())
