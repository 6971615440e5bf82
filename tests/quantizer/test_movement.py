"""What moves elements between quantized layers moves integers, in a delegate's neighbourhood and alone."""

from collections.abc import Callable

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.search.candidates import Candidates
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from executorch_py.exir import ExecutorchBackendConfig

PLACES = torch.tensor([0, 3, 5, 7])
MASK = torch.arange(6) % 3 == 0
MOVEMENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "channel_shuffle": lambda y: F.channel_shuffle(y, 4),
    "roll": lambda y: torch.roll(y, (1, 2), (2, 3)),
    "rot90": lambda y: torch.rot90(y, 1, (2, 3)),
    "reflect": lambda y: F.pad(y, (1, 2, 1, 1), mode="reflect"),
    "replicate": lambda y: F.pad(y, (1, 1, 2, 1), mode="replicate"),
    "circular": lambda y: F.pad(y, (1, 1, 1, 1), mode="circular"),
    "stack": lambda y: torch.stack([y, y.flip(3)], 2).flatten(1, 2),
    "unbind": lambda y: torch.stack(y.unbind(1)[::-1], 1),
    "repeat": lambda y: y.repeat(1, 2, 1, 1),
    "diagonal": lambda y: y.diagonal(dim1=2, dim2=3).unsqueeze(2),
    "unfold": lambda y: y.unfold(2, 2, 2)[..., 0],
    "index_select": lambda y: torch.index_select(y, 1, PLACES),
    "index": lambda y: y[:, PLACES],
    "gather": lambda y: y.gather(1, PLACES.reshape(1, 4, 1, 1).expand(2, 4, 6, 6)),
    "max": lambda y: y.max(3, keepdim=True).values,
    "topk": lambda y: y.topk(4, 1).values,
    "amax": lambda y: y.amax((2, 3), keepdim=True),
    "nearest_exact": lambda y: F.interpolate(y, scale_factor=1.5, mode="nearest-exact"),
    "adaptive_max_pool": lambda y: F.adaptive_max_pool2d(y, 4),
    "max_pool_places": lambda y: F.max_pool2d(y, 2, return_indices=True)[0],
    "im2col": lambda y: F.unfold(y, 3, stride=2).unsqueeze(2),
    "im2col_padded": lambda y: F.unfold(y, 3, padding=1).unsqueeze(2),
    "triu": lambda y: y.triu(1),
    "tril": lambda y: y.tril(-1),
    "maximum": lambda y: torch.maximum(y, y.flip(3)),
    "minimum": lambda y: torch.min(y, y.roll(1, 2)),
    "where": lambda y: torch.where(MASK, y, y.flip(3)),
    "where_number": lambda y: torch.where(MASK, y, 0.0),
    "where_zeros": lambda y: torch.where(MASK, torch.zeros(2, 8, 6, 6), y),
    "masked_fill": lambda y: y.masked_fill(MASK, 0),
    "masked_fill_number": lambda y: y.masked_fill(MASK, 0.25),
    "masked_fill_tensor": lambda y: y.masked_fill(MASK, torch.zeros(())),
    "cat_zeros": lambda y: torch.cat([y, torch.zeros(2, 2, 6, 6)], 1),
    "cat_zeros_like": lambda y: torch.cat([torch.zeros_like(y), y], 1),
    "glu": lambda y: F.glu(y, 1),
}


class Between(nn.Module):
    """A movement between two convolutions; the second has as many channels as it gives."""

    def __init__(self, move: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.move, self.first = move, nn.Conv2d(3, 8, 3, padding=1)
        self.last = nn.Conv2d(move(torch.zeros(2, 8, 6, 6)).shape[1], 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.move(F.relu(self.first(x))))


@pytest.mark.parametrize("name", MOVEMENTS)
def test_integers_move(name: str) -> None:
    torch.manual_seed(0)
    model, data = Between(MOVEMENTS[name]).eval(), [torch.randn(2, 3, 6, 6) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    results = []
    for partitioners, conversions in (([], 2), ([XnnpackPartitioner(largest=True)], 0)):
        manager = et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch()
        body = [line for line in manager.dump().split("method @forward")[1].splitlines() if " constant @" not in line]
        assert sum("quantized_decomposed::" in line for line in body) == conversions, body
        floats = [line for line in body if " = aten::" in line and ": f32" in line]
        assert not floats, floats
        results.append(et.load(manager.buffer)(data[0]))
    assert torch.equal(*results)
    torch.testing.assert_close(results[0], program.module()(data[0]), atol=1e-2, rtol=0)


@pytest.mark.parametrize(
    "name", ["nearest_exact", "adaptive_max_pool", "im2col_padded", "maximum", "where_number", "cat_zeros", "glu"]
)
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_integers_of_other_types_move(name: str, dtype: str) -> None:
    torch.manual_seed(0)
    model, data = Between(MOVEMENTS[name]).eval(), [torch.randn(2, 3, 6, 6) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), quantizer.quantization_config(dtype), data)
    manager = et.to_edge_transform_and_lower(program).to_executorch()
    body = [line for line in manager.dump().split("method @forward")[1].splitlines() if " constant @" not in line]
    if not (name == "glu" and dtype == "int16"):  # a sigmoid of 16 bits has no table
        assert sum("quantized_decomposed::" in line for line in body) == 2, body
    expected = program.module()(data[0])
    torch.testing.assert_close(
        et.load(manager.buffer)(data[0]), expected, atol=2e-4 if dtype == "int16" else 1e-2, rtol=0
    )


@pytest.mark.parametrize(
    "name", ["glu", "triu", "im2col_padded", "where_number", "masked_fill", "adaptive_max_pool", "maximum"]
)
@pytest.mark.parametrize("delegated", [False, True])
def test_integers_of_any_batch_move(name: str, delegated: bool) -> None:
    torch.manual_seed(0)
    model, data = Between(MOVEMENTS[name]).eval(), [torch.randn(2, 3, 6, 6) for _ in range(4)]
    batch = torch.export.Dim("batch", min=1, max=6)
    program = quantizer.quantize(model, (data[0],), "static_int8", data, dynamic_shapes=({0: batch},))
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    manager = edge.to_executorch()
    body = [line for line in manager.dump().split("method @forward")[1].splitlines() if " constant @" not in line]
    assert sum("quantized_decomposed::" in line for line in body) == (0 if delegated else 2), body
    assert not [line for line in body if " = aten::" in line and ": f32" in line], body
    x = torch.randn(5, 3, 6, 6)
    torch.testing.assert_close(et.load(manager.buffer)(x), program.module()(x), atol=1e-2, rtol=0)


def test_places_of_the_largest_come_along() -> None:
    model, data = nn.Conv2d(3, 8, 3), [torch.randn(2, 3, 9, 9) for _ in range(4)]

    class Places(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = model, nn.Conv2d(8, 4, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            values, places = F.adaptive_max_pool2d(self.first(x), 3, return_indices=True)
            return self.last(values), places

    program = quantizer.quantize(Places().eval(), (data[0],), "static_int8", data)
    manager = et.to_edge_transform_and_lower(program).to_executorch()
    (line,) = [line for line in manager.dump().splitlines() if "= aten::adaptive_max_pool2d" in line]
    assert ": i8[2, 8, 3, 3]" in line
    ours = et.load(manager.buffer)(data[0])
    expected = program.module()(data[0])
    assert torch.equal(ours[1], expected[1])
    torch.testing.assert_close(ours[0], expected[0], atol=1e-2, rtol=0)


STAYS_FLOAT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "number": lambda y: y.masked_fill(MASK, -1e9).amax(3, keepdim=True),
    "constant": lambda y: torch.cat([y, PLACES.float().reshape(1, 1, 4, 1).repeat(2, 1, 6, 6)[:, :, :6]], 1),
}


@pytest.mark.parametrize("name", STAYS_FLOAT)
def test_numbers_do_not_spoil_a_scale(name: str) -> None:
    """A number that hides elements would be the range of all others; with it nothing would be left of them."""
    torch.manual_seed(0)
    model, data = Between(STAYS_FLOAT[name]).eval(), [torch.randn(2, 3, 6, 6) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    got, exact = et.load(et.to_edge_transform_and_lower(program).to_executorch().buffer)(data[0]), model(data[0])
    assert (got - exact).square().sum() < 1e-3 * exact.square().sum()


class Beside(nn.Module):
    """A convolution of the model's input, and one of what moves its elements."""

    def __init__(self, move: Callable[[torch.Tensor], torch.Tensor], moved_first: bool) -> None:
        super().__init__()
        self.move, self.moved_first = move, moved_first
        self.whole, self.moved = nn.Conv2d(8, 4, 1), nn.Conv2d(move(torch.zeros(2, 8, 6, 6)).shape[1], 4, 1)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        if self.moved_first:
            return [self.moved(self.move(x)), self.whole(x)]
        return [self.whole(x), self.moved(self.move(x))]


class Alone(nn.Module):
    """Nothing but what moves its elements reads the model's input."""

    def __init__(self, move: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.move, self.layer = move, nn.Conv2d(move(torch.zeros(2, 8, 6, 6)).shape[1], 4, 1)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.layer(self.move(x))]


class Sum(nn.Module):
    """A pooled input that only a sum takes, which is known to be quantized when its other side is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(8, 8, 2, stride=2)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.layer(x) + F.max_pool2d(x, 2)]


OF_INPUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "pools": lambda x: F.max_pool2d(F.max_pool2d(x, 2).flip(2), 3),
    "permute": lambda x: x.permute(0, 1, 3, 2),
    "pad": lambda x: F.pad(x, (1, 2, 1, 1)),
    "upsample": lambda x: F.interpolate(x, scale_factor=2),
    "slice": lambda x: x[:, 2:6],
    "slices": lambda x: x[:, 2:6].flip(2)[..., 1:],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "relu": lambda x: x.relu(),
    "relu of a part": lambda x: x[:, :5].relu()[..., 2:],
    "pooled part": lambda x: F.max_pool2d(x[:, 3:], 2),
    "joined parts": lambda x: torch.cat([part.flip(2) for part in x.chunk(2, 1)], 1),
}
INPUTS = {
    **{f"beside {name}": Beside(move, False) for name, move in OF_INPUTS.items()},
    **{f"behind {name}": Beside(move, True) for name, move in OF_INPUTS.items()},
    **{f"alone {name}": Alone(move) for name, move in OF_INPUTS.items()},
    "beside average": Beside(lambda x: F.avg_pool2d(x, 2), False),
    "behind average": Beside(lambda x: F.avg_pool2d(x, 2), True),
    "sum": Sum(),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("delegated", [False, True])
def test_the_models_input_moves_as_integers(name: str, delegated: bool) -> None:
    """It was moved as floats beside its integers, so that ``quantized_io`` could not make integers of it."""
    model, data = INPUTS[name].eval(), [torch.rand(2, 8, 6, 6) * 2 - 1 for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    partitioners = [XnnpackPartitioner(largest=True)] if delegated else []
    config = ExecutorchBackendConfig(quantized_io=True)
    manager = et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch(config)
    assert "quantized_decomposed::" not in manager.dump().split("method @forward")[1]
    loaded = et.Runtime.get().load_program(manager.buffer)
    scale, zero, low, high = loaded.load_method("forward.input.0").execute([])
    integers = (data[0] / scale).round().add(zero).clamp(low, high).to(torch.int8)
    results = loaded.load_method("forward").execute([integers])
    for index, (ours, expected) in enumerate(zip(results, program.module()(data[0]), strict=True)):
        scale, zero, *_ = loaded.load_method(f"forward.output.{index}").execute([])
        assert ours.dtype == torch.int8
        steps = ((ours.float() - zero) * scale - expected).abs() / scale
        assert steps.max() < 1.01 and (steps > 0.5).sum() <= 1


@pytest.mark.parametrize("take", [lambda x: x[:, :4], lambda x: x.narrow(1, 0, 4)], ids=["slice", "narrow"])
def test_parts_of_the_models_input_keep_their_own_scale(take: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Channels of another size: with the scale of the whole nothing would be left of them."""

    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole, self.part = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.whole(x), self.part(take(x))

    sizes = torch.tensor([0.001] * 4 + [10.0] * 4).reshape(8, 1, 1)
    model, data = Parts().eval(), [torch.randn(2, 8, 6, 6) * sizes for _ in range(4)]
    nn.init.zeros_(model.part.bias)
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    ours, exact = program.module()(data[0])[1], model(data[0])[1]
    assert (ours - exact).square().sum() < 1e-3 * exact.square().sum()


@pytest.mark.parametrize(("size", "is_integers"), [(1.0, True), (0.5, True), (0.2, False)])
def test_parts_of_the_models_input_lose_a_bit_at_most(size: float, is_integers: bool) -> None:
    """Then they keep their floats, and ``quantized_io`` says who reads them."""
    sizes = torch.tensor([1.0] * 4 + [size] * 4).reshape(8, 1, 1)
    model, data = Beside(lambda x: x[:, 4:], False).eval(), [(torch.rand(2, 8, 6, 6) * 2 - 1) * sizes for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    same = Candidates.of(model, (data[0],), "static_int8", data).program()
    scales = [node.args[1] for node in program.graph.nodes if "quantize_per_tensor" in str(node.target)]
    assert scales == [node.args[1] for node in same.graph.nodes if "quantize_per_tensor" in str(node.target)]
    edge = et.to_edge_transform_and_lower(program)
    config = ExecutorchBackendConfig(quantized_io=True)
    if is_integers:
        assert "(%x: i8[2, 8, 6, 6]" in edge.to_executorch(config).dump()
    else:
        text = edge.to_executorch(config).dump()
        assert "(%x: f32[2, 8, 6, 6]" in text and "aten::slice_copy.Tensor_out(%x" in text
    for ours, exact in zip(program.module()(data[0]), model(data[0]), strict=True):
        assert 10 * torch.log10(exact.square().mean() / (ours - exact).square().mean()) > 35


def test_positive_values_alone_lose_nothing() -> None:
    """What is below zero becomes zero before, as it would behind."""
    model, data = Alone(torch.relu).eval(), [torch.randn(2, 8, 6, 6) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    (first, *_) = [node for node in program.graph.nodes if "quantize_per_tensor" in str(node.target)]
    assert first.args[0].op == "placeholder" and first.args[2] == -128


def test_what_was_trained_keeps_its_scales() -> None:
    model, data = Beside(lambda x: x[:, 4:], False), [torch.randn(2, 8, 6, 6) for _ in range(4)]
    prepared = quantizer.prepare_qat(model, (data[0],))
    prepared.train()
    for x in data:
        prepared(x)
    prepared.eval()
    program = quantizer.convert(prepared)
    (part,) = [node for node in program.graph.nodes if "slice" in str(node.target)]
    assert part.args[0].op == "placeholder"


def test_what_nobody_takes_as_integers_stays_float() -> None:
    class Returned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(8, 4, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.layer(x), F.max_pool2d(x, 2)

    model, data = Returned().eval(), [torch.randn(2, 8, 6, 6) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    assert torch.equal(program.module()(data[0])[1], model(data[0])[1])


@pytest.mark.parametrize("delegated", [False, True])
def test_inputs_whose_sizes_are_read_become_integers(delegated: bool) -> None:
    """A view of one input whose batch is that of another, of which a number is read that is no element."""

    class TwoInputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image, self.rows = nn.Conv2d(3, 8, 1), nn.Linear(6, 8)

        def forward(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return self.image(x).mean((2, 3)) + self.rows(v.flatten(1))

    model, data = TwoInputs().eval(), [(torch.randn(2, 3, 4, 4), torch.randn(2, 2, 3)) for _ in range(4)]
    batch = torch.export.Dim("batch", min=1, max=8)
    program = quantizer.quantize(model, data[0], "static_int8", data, dynamic_shapes=({0: batch}, {0: batch}))
    partitioners = [XnnpackPartitioner(largest=True)] if delegated else []
    config = ExecutorchBackendConfig(quantized_io=True)
    manager = et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch(config)
    loaded = et.Runtime.get().load_program(manager.buffer)
    integers = []
    inputs = (torch.randn(5, 3, 4, 4), torch.randn(5, 2, 3))
    for index, x in enumerate(inputs):
        scale, zero, low, high = loaded.load_method(f"forward.input.{index}").execute([])
        integers.append((x / scale).round().add(zero).clamp(low, high).to(torch.int8))
    (ours,) = loaded.load_method("forward").execute(integers)
    scale, zero, *_ = loaded.load_method("forward.output.0").execute([])
    torch.testing.assert_close((ours.float() - zero) * scale, program.module()(*inputs), atol=1.01 * scale, rtol=0)
