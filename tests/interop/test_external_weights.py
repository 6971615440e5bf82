"""Programs whose delegates' weights are in a `.ptd` file, both ways: ours in the official runtime, theirs in ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py.errors import NotFoundError


def _model() -> tuple[nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 256), nn.ReLU(), nn.Linear(256, 9)
    )
    return layers.eval(), (torch.randn(2, 3, 8, 8),)


@pytest.mark.interop
def test_weights_of_delegates_go_both_ways(peer: Callable[[str, Path], None], tmp_path: Path) -> None:
    model, inputs = _model()
    exported, expected = torch.export.export(model, inputs), model(*inputs).detach()
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
        torch.save([list(inputs)], folder / "model.inputs.pt")
    torch.export.save(exported, theirs / "model.pt2")
    config = et.ExecutorchBackendConfig(external_constants=lambda node: "model", compatible=True)
    program = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch(
        config
    )
    program.save(ours / "model.pte")
    assert program.write_tensor_data_to_file(ours) == [ours / "model.ptd"] and len(program.buffer) < 12_000
    peer("external", theirs)
    peer("run_external", ours)
    for folder in (theirs, ours):
        assert not (folder / "model.error").exists(), (folder / "model.error").read_text()
    (official,) = torch.load(ours / "model.outputs.pt")[0]
    torch.testing.assert_close(official, expected, atol=1e-5, rtol=1e-4)
    module = et.load(theirs / "model.pte", data_path=theirs / "model.ptd")
    torch.testing.assert_close(module(*inputs), expected, atol=1e-5, rtol=1e-4)
    with pytest.raises(NotFoundError, match="no named data"):
        et.load(theirs / "model.pte")(*inputs)
