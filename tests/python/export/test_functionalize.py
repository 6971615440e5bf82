"""Functionalisation: the same results and the same state as eager, by our own analysis where it is certain."""

import copy

import pytest
import torch
from torch import nn
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

import executorch_py as et
from executorch_py.export.functional import functionalize as subject
from executorch_py.export.functional.functionalize import functionalize


class InPlaceActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        y = torch.relu_(self.norm(self.conv(x)))
        y += 1
        return nn.functional.hardtanh(y * 2, 0, 6, inplace=True)

    inputs = (torch.randn(1, 3, 6, 6),)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        before = self.count * 2
        self.count.add_(1)
        return before + x, self.count

    inputs = (torch.randn(3),)


class WriteThroughViews(nn.Module):
    """Each kind of view, written to; the base and a second view of it are read afterwards."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.arange(24.0).reshape(2, 3, 4))

    def forward(self, x):
        other = self.state[1]
        self.state[0, 1:, ::2].add_(x)
        self.state.select(0, 1).mul_(2)
        self.state.permute(2, 0, 1)[0].sub_(1)
        self.state.transpose(0, 2).unsqueeze(0)[0, 1].fill_(7)
        self.state.view(6, 4)[3].copy_(x[0, 0])
        self.state[0].diagonal().zero_()
        self.state.unsqueeze(1).squeeze(1)[0, 0, 3] = 5
        return other + 1, self.state.sum()

    inputs = (torch.randn(2, 2),)


class WrittenInput(nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        x[0] = y
        return x + y

    inputs = (torch.randn(2, 3), torch.randn(3))


class CastInCopy(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, dtype=torch.float64))

    def forward(self, x):
        self.kept.copy_(x)
        return self.kept * 2

    inputs = (torch.randn(4),)


class Broadcast(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 4))

    def forward(self, x):
        self.kept.copy_(x)
        return self.kept + 1

    inputs = (torch.randn(4),)


class NoGrad(nn.Module):
    def forward(self, x):
        y = x * 2
        with torch.no_grad():
            z = y + 1
            z.relu_()
        return z - y

    inputs = (torch.randn(4),)


class IndexPut(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 2))

    def forward(self, x, positions):
        self.cache[positions] = x
        self.cache.index_copy_(0, positions + 1, x)
        return self.cache.clone()

    inputs = (torch.randn(2, 2), torch.tensor([1, 4]))


class ChunkWritten(nn.Module):
    def forward(self, x):
        y = x + 1
        first, second = y.chunk(2, dim=0)
        first.add_(second)
        return y

    inputs = (torch.randn(4, 2),)


class ReshapeWritten(nn.Module):
    """Whether a reshape is a view depends on strides: only torch's own functionalisation may decide."""

    def forward(self, x):
        y = x + 1
        y.reshape(-1).add_(3)
        return y

    inputs = (torch.randn(2, 3),)


class ReshapeReadAfterWrite(nn.Module):
    def forward(self, x):
        y = x + 1
        flat = y.flatten()
        y.mul_(2)
        return flat * 3

    inputs = (torch.randn(2, 3),)


class TrainingNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(x)

    inputs = (torch.randn(5, 3),)


CERTAIN = [InPlaceActivation, Counter, WriteThroughViews, WrittenInput, CastInCopy, Broadcast, NoGrad, IndexPut]
UNCERTAIN = [ChunkWritten, ReshapeWritten, ReshapeReadAfterWrite, TrainingNorm]


def _run_twice(model, inputs):
    """Outputs, written inputs and buffers after two calls."""
    seen = []
    for _ in range(2):
        arguments = copy.deepcopy(inputs)
        with torch.no_grad():
            seen.append(pytree.tree_leaves(model(*arguments)))
        seen.append(list(arguments))
    return seen


def _export(kind):
    torch.manual_seed(0)
    model = kind()
    if kind is not TrainingNorm:
        model.eval()
    return model, torch.export.export(copy.deepcopy(model), copy.deepcopy(kind.inputs))


@pytest.mark.parametrize("kind", CERTAIN + UNCERTAIN, ids=lambda kind: kind.__name__)
def test_same_results_and_state_as_eager(kind):
    model, exported = _export(kind)
    functional = functionalize(exported)
    for node in functional.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable, node.format_node()
    expected, actual = _run_twice(model, kind.inputs), _run_twice(functional.module(), kind.inputs)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("kind", CERTAIN, ids=lambda kind: kind.__name__)
def test_certain_cases_need_no_second_trace(kind, monkeypatch):
    _, exported = _export(kind)
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    functionalize(exported)


@pytest.mark.parametrize("kind", UNCERTAIN, ids=lambda kind: kind.__name__)
def test_uncertain_cases_are_left_to_torch(kind, monkeypatch):
    _, exported = _export(kind)
    called = []
    original = torch.export.ExportedProgram.run_decompositions
    monkeypatch.setattr(
        torch.export.ExportedProgram, "run_decompositions", lambda self, *a: called.append(1) or original(self, *a)
    )
    functionalize(exported)
    assert called


def test_functional_programs_are_returned_as_they_are():
    exported = torch.export.export(nn.Linear(2, 2), (torch.randn(1, 2),))
    assert functionalize(exported) is exported


def test_writes_are_outputs_of_the_signature():
    _, exported = _export(WrittenInput)
    kinds = [spec.kind for spec in functionalize(exported).graph_signature.output_specs]
    assert kinds == [OutputKind.USER_INPUT_MUTATION, OutputKind.USER_OUTPUT]


def test_source_lines_survive():
    _, exported = _export(InPlaceActivation)
    for node in functionalize(exported).graph.nodes:
        if node.op == "call_function":
            assert "test_functionalize.py" in node.meta["stack_trace"], node


def test_dropout_in_inference_is_its_input():
    assert subject._is_inert  # the rule that the next lines rest on

    class Model(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x * 2, 0.5, training=False, inplace=True) + 1

    exported = torch.export.export(Model(), (torch.ones(3),))
    torch.testing.assert_close(functionalize(exported).module()(torch.ones(3)), torch.full((3,), 3.0))


@pytest.mark.parametrize(("rows", "is_refused"), [(4, False), (5, True)])
def test_a_write_through_windows(rows, is_refused):
    """PyTorch makes zeros of the elements that no window has: refused instead of wrong."""

    class Windows(torch.nn.Module):
        def forward(self, x):
            y = x.clone()
            y.unfold(0, 2, 2)[0].neg_()
            return y

    x = torch.arange(1.0, 4.0 * rows + 1).view(rows, 4)
    exported = torch.export.export(Windows(), (x,))
    if is_refused:
        with pytest.raises(et.NotSupportedError, match=r"test_functionalize.py.*writes through unfold\(\)"):
            et.to_edge(exported)
    else:
        assert torch.equal(et.load(et.to_edge(exported).to_executorch().buffer)(x), Windows()(x))
