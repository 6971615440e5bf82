"""Integer convolutions and poolings over their own input: smaller arenas, and a refusal where no kernel can."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import _core, quantizer
from executorch_py.errors import InvalidProgramError
from executorch_py.runtime import Program, Runtime


def layers(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    """A chain of convolutions and poolings of random geometry, and the shape of its input."""
    torch.manual_seed(seed)
    choose = random.Random(seed)
    rows, columns = choose.randint(5, 14), choose.randint(5, 14)
    counts = [choose.choice([1, 3, 8]), *(choose.choice([4, 7, 16, 64, 70]) for _ in range(choose.randint(2, 4)))]
    modules: list[nn.Module] = []
    for before, after in pairwise(counts):
        kernel, stride, padding, dilation = (choose.randint(1, 3) for _ in range(4))
        if choose.random() < 0.6:
            modules += [nn.Conv2d(before, before, 3, 1, choose.randint(1, 2), groups=before), nn.ReLU()]
        is_point = choose.random() < 0.6
        size = {} if is_point else {"stride": min(stride, 2), "padding": dilation + padding, "dilation": dilation}
        modules += [nn.Conv2d(before, after, 1 if is_point else kernel, **size), nn.ReLU()]
        if choose.random() < 0.4:
            modules += [nn.MaxPool2d(choose.randint(2, 3), choose.randint(1, 2), 1, ceil_mode=choose.random() < 0.5)]
    return nn.Sequential(*modules).eval(), (1, counts[0], rows, columns)


def programs(module: nn.Module, shape: tuple[int, ...]) -> tuple[bytes, bytes]:
    """The int8 file as hosts want it, and as firmware does."""
    samples = [torch.randn(shape) for _ in range(2)]
    edge = et.to_edge_transform_and_lower(quantizer.quantize(module, (samples[0],), "static_int8", samples))
    apart, over = (
        edge.to_executorch(
            et.ExecutorchBackendConfig(
                quantized_io=True, memory_planning_pass=et.MemoryPlanningPass(overlap_inputs=overlap_inputs)
            )
        )
        for overlap_inputs in (False, True)
    )
    return bytes(apart.buffer), bytes(over.buffer)


def arena(data: bytes) -> int:
    return sum(Runtime.get().load_program(data).metadata("forward").planned_buffer_sizes())


@pytest.mark.parametrize("seed", range(8))
def test_what_is_computed_over_the_input_is_what_is_computed_apart_from_it(seed: int) -> None:
    module, shape = layers(seed)
    apart, over = programs(module, shape)
    assert arena(over) <= arena(apart)
    given = torch.randint(-128, 128, shape, dtype=torch.int8)
    expected = Runtime.get().load_program(apart).load_method("forward").execute([given])[0]
    method = Program(_core.Program.from_bytes(over, firmware_kernels=True)).load_method("forward")
    for _ in range(2):  # the second begins with what the first one left
        assert torch.equal(method.execute([given])[0], expected)


def test_kernels_of_a_host_refuse_it() -> None:
    _, over = programs(*layers(0))
    with pytest.raises(InvalidProgramError, match="lies over argument 0, which the operator still reads then"):
        Runtime.get().load_program(over).load_method("forward")


def test_by_default_nothing_overlaps() -> None:
    module, shape = layers(1)
    apart, _ = programs(module, shape)
    samples = [torch.randn(shape) for _ in range(2)]
    torch.manual_seed(1)
    edge = et.to_edge_transform_and_lower(quantizer.quantize(module, (samples[0],), "static_int8", samples))
    default = edge.to_executorch(et.ExecutorchBackendConfig(quantized_io=True))
    assert arena(bytes(default.buffer)) == arena(apart)
    Runtime.get().load_program(bytes(default.buffer)).load_method("forward")
