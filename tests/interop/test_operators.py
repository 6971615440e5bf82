"""Every operator case both ways: our file in the official runtime, its exporter's file in ours.

Integers and bools must be equal, floats within 1e-5 of the largest value. What the official package itself cannot do,
or does wrongly, is listed here with its reason, and a test fails when an entry is no longer true.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import executorch_py as et
from executorch_py.exir import ExecutorchBackendConfig

from . import op_cases
from .compare import assert_close, flat

pytestmark = pytest.mark.interop

CASES = {case.name: case for case in op_cases.cases()}

# Cases that the official exporter refuses.
PEER_CANNOT_LOWER = {
    "bitwise_left_shift": "SpecViolationError: not an Edge operator",
    "bitwise_right_shift": "SpecViolationError: not an Edge operator",
    "masked_select": "cannot deserialise the .pt2",
    "repeat_interleave": "cannot deserialise the .pt2",
    "unfold_copy": "SpecViolationError: not an Edge operator",
}
# Cases that its runtime computes differently from eager PyTorch.
PEER_IS_WRONG: dict[str, str] = {}


@pytest.fixture(scope="module")
def theirs(
    tmp_path_factory: pytest.TempPathFactory, peer: Callable[[str, Path], None], chosen: Callable[[str], set[str]]
) -> Path:
    """A folder with the chosen cases lowered by the official exporter."""
    folder = tmp_path_factory.mktemp("theirs")
    for case in (CASES[name] for name in sorted(chosen("test_their_file_runs_in_our_runtime"))):
        with torch.no_grad():
            torch.export.save(torch.export.export(case.module(), case.inputs), folder / f"{case.name}.pt2")
    peer("lower", folder)
    return folder


@pytest.fixture(scope="module")
def ours(
    tmp_path_factory: pytest.TempPathFactory, peer: Callable[[str, Path], None], chosen: Callable[[str], set[str]]
) -> Path:
    """A folder with the chosen cases lowered by us in the published vocabulary, and the official runtime's outputs."""
    folder = tmp_path_factory.mktemp("ours")
    for case in (CASES[name] for name in sorted(chosen("test_our_file_runs_in_their_runtime"))):
        try:
            exported = torch.export.export(case.module(), case.inputs)
            program = et.to_edge(exported).to_executorch(ExecutorchBackendConfig(compatible=True))
        except et.ExecutorchError as error:
            (folder / f"{case.name}.refused").write_text(str(error))
            continue
        program.save(folder / f"{case.name}.pte")
        torch.save([list(case.inputs)], folder / f"{case.name}.inputs.pt")
    peer("run", folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_their_file_runs_in_our_runtime(name: str, theirs: Path) -> None:
    error = theirs / f"{name}.error"
    if name in PEER_CANNOT_LOWER:
        assert error.exists(), f"the official exporter lowers {name} now: take it off the list"
        pytest.skip(PEER_CANNOT_LOWER[name])
    assert not error.exists(), error.read_text()
    case = CASES[name]
    outputs = et.Runtime.get().load_program(theirs / f"{name}.pte").load_method("forward").execute(case.inputs)
    assert_close(outputs, flat(case.module()(*case.inputs)))


@pytest.mark.parametrize("name", CASES)
def test_our_file_runs_in_their_runtime(name: str, ours: Path) -> None:
    refused, error = ours / f"{name}.refused", ours / f"{name}.error"
    assert not refused.exists(), refused.read_text()
    assert not error.exists(), error.read_text()
    case = CASES[name]
    outputs = torch.load(ours / f"{name}.outputs.pt")[0]
    expected = flat(case.module()(*case.inputs))
    if name in PEER_IS_WRONG:
        with pytest.raises(AssertionError):
            assert_close(outputs, expected)
        pytest.skip(PEER_IS_WRONG[name])
    assert_close(outputs, expected)


def test_there_are_a_hundred_operators() -> None:
    usable = {n.split(".")[0] for n in CASES if n not in PEER_CANNOT_LOWER and n not in PEER_IS_WRONG}
    assert len(usable) >= 100
