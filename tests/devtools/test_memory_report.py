"""Planned memory: what lives at the peak, by line and module, against sums made here; what options save."""

import itertools
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py.devtools import memory_report
from executorch_py.errors import InvalidTypeError, NotFoundError
from tests.devtools.models import two_blocks


class Wide(torch.nn.Module):
    """The value in the middle is the largest, and lives while another is made."""

    def __init__(self):
        super().__init__()
        self.grow = torch.nn.Linear(16, 256)
        self.shrink = torch.nn.Linear(256, 16)

    def forward(self, x):
        wide = self.grow(x)
        return self.shrink(wide * torch.sigmoid(wide))


def lowered(model, inputs, **options):
    return et.to_edge_transform_and_lower(torch.export.export(model, inputs), **options).to_executorch()


def test_the_largest_value_is_found_with_its_line():
    program = lowered(Wide().eval(), (torch.randn(8, 16),))
    report = memory_report(program)
    (peak,) = report.arenas
    largest = peak.tensors[0].tensor
    assert largest.size_bytes == 8 * 256 * 4 and "test_memory_report.py:" in largest.file_and_line_num
    line = int(largest.file_and_line_num.rpartition(":")[2])
    text = Path(__file__).read_text().splitlines()[line - 1]
    assert "self.grow" in text or "sigmoid" in text
    assert next(iter(report.peak_by_module.values())) >= 8 * 256 * 4
    assert "grow" in report.peak_by_module
    assert "test_memory_report.py" in repr(report) and "<table" in report._repr_html_()


@pytest.mark.parametrize("partitioner", [None, [XnnpackPartitioner(largest=True)]])
@pytest.mark.parametrize("make", [two_blocks, lambda: (Wide().eval(), (torch.randn(8, 16),))])
def test_sums(make, partitioner):
    """The peak is the largest sum of any step; what lives at one step does not overlap; arenas hold all of it."""
    program = lowered(*make(), partitioner=partitioner)
    report = memory_report(program)
    figures = next(one for one in program.memory_report if one["method"] == "forward")
    assert report.nbytes == sum(figures["arena_sizes"]) and report.naive_nbytes == figures["naive_nbytes"]
    for peak in report.arenas:
        own = [one for one in report.lives if one.tensor.memory_id == peak.arena]
        sums = [
            sum(one.tensor.size_bytes for one in own if one.first <= step <= one.last)
            for step in range(len(report.steps))
        ]
        assert peak.live_nbytes == max(sums) == sums[peak.step] <= peak.nbytes
        assert sum(peak.by_module.values()) == peak.live_nbytes
        placed = sorted((one.tensor.memory_offset, one.tensor.size_bytes) for one in peak.tensors)
        assert all(start + size <= following for (start, size), (following, _) in itertools.pairwise(placed))
    assert report.as_dict()["nbytes"] == report.nbytes


def test_savings():
    """Each is what compiling with the option gives; one that does not fit says why."""
    model, inputs = two_blocks()
    report = memory_report(lowered(model, inputs), try_options=True)
    saved = {one.option.split(":")[0]: one for one in report.savings}
    config = et.ExecutorchBackendConfig(memory_planning_pass=et.MemoryPlanningPass(alloc_graph_input=False))
    direct = et.to_edge(torch.export.export(model, inputs)).to_executorch(config)
    found = saved["MemoryPlanningPass(alloc_graph_input=False)"].nbytes
    assert found == memory_report(direct).nbytes < report.nbytes
    refused = saved["quantized_io=True"]
    assert refused.nbytes is None and refused.reason.endswith("quantize the model statically, or leave it out")
    (row,) = [line for line in str(report).splitlines() if "quantized_io=True" in line]
    assert "does not fit" in row


def test_what_is_no_program():
    program = lowered(*two_blocks())
    with pytest.raises(NotFoundError, match="there are forward"):
        memory_report(program, "decode")
    with pytest.raises(InvalidTypeError, match="a file has no lines"):
        memory_report("model.pte")
