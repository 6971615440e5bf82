"""What published architectures brought to light, without the whole model."""

from __future__ import annotations

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et


def _ours(function, *inputs: torch.Tensor, partitioner=()) -> torch.Tensor:
    class Model(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return function(*tensors)

    program = torch.export.export(Model().eval(), inputs)
    buffer = et.to_edge_transform_and_lower(program, partitioner=list(partitioner)).to_executorch().buffer
    return et.Runtime.get().load_program(buffer).load_method("forward").execute(list(inputs))[0]


@pytest.mark.parametrize("scan", [torch.cumsum, torch.cumprod])
def test_scans_of_bools_count(scan) -> None:
    """Llama 4 numbers its images by a running sum of a mask; PyTorch's operator database has no scans of bools."""
    mask = torch.tensor([[True, False, True, True], [True, True, False, True]])
    expected = scan(mask, 1)
    actual = _ours(lambda x: scan(x, 1), mask)
    assert actual.dtype == torch.int64
    assert torch.equal(actual, expected)


@pytest.mark.parametrize("question", [torch.ops.aten._is_all_true, torch.ops.aten._is_any_true])
def test_checks_of_masks(question) -> None:
    """RT-DETR v2, D-FINE and Gemma 3n ask these: the first of its grids, the last within torch.distributions."""
    for mask in (torch.tensor([[True, False]]), torch.tensor([True]), torch.zeros(0, dtype=torch.bool)):
        assert torch.equal(_ours(lambda x: question(x), mask), question(mask))


@pytest.mark.parametrize("window", [5, 16, (3, 9)])
def test_delegated_pooling_of_a_window_beyond_the_image(window) -> None:
    """EfficientNet in transformers averages a whole image by a window of as many pixels as it has channels."""
    x = torch.rand(1, 3, 4, 4)
    pool = torch.nn.AvgPool2d(window, ceil_mode=True)
    torch.testing.assert_close(
        _ours(lambda x: pool(x + 1), x, partitioner=[XnnpackPartitioner(largest=True)]), pool(x + 1)
    )


def test_delegated_arithmetic_of_numbers() -> None:
    """Gemma 3n thins out its activations: a tensor without dims, made by the delegate, is the factor of others."""

    def thinned(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = x @ weight
        quantile = torch.erfinv(2 * torch.tensor(0.95) - 1) * 2**0.5
        return torch.relu(y - (y.mean(-1, keepdim=True) + y.std(-1, keepdim=True) * quantile))

    inputs = torch.rand(3, 8), torch.rand(8, 8)
    actual = _ours(thinned, *inputs, partitioner=[XnnpackPartitioner(largest=True)])
    torch.testing.assert_close(actual, thinned(*inputs))


def test_delegated_numbers_leave_without_dims() -> None:
    class Halves(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            number = x.sum() * 0.5 + 1
            return self.linear(x) * number, number

    model, x = Halves().eval(), torch.rand(3, 8)
    program = et.to_edge_transform_and_lower(
        torch.export.export(model, (x,)), partitioner=[XnnpackPartitioner(largest=True)]
    )
    actual = et.Runtime.get().load_program(program.to_executorch().buffer).load_method("forward").execute([x])
    torch.testing.assert_close(tuple(actual), model(x))


class _Experts(torch.nn.Module):
    """Each row goes to one of two layers, as in mixtures of experts: how many go where, the data decide."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(8, 16)


class _SplitExperts(_Experts):
    def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        sizes = counts.tolist()
        for size in sizes:
            torch._check(size >= 0)
            torch._check(size <= x.shape[0])
        few, many = x.split(sizes)
        gate, value = torch.cat([self.first(few), self.second(many)]).chunk(2, -1)
        return torch.relu(gate) * value


class _MaskedExperts(_Experts):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.first(x[mask])), torch.relu(self.second(x[~mask]))


def _delegated(model: torch.nn.Module, *inputs: torch.Tensor):
    program = et.to_edge_transform_and_lower(
        torch.export.export(model, inputs), partitioner=[XnnpackPartitioner(largest=True)]
    )
    buffer = program.to_executorch().buffer
    assert b"XnnpackBackend" in buffer
    return et.Runtime.get().load_program(buffer).load_method("forward")


def test_delegated_parts_whose_sizes_the_data_decide() -> None:
    """JetMoE splits its rows by the experts' counts, of which the delegate took the largest ones.

    An expert may get none.
    """
    model, x = _SplitExperts().eval(), torch.randn(6, 8)
    method = _delegated(model, x, torch.tensor([2, 4]))
    for sizes in ([2, 4], [4, 2], [0, 6], [6, 0], [3, 3]):
        counts = torch.tensor(sizes)
        torch.testing.assert_close(method.execute([x, counts])[0], model(x, counts))


def test_delegated_layers_of_which_one_gets_no_rows() -> None:
    """Higgs Audio v2 has layers of its own for sound, which get no rows where there is only text; one delegate has
    both.
    """
    model, x = _MaskedExperts().eval(), torch.randn(6, 8)
    mask = torch.tensor([True, False, True, False, False, False])
    method = _delegated(model, x, mask)
    for rows in (mask, ~mask, mask | True, mask, mask & False, mask | True):
        torch.testing.assert_close(tuple(method.execute([x, rows])), model(x, rows))
