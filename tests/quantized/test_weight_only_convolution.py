"""Convolutions of floats with integer filters: every form, equal to the convolution with the dequantized filter."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py.devtools.requirements import requirements

q = torch.ops.quantized_decomposed

BY_COST = ""  # ours with AVX-512, the library without: part of either name

# input, filter, options of the convolution, who runs it
FORMS = {
    "line": ((2, 6, 17), (9, 6, 3), {"stride": 2, "padding": 1}, "xnnpack"),
    "strided": ((2, 5, 9, 11), (9, 5, 3, 3), {"stride": (2, 1), "padding": (1, 2)}, BY_COST),
    "pointwise": ((2, 16, 9, 11), (24, 16, 1, 1), {}, "optimized"),
    "tiles": ((1, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}, "optimized"),
    "dilated": ((1, 4, 12, 12), (5, 4, 3, 2), {"dilation": (2, 3)}, "xnnpack"),
    "grouped": ((2, 9, 7, 7), (15, 3, 3, 3), {"groups": 3}, BY_COST),
    "depthwise": ((1, 17, 14, 14), (17, 1, 3, 3), {"groups": 17, "padding": 1}, "optimized"),
    "volume": ((1, 3, 5, 6, 7), (5, 3, 2, 3, 2), {}, "xnnpack"),
    "volume_grouped": ((1, 6, 5, 6, 7), (4, 3, 2, 3, 2), {"groups": 2}, "optimized"),
    "unbatched": ((3, 6, 7), (5, 3, 3, 3), {}, "xnnpack"),
    "transposed": ((2, 5, 5, 6), (5, 4, 3, 3), {"stride": 2, "padding": (1, 0), "output_padding": 1}, "xnnpack"),
    "patches": ((1, 40, 28, 28), (40, 24, 2, 2), {"stride": 2}, "optimized"),
    "transposed_grouped": ((1, 6, 5, 4), (6, 2, 2, 3), {"stride": (2, 3), "groups": 3}, "xnnpack"),
}


class Layer(nn.Module):
    """Random integers, a scale (and a zero point on request) for each channel or for all, a relu behind."""

    def __init__(self, form: str, bits: int, per_channel: bool, has_zeros: bool) -> None:
        super().__init__()
        _, size, self.options, _ = FORMS[form]
        spatial = len(size) - 2
        self.axis = int(form in ("transposed", "patches", "transposed_grouped"))
        self.op = getattr(F, f"conv_transpose{spatial}d" if self.axis else f"conv{spatial}d")
        self.low, self.high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        self.register_buffer("integers", torch.randint(self.low, self.high + 1, size, dtype=torch.int8))
        count = size[self.axis] if per_channel else 1
        self.register_buffer("scales", torch.rand(count) * 0.05 + 0.01)
        zeros = torch.randint(self.low // 2, self.high // 2, (count,)) if has_zeros else torch.zeros(count)
        self.register_buffer("zeros", zeros.long())
        self.one = (float(self.scales[0]), int(self.zeros[0]))
        self.per_channel = per_channel
        self.bias = nn.Parameter(torch.randn(size[self.axis] * (self.options.get("groups", 1) if self.axis else 1)))

    def weight(self) -> torch.Tensor:
        limits = (self.low, self.high, torch.int8)
        if self.per_channel:
            return q.dequantize_per_channel(self.integers, self.scales, self.zeros, self.axis, *limits)
        return q.dequantize_per_tensor(self.integers, *self.one, *limits)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.op(x, self.weight(), self.bias, **self.options)
        return F.relu(self.op(x, self.weight(), None, **self.options)), y.sigmoid()


@pytest.mark.parametrize(
    ("bits", "per_channel", "has_zeros"), [(4, True, False), (4, False, True), (8, True, True), (8, False, False)]
)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, bits: int, per_channel: bool, has_zeros: bool) -> None:
    torch.manual_seed(len(form) + bits)
    layer, x = Layer(form, bits, per_channel, has_zeros).eval(), torch.randn(FORMS[form][0])
    exported = torch.export.export(layer, (x,))
    for partitioner in ([], [XnnpackPartitioner(largest=True)]):
        manager = et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch()
        needs = {need.operator: need for need in requirements(manager.buffer)}
        assert not [name for name in needs if name.startswith("quantized_decomposed")], list(needs)
        need = needs["et::weight_only_convolution.out"]
        assert need.calls == 2
        assert all(FORMS[form][3] in str(kernel) for kernel in need.kernels), need.kernels
        constants = [line for line in manager.dump().splitlines() if line.startswith("constant")]
        assert any("_packed" in line for line in constants) == (bits == 4)
        program = et.Runtime.get().load_program(manager.buffer)
        actual = program.load_method("forward").execute((x,))
        again = program.load_method("forward").execute((x,))  # on what the first one packed
        with torch.no_grad():
            expected = layer(x)
        size = float(expected[0].abs().max())
        for ours, same, theirs in zip(actual, again, expected, strict=True):
            assert torch.equal(ours, same)
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6 * max(1.0, size))


@pytest.mark.parametrize("form", ["tiles", "depthwise", "patches"])
def test_loads_at_once(form: str) -> None:
    """Threads that load a Program's method together find one packed filter, whoever packs it."""
    torch.manual_seed(0)
    layer, x = Layer(form, 4, True, True).eval(), torch.randn(FORMS[form][0])
    buffer = et.to_edge_transform_and_lower(torch.export.export(layer, (x,))).to_executorch().buffer
    with torch.no_grad():
        expected = layer(x)
    for _ in range(5):
        program = et.Runtime.get().load_program(buffer)
        barrier = Barrier(4)

        def run(program: et.Program = program, barrier: Barrier = barrier) -> list[torch.Tensor]:
            barrier.wait()
            return list(program.load_method("forward").execute((x,)))

        with ThreadPoolExecutor(4) as threads:
            results = [future.result() for future in [threads.submit(run) for _ in range(4)]]
        for ours, theirs in zip(results[0], expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6 * float(expected[0].abs().max()))
        for others in results[1:]:
            assert all(torch.equal(ours, same) for ours, same in zip(results[0], others, strict=True))


def test_same_integers_with_other_scales() -> None:
    """Two layers share a constant of integers; what is packed of it is not shared."""

    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("integers", torch.randint(-128, 128, (32, 32, 3, 3), dtype=torch.int8))
            self.register_buffer("thin", torch.randint(-128, 128, (8, 4, 3, 3), dtype=torch.int8))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            limits = (-128, 127, torch.int8)
            one, two = (q.dequantize_per_tensor(self.integers, s, 0, *limits) for s in (0.01, 0.02))
            three, four = (q.dequantize_per_tensor(self.thin, s, z, *limits) for s, z in ((0.01, 0), (0.01, 5)))
            return [
                *(F.conv2d(x, w, padding=1) for w in (one, two)),
                *(F.conv2d(x[:, :4], w, stride=2) for w in (three, four)),
            ]

    torch.manual_seed(0)
    module, x = Twins().eval(), torch.randn(1, 32, 28, 28)
    buffer = et.to_edge_transform_and_lower(torch.export.export(module, (x,))).to_executorch().buffer
    actual = et.Runtime.get().load_program(buffer).load_method("forward").execute((x,))
    for ours, theirs in zip(actual, module(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def test_what_stays_dequantized() -> None:
    """Scales along another axis, and filters that are used as such."""

    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("integers", torch.randint(-128, 128, (8, 4, 3), dtype=torch.int8))
            self.register_buffer("scales", torch.rand(4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            zeros = torch.zeros(4, dtype=torch.int64)
            weight = q.dequantize_per_channel(self.integers, self.scales, zeros, 1, -128, 127, torch.int8)
            return F.conv1d(x, weight), weight.sum()

    torch.manual_seed(0)
    module, x = Other().eval(), torch.randn(1, 4, 9)
    manager = et.to_edge_transform_and_lower(torch.export.export(module, (x,))).to_executorch()
    assert "et::weight_only_convolution" not in manager.dump()
    (actual, _) = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute((x,))
    torch.testing.assert_close(actual, module(x)[0], rtol=1e-4, atol=1e-3)
