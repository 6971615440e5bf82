"""The XNNPACK delegate at run time: threads, changing sizes, several methods, memory that moves."""

import random
import threading

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import executorch_py as et
from executorch_py.errors import ExecutorchError
from tests.xnnpack.payload import read_payloads


class Network(nn.Module):
    """Enough work in each node that threads are woken; clamps, pads and copies that the library fuses."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, channels, 3), nn.Conv2d(channels, channels, 3, padding=1)
        self.head = nn.Linear(channels, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(F.pad(x, (1, 1, 1, 1))))
        x = F.hardtanh(self.second(x), -1.0, 1.0) + x
        return self.head(x.mean((2, 3)))


_SIZES = ({0: Dim("batch", max=4), 2: Dim("height", min=8, max=48), 3: Dim("width", min=8, max=48)},)


def _lower(module, inputs, dynamic_shapes=None):
    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes)
    return et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()


@pytest.fixture(scope="module")
def network():
    """The module and a program of it with dynamic sizes, loaded."""
    torch.manual_seed(0)
    module = Network()
    manager = _lower(module, (torch.randn(2, 3, 40, 40),), _SIZES)
    assert manager.dump().count("= delegate @") == 1
    return module, et.Runtime.get().load_program(manager.buffer)


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    et.set_num_threads(before)


def _check(module, method, x):
    with torch.no_grad():
        expected = module(x)
    (actual,) = method.execute((x,))
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max() <= 1e-4 * expected.abs().max()


def test_sizes_change_from_call_to_call(network):
    module, program = network
    method = program.load_method("forward")
    generator = random.Random(1)
    sizes = [(generator.randint(1, 4), 3, generator.randint(8, 48), generator.randint(8, 48)) for _ in range(25)]
    for size in [(4, 3, 48, 48), (1, 3, 8, 8), (4, 3, 48, 47), *sizes, (4, 3, 48, 48)]:
        _check(module, method, torch.randn(size))


def test_number_of_threads_changes(network):
    module, program = network
    method = program.load_method("forward")
    for threads in (1, 2, 3, 1, 2):
        et.set_num_threads(threads)
        for _ in range(2):
            _check(module, method, torch.randn(2, 3, 48, 48))


def test_methods_run_at_the_same_time(network):
    module, program = network
    et.set_num_threads(2)
    failures = []

    def work(seed: int) -> None:
        method = program.load_method("forward")
        generator = torch.Generator().manual_seed(seed)
        try:
            for _ in range(10):
                size = (seed % 3 + 1, 3, int(torch.randint(8, 48, (), generator=generator)), 40)
                _check(module, method, torch.randn(size, generator=generator))
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures


def test_sizes_outside_the_bounds(network):
    _, program = network
    method = program.load_method("forward")
    with pytest.raises(ExecutorchError):
        method.execute((torch.randn(5, 3, 40, 40),))


def test_outputs_are_not_overwritten_by_the_next_call(network):
    _, program = network
    method = program.load_method("forward")
    (first,) = method.execute((torch.randn(1, 3, 16, 16),))
    kept = first.clone()
    method.execute((torch.randn(1, 3, 16, 16),))
    assert torch.equal(first, kept)


def test_methods_share_weights_in_the_file_and_in_memory():
    torch.manual_seed(0)
    module = Network().eval()
    programs = {
        "small": torch.export.export(module, (torch.randn(1, 3, 16, 16),)),
        "large": torch.export.export(module, (torch.randn(1, 3, 32, 32),)),
    }
    one = _lower(module, (torch.randn(1, 3, 16, 16),)).buffer
    both = (
        et.to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )
    weights = sum(parameter.nbytes for parameter in module.parameters())
    assert len(both) < len(one) + weights // 2
    program = et.Runtime.get().load_program(both)
    methods = {name: program.load_method(name) for name in programs}
    for _ in range(2):
        _check(module, methods["small"], torch.randn(1, 3, 16, 16))
        _check(module, methods["large"], torch.randn(1, 3, 32, 32))


def test_one_filter_in_two_shapes():
    """Equal bytes, different dims: packed weights must not be mistaken for one another."""

    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 4))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return F.linear(x, self.weight), F.linear(y, self.weight.reshape(4, 8))

    torch.manual_seed(0)
    module, inputs = Twins(), (torch.randn(3, 4), torch.randn(3, 8))
    method = et.Runtime.get().load_program(_lower(module, inputs).buffer).load_method("forward")
    for actual, expected in zip(method.execute(inputs), module(*inputs), strict=True):
        assert (actual - expected).abs().max() <= 1e-5


def test_same_bytes_in_every_lowering():
    torch.manual_seed(0)
    module, inputs = Network(8), (torch.randn(1, 3, 12, 12),)
    assert _lower(module, inputs).buffer == _lower(module, inputs).buffer


def test_operators_one_by_one():
    torch.manual_seed(0)
    module, inputs = Network(8), (torch.randn(1, 3, 12, 12),)
    exported = torch.export.export(module.eval(), inputs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(per_op_mode=True)])
    manager = edge.to_executorch()
    assert manager.dump().count("= delegate @") == len(et.delegation_report(edge).delegated())
    _check(module, et.Runtime.get().load_program(manager.buffer).load_method("forward"), inputs[0])


def test_split_with_a_part_that_has_no_elements_is_left():
    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 64)

        def forward(self, x):
            whole, nothing = torch.split(self.layer(x).view(1, 12, 4, 16), [16, 0], -1)
            return torch.cat([whole * 2, nothing], -1)

    module, x = Split(), torch.randn(1, 12, 8)
    _check(module, et.Runtime.get().load_program(_lower(module, (x,)).buffer).load_method("forward"), x)


class _Positions(nn.Module):
    """Adds a function of the positions, as relative ones are in T5: nothing that an input changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.log(torch.arange(8).float() / 3 + 1) * 2
        return torch.relu(self.linear(x)) + positions


def test_what_depends_on_constants_only_is_computed_before_a_part_is_cut() -> None:
    model, x = _Positions().eval(), torch.randn(2, 8)
    manager = et.to_edge_transform_and_lower(
        torch.export.export(model, (x,)), partitioner=[XnnpackPartitioner(largest=True)]
    ).to_executorch()
    (graph,) = read_payloads(manager.buffer)
    assert sorted(graph.nodes) == ["Add", "FullyConnected"]
    assert "delegate @0(%x) :" in manager.dump()
    torch.testing.assert_close(et.load(manager.buffer)(x), model(x))
