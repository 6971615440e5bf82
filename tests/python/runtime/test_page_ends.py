"""Inputs that end where a page of memory ends, with nothing behind it: kernels of libraries read whole vectors."""

from __future__ import annotations

import ctypes
import mmap

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et

PAGE = mmap.PAGESIZE


def at_page_end(values: torch.Tensor) -> torch.Tensor:
    """A copy whose last byte is a page's; the next page cannot be read. It stays for the life of the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    nbytes = values.numel() * values.element_size()
    room = -(-nbytes // PAGE) * PAGE
    begin = libc.mmap(None, room + PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert libc.mprotect(begin + room, PAGE, 0) == 0
    memory = (ctypes.c_char * nbytes).from_address(begin + room - nbytes)
    return torch.frombuffer(memory, dtype=values.dtype).view(values.shape).copy_(values)


class Pooled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(F.max_pool2d(x, 3, 2), 2)


MODELS = {
    "linear": lambda: (nn.Linear(37, 19), torch.randn(3, 37)),
    "conv": lambda: (nn.Conv2d(3, 5, 3), torch.randn(1, 3, 11, 13)),
    "depthwise": lambda: (nn.Conv2d(7, 7, 3, groups=7), torch.randn(1, 7, 11, 13)),
    "lines": lambda: (nn.Conv1d(5, 3, 3), torch.randn(1, 5, 29)),
    "pool": lambda: (Pooled(), torch.randn(1, 3, 17, 19)),
    "sigmoid": lambda: (nn.Sigmoid(), torch.randn(1, 13, 7)),
    "softmax": lambda: (nn.Softmax(-1), torch.randn(3, 21)),
    "norm": lambda: (nn.LayerNorm(27), torch.randn(5, 27)),
    "bytes": lambda: (nn.ReLU(), torch.randint(-99, 99, (3, 7, 5), dtype=torch.int8)),
}


def lowered(model: nn.Module, x: torch.Tensor, delegated: bool, **plan: bool):
    exported = torch.export.export(model.eval(), (x,))
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    config = et.ExecutorchBackendConfig(memory_planning_pass=et.MemoryPlanningPass(**plan))
    return et.Runtime.get().load_program(edge.to_executorch(config).buffer).load_method("forward")


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_inputs_at_the_end_of_a_page(name: str, delegated: bool, planned: bool) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]()
    method = lowered(model, x, delegated, alloc_graph_input=planned)
    guarded = at_page_end(x)
    for given in (guarded, x, guarded):
        torch.testing.assert_close(method.execute((given,))[0], model(x), rtol=1e-4, atol=1e-5)


class Two(nn.Module):
    """The first output is read on."""

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.last = last

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.neg()
        return y, self.last(y)


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_at_the_end_of_a_page(name: str, planned: bool) -> None:
    torch.manual_seed(0)
    last, x = MODELS[name]()
    model = Two(last)
    method = lowered(model, x, False, alloc_graph_output=planned)
    expected = model(x)
    given = [at_page_end(torch.zeros_like(y)) for y in expected]
    for out in (given, [torch.zeros_like(y) for y in expected], given):
        results = method.execute((x,), out=out)
        for result, place, value in zip(results, out, expected, strict=True):
            assert result is place
            torch.testing.assert_close(result, value, rtol=1e-4, atol=1e-5)


class Counter(nn.Module):
    """Writes to its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


@pytest.mark.parametrize("planned", [False, True])
def test_inputs_at_the_end_of_a_page_are_written(planned: bool) -> None:
    method = lowered(Counter(), torch.zeros(13), False, alloc_graph_input=planned)
    x = at_page_end(torch.arange(13.0))
    result = method.execute((x,))[-1]
    torch.testing.assert_close(x, torch.arange(13.0) + 1)
    torch.testing.assert_close(result, x * 2)


def test_sizes_change_between_calls() -> None:
    torch.manual_seed(0)
    model = nn.Linear(9, 4).eval()
    shapes = {"input": {0: torch.export.Dim("rows", min=1, max=20)}}
    exported = torch.export.export(model, (torch.randn(5, 9),), dynamic_shapes=shapes)
    method = et.Runtime.get().load_program(et.to_edge(exported).to_executorch().buffer).load_method("forward")
    for rows in (20, 3, 11):
        x = torch.randn(rows, 9)
        for given in (at_page_end(x), x):
            torch.testing.assert_close(method.execute((given,))[0], model(x), rtol=1e-4, atol=1e-5)
