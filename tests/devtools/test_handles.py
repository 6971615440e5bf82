"""Debug handles: every instruction of a program has those of the operators that it computes or serves."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.devtools import Inspector, first_divergence
from executorch_py.devtools.inspector.record_map import listed, nodes_by_handle
from tests.models.zoo import ZOO, Method


class Remembers(nn.Module):
    """Keeps its last input and a sum, in buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(2, 3))
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x):
        before = self.total + self.last
        self.last.copy_(x)
        self.total.add_(torch.sin(x))
        return before, self.total * 2


class Loops(nn.Module):
    """A scan whose state and output depend on the step, and a branch behind it."""

    def forward(self, x):
        def step(state, item):
            return torch.tanh(state + item), state * item

        state, items = torch._higher_order_ops.scan(step, torch.zeros(4), x)
        return torch.cond(state.sum() > 0, lambda y: y + 1, lambda y: y.sin(), (items,))


class FromOutside(nn.Module):
    """Writes its input into a buffer and returns it: no operator of the Edge program has to do with that copy."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(2))

    def forward(self, x):
        self.last.copy_(x)
        return torch.ones(2)


def methods(name):
    if name in ZOO:
        return ZOO[name]()
    torch.manual_seed(0)
    convolution = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(576, 5))
    image = torch.rand(1, 3, 16, 16)
    steps = torch.export.Dim("steps", min=2, max=9)
    made = {
        "channels_last": Method(convolution, (image.to(memory_format=torch.channels_last),)),
        "remembers": Method(Remembers(), (torch.rand(2, 3),)),
        "loops": Method(Loops(), (torch.rand(5, 4),), {"x": {0: steps}}),
        "from_outside": Method(FromOutside(), (torch.rand(2),)),
    }
    return {"forward": made[name]}


def bare(program, method="forward"):
    """The instructions without a handle."""
    handles = program.debug_handle_map[method]
    kernels = program.get_etrecord().instructions[method]
    return [(number, kernel) for number, kernel in enumerate(kernels) if kernel and not listed(handles.get(number))]


def lowered(exported, outputs=True, partitioner=None):
    planning = et.exir.passes.MemoryPlanningPass(alloc_graph_output=outputs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=True)
    return edge.to_executorch(et.ExecutorchBackendConfig(memory_planning_pass=planning))


def check(program):
    assert bare(program) == []
    edge = program.get_etrecord().edge_programs()["forward"]
    known = nodes_by_handle(edge)
    assert all(one in known for some in program.debug_handle_map["forward"].values() for one in listed(some) or ())


@pytest.mark.parametrize("name", [*ZOO, "channels_last", "remembers", "loops"])
def test_every_instruction_has_a_handle(name):
    for one in methods(name).values():
        check(lowered(one.export()))


@pytest.mark.parametrize("name", ["remembers", "loops", "unet"])
def test_where_the_caller_gives_the_outputs(name):
    check(lowered(methods(name)["forward"].export(), outputs=False))


@pytest.mark.parametrize("name", ["ds_cnn", "gru", "unet"])
@pytest.mark.parametrize("partitioner", [None, [XnnpackPartitioner()]], ids=["kernels", "delegate"])
def test_integers(name, partitioner):
    one = ZOO[name]()["forward"]
    check(lowered(quantizer.quantize(one.module, one.inputs, "static_int8", [one.inputs]), partitioner=partitioner))


def test_an_input_that_is_written_to_a_buffer():
    """No operator of the Edge program has to do with that copy."""
    program = lowered(methods("from_outside")["forward"].export())
    assert [kernel for _, kernel in bare(program)] == ["aten::copy_"]


def test_a_copy_is_told_by_what_it_serves():
    """Its time is that of the convolution's line, and it is no convolution."""
    one = methods("channels_last")["forward"]
    program = lowered(one.export())
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True, debug_buffer_size=1 << 20)
    loaded.load_method("forward").execute(one.inputs)
    events = Inspector.of(loaded, program.get_etrecord()).event_blocks[-1].events
    copies = [event for event in events if "clone_dim_order" in event.name]
    assert copies and all(event.is_added and event.where and not event.op_types and not event.macs for event in copies)
    assert not any(event.is_added for event in events if event not in copies)
    assert first_divergence(program, one.module, one.inputs) is None
