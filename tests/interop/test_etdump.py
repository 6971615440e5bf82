"""Our ETDumps in the official Inspector, with the official ETRecord: it finds in them what it finds in its own
runtime, of the same file on the same input."""

import pytest
import torch

import executorch_py as et

pytestmark = [pytest.mark.interop, pytest.mark.slow]

X = (torch.randn(2, 8),)


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, x):
        y = torch.sin(torch.relu(self.first(x)))
        return torch.cumsum(self.second(y), 1) + x.sum(), torch.split(y, 8, 1)[1] * 2


MODEL = Layers().eval()
#: Events of the official runtime that ours has, too, but for loads, which it tells apart.
CALLS = ("native_call_", "OPERATOR_CALL", "DELEGATE_CALL", "Method::execute")


def _found(folder, name):
    error = folder / f"{name}.error"
    assert not error.exists(), error.read_text()
    return torch.load(folder / f"{name}.events.pt", weights_only=False)


@pytest.mark.parametrize("name", ["portable", "delegated"])
def test_the_official_inspector_reads_ours_as_its_own(peer, tmp_path, name):
    torch.export.save(torch.export.export(MODEL, X), tmp_path / f"{name}.pt2")
    torch.save([X], tmp_path / f"{name}.inputs.pt")
    peer("record", tmp_path)
    program = et.Runtime.get().load_program(tmp_path / f"{name}.pte", enable_etdump=True, debug_buffer_size=1 << 20)
    program.load_method("forward").execute(X)
    program.write_etdump_result_to_file(tmp_path / f"{name}.etdp", tmp_path / f"{name}.bin")
    peer("inspect", tmp_path)
    ours, theirs = (
        [event for event in _found(tmp_path, file) if event["name"].startswith(CALLS)]
        for file in (name, f"{name}.peer")
    )
    assert len(ours) > 2

    def key(event):
        return event["block"], event["name"], event["handles"], event["operators"], event["backend"]

    assert [key(event) for event in ours if event["name"] != "Method::execute"] == [
        key(event) for event in theirs if event["name"] != "Method::execute"
    ]
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our["values"], their["values"])
    calls = [event for event in ours if event["name"] in ("OPERATOR_CALL", "DELEGATE_CALL")]
    (whole,) = [event for event in ours if event["name"] == "Method::execute"]
    assert 0 < sum(event["times"][0] for event in calls) <= whole["times"][0]
    steps = [event for event in _found(tmp_path, name) if event["is_delegated"]]
    assert (len(steps) > 2 and all(step["backend"] == "XnnpackBackend" for step in steps)) == (name == "delegated")
