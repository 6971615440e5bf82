"""Bodies of control flow go to the delegate as the method's own graph does: against eager, in every branch and turn."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch._higher_order_ops import map as torch_map
from torch._higher_order_ops import scan, while_loop
from torch.export import Dim

import executorch_py as et
from executorch_py import quantizer


class Branches(nn.Module):
    """Convolutions in both branches, one in a branch of a branch, and one that stands before and behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Conv2d(4, 4, 3, padding=1)
        self.heavy, self.light = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.inner = nn.Conv2d(8, 8, 1)

    def _light(self, x: torch.Tensor) -> torch.Tensor:
        y = self.light(x)
        return self._choose(y.max() > 0.5, lambda y: self.inner(y).relu(), lambda y: y * 2, y)

    @staticmethod
    def _choose(flag, yes, no, *operands):
        if not torch.compiler.is_exporting():
            return (yes if flag else no)(*operands)
        return torch.cond(flag, yes, no, operands)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.shared(x)
        y = self._choose(x.sum() > 0, lambda x: self.inner(self.heavy(self.shared(x)).relu()), self._light, x)
        return self.inner(y)


class Loops(nn.Module):
    """A linear layer in the body of map, scan and while_loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.step = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mapped = torch_map(lambda row: self.layer(row).relu(), x)

        def turn(state, row):
            state = torch.tanh(self.step(state) + self.layer(row))
            return state, state * 2

        last, states = scan(turn, x[0], x)
        _, rounds = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, self.step(y)), (torch.tensor(0), x[0]))
        return mapped, last, states, rounds

    def reference(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mapped = torch.stack([self.layer(row).relu() for row in x])
        state, states = x[0], []
        for row in x:
            state = torch.tanh(self.step(state) + self.layer(row))
            states.append(state * 2)
        rounds = x[0]
        for _ in range(3):
            rounds = self.step(rounds)
        return mapped, state, torch.stack(states), rounds


def _lower(module, inputs, dynamic_shapes=None, **options):
    with torch.no_grad():
        exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(**{"largest": True, **options})])
    return edge, edge.to_executorch()


@pytest.mark.parametrize("options", [{}, {"per_op_mode": True}, {"always": True}], ids=["parts", "per_op", "always"])
def test_branches(options):
    torch.manual_seed(0)
    module = Branches()
    sizes = ({0: Dim("batch", max=3), 2: Dim("height", min=4, max=16)},)
    edge, manager = _lower(module, (torch.randn(2, 4, 8, 8),), sizes, **options)
    products = [row for row in et.delegation_report(edge).methods["forward"] if "convolution" in row.op]
    assert len(products) == 7 and all(row.backend == "XnnpackBackend" and row.part >= 0 for row in products)
    assert manager.dump().count("= aten::convolution") == 0
    method = et.Runtime.get().load_program(manager.buffer).load_method("forward")
    taken = set()
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(seed % 3 + 1, 4, 4 + seed, 8, generator=generator) * (3 if seed % 2 else 0.01) + seed % 5 - 2
        with torch.no_grad():
            expected = module(x)
            first = module.shared(x)
            taken.add((bool(first.sum() > 0), bool(module.light(first).max() > 0.5)))
        (actual,) = method.execute((x,))
        assert (actual - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert {(True, True), (False, True), (False, False)} <= taken


def test_loops():
    torch.manual_seed(0)
    module = Loops()
    edge, manager = _lower(module, (torch.randn(5, 6),))
    products = [row for row in et.delegation_report(edge).methods["forward"] if "linear" in row.op]
    assert len(products) == 4 and all(row.backend == "XnnpackBackend" for row in products)
    method = et.Runtime.get().load_program(manager.buffer).load_method("forward")
    for seed in range(3):
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            expected = module.reference(x)
        for actual, wanted in zip(method.execute((x,)), expected, strict=True):
            assert (actual - wanted).abs().max() <= 1e-4 * wanted.abs().max()


def test_partitioning_leaves_its_input_as_it_was():
    """Bodies are shared by no two programs: what one partitioner tags, another must not see."""
    torch.manual_seed(0)
    with torch.no_grad():
        edge = et.to_edge(torch.export.export(Branches().eval(), (torch.randn(2, 4, 8, 8),)))
    own = edge.to_executorch().buffer
    edge.to_backend(XnnpackPartitioner(largest=True))
    assert edge.to_executorch().buffer == own


def test_static_int8_around_branches():
    """Quantizers see the method's own graph; branches, and branches within them, stay float, and are still all
    there.
    """
    torch.manual_seed(0)
    module = Branches().eval()
    samples = [(torch.randn(1, 4, 8, 8) + i % 3 - 1,) for i in range(6)]
    program = quantizer.quantize(module, samples[0], "static_int8", calibration_data=samples)
    manager = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    method = et.Runtime.get().load_program(manager.buffer).load_method("forward")
    reference = program.module()
    for sample in samples:
        expected, (actual,) = reference(*sample), method.execute(sample)
        assert 20 * torch.log10(expected.norm() / (actual - expected).norm()) >= 40
