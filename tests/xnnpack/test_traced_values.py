"""Values inside a delegate, where a tracer wants them: those of the graph, and nothing changes in the outputs."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch.export import Dim

import executorch_py as et
from executorch_py.devtools import Inspector
from executorch_py.devtools.inspector.reference import pairs_of, values_of

EVERYTHING = [XnnpackPartitioner(largest=True)]


class Images(torch.nn.Module):
    """Images, whose channels lie last inside; a clamp that is fused; a branch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 1)

    def forward(self, x):
        x = torch.nn.functional.relu6(self.first(x))
        return torch.nn.functional.max_pool2d(x + self.second(x), 2)


class Rows(torch.nn.Module):
    """Products of rows, and functions of single numbers."""

    def __init__(self):
        super().__init__()
        self.lin, self.out = torch.nn.Linear(6, 12), torch.nn.Linear(12, 3)

    def forward(self, x):
        return torch.softmax(self.out(torch.tanh(self.lin(x)) * 2), -1)


CASES = {
    "images": (Images(), torch.randn(2, 3, 8, 8), None),
    "square images": (Images(), torch.randn(1, 3, 8, 8), None),  # 8 channels of 8 x 8: both orders have equal sizes
    "rows": (Rows(), torch.randn(5, 6), None),
    "dynamic rows": (Rows(), torch.randn(5, 6), ({0: Dim("rows", min=1, max=64)},)),
}


def lowered(name):
    torch.manual_seed(0)
    model, x, dynamic = CASES[name]
    exported = torch.export.export(model.eval(), (x,), dynamic_shapes=dynamic)
    return et.to_edge_transform_and_lower(exported, partitioner=EVERYTHING).to_executorch(), x


@pytest.mark.parametrize("name", CASES)
def test_they_are_those_of_the_graph(name):
    program, x = lowered(name)
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True, debug_buffer_size=1 << 22)
    method = loaded.load_method("forward")
    outputs = method.execute([x])
    plain = et.Runtime.get().load_program(program.buffer).load_method("forward").execute([x])
    assert torch.allclose(outputs[0], plain[0], atol=1e-6)
    record = program.get_etrecord()
    edge = record.edge_programs()["forward"]
    events = [event for block in Inspector.of(loaded, record).event_blocks for event in block.events]
    inside = [event for event in events if event.is_delegated_op]
    pairs = pairs_of(edge, values_of(edge, [x]), inside)
    assert len(pairs) >= 3, [event.name for event in inside]
    for pair in pairs:
        assert torch.allclose(pair.actual.reshape(pair.expected.shape), pair.expected, atol=1e-5), pair.node


def test_sizes_that_change_from_call_to_call():
    program, _ = lowered("dynamic rows")
    record = program.get_etrecord()
    edge = record.edge_programs()["forward"]
    for rows in (1, 64, 7):
        loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True, debug_buffer_size=1 << 22)
        method = loaded.load_method("forward")
        for _ in range(2):
            method.execute([torch.randn(33, 6)])
        loaded.reset_etdump()
        x = torch.randn(rows, 6)
        method.execute([x])
        events = [event for block in Inspector.of(loaded, record).event_blocks for event in block.events]
        pairs = pairs_of(edge, values_of(edge, [x]), [event for event in events if event.is_delegated_op])
        assert len(pairs) >= 3
        assert all(torch.allclose(one.actual.reshape(one.expected.shape), one.expected, atol=1e-5) for one in pairs)


def test_times_alone_want_no_values():
    program, x = lowered("images")
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True)
    loaded.load_method("forward").execute([x])
    events = [event for block in Inspector.of(loaded, program.get_etrecord()).event_blocks for event in block.events]
    assert any(event.is_delegated_op for event in events) and not any(event.debug_data for event in events)
