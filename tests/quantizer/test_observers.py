"""Observers against brute force on the values themselves."""

import pytest
import torch
from executorch_py.quantizer import (
    GroupwiseObserver,
    HistogramObserver,
    MSEObserver,
    PercentileObserver,
    PerChannelMSEObserver,
)
from executorch_py.quantizer.spec import group_rounding
from executorch_py.quantizer.spec.config import ACTIVATIONS
from executorch_py.quantizer.spec.group_rounding import Grid, fit, round_by_output

from executorch_py import quantizer

GENERATOR = torch.Generator().manual_seed(5)
SAMPLES = {
    "normal": torch.randn(12000, generator=GENERATOR),
    "relu": torch.randn(12000, generator=GENERATOR).relu(),
    "heavy_tail": torch.randn(12000, generator=GENERATOR) ** 3,
    "shifted": torch.randn(12000, generator=GENERATOR) + 3,
    "tiny": torch.randn(12000, generator=GENERATOR) * 1e-6,
}
INT8 = {"dtype": torch.int8, "quant_min": -128, "quant_max": 127}


def error(values, scale, zero_point, low=-128, high=127):
    """Mean squared error of the values as they come back."""
    back = torch.fake_quantize_per_tensor_affine(values, float(scale), int(zero_point), low, high)
    return float((back - values).double().square().mean())


def best_error(values, scheme):
    """The least error over a fine grid of ranges, each end by itself."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    best = float("inf")
    for above in torch.linspace(1, 0.3, 15).tolist():
        for below in torch.linspace(1, 0.3, 15).tolist() if low < 0 else [1.0]:
            if scheme == torch.per_tensor_symmetric:
                limit = max(-low, high) * above
                scale, zero_point = limit / 127.5, 0
            else:
                scale = (high * above - low * below) / 255
                zero_point = max(-128, min(127, round(-128 - low * below / scale)))
            best = min(best, error(values, max(scale, 1e-12), zero_point))
            if scheme == torch.per_tensor_symmetric:
                break
    return best


@pytest.mark.parametrize("scheme", [torch.per_tensor_affine, torch.per_tensor_symmetric], ids=["affine", "symmetric"])
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("observer", [HistogramObserver, MSEObserver])
def test_error_is_near_the_least(observer, name, scheme):
    values = SAMPLES[name]
    made = observer(qscheme=scheme, eps=1e-12, **INT8)
    for part in values.split(2500):
        made(part)
    assert error(values, *made.calculate_qparams()) <= 1.1 * best_error(values, scheme) + 1e-16


def test_growing_range_counts_as_if_it_was_known():
    values = SAMPLES["heavy_tail"]
    ordered = values[values.abs().argsort()]  # the range grows with each part
    streamed = HistogramObserver(**INT8)
    for part in ordered.split(500):
        streamed(part)
    limit = float(streamed.limit)
    expected = torch.histc(values, streamed.bins, min=-limit, max=limit)
    assert float(streamed.histogram.sum()) == values.numel()
    # Values close to the edge of a bin may fall to either side: above all those around zero, where histc has lost their
    # bits.
    counted, wanted = (histogram.roll(1).reshape(-1, 2).sum(1) for histogram in (streamed.histogram, expected))
    assert float((counted - wanted).abs().sum()) <= 1e-3 * values.numel()
    assert float(streamed.max_val) == float(values.max())


@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9, 100.0])
def test_percentile(percentile):
    values = SAMPLES["normal"]
    made = PercentileObserver(percentile=percentile, **INT8)
    made(values)
    scale, _ = made.calculate_qparams()
    ends = torch.quantile(values, torch.tensor([1 - percentile / 100, percentile / 100]))
    assert float(scale) == pytest.approx(float(ends[1] - ends[0]) / 255, rel=0.02)


def test_zero_alone_and_nothing_at_all():
    made = HistogramObserver(**INT8)
    made(torch.zeros(5))
    made(torch.empty(0))
    scale, zero_point = made.calculate_qparams()
    assert float(scale) > 0 and -128 <= int(zero_point) <= 127


def test_channels():
    weight = torch.randn(6, 4, 3, 3, generator=GENERATOR) ** 3
    made = PerChannelMSEObserver(quant_min=-8, quant_max=7)
    made(weight)
    scales, zero_points = made.calculate_qparams()
    plain = weight.flatten(1).abs().amax(1) / 7.5
    for row, scale, full in zip(weight.flatten(1), scales, plain, strict=True):
        assert error(row, scale, 0, -8, 7) <= error(row, full, 0, -8, 7)
    assert not zero_points.any()


def test_groups():
    weight = torch.randn(5, 96, generator=GENERATOR)
    made = GroupwiseObserver(group_size=32)
    made(weight)
    scales, _ = made.calculate_qparams()
    assert scales.shape == (5, 3)
    assert torch.equal(scales, scales.bfloat16().float())
    odd = GroupwiseObserver(group_size=32)
    odd(torch.randn(5, 33, generator=GENERATOR))
    assert odd.calculate_qparams()[0].shape == (5,)


def grouped(weight, integers, scales, zero_points, group):
    """A weight as its integers give it back."""
    steps = integers.reshape(len(weight), -1, group).float() - zero_points.unsqueeze(-1)
    return (steps * scales.unsqueeze(-1)).reshape(weight.shape)


@pytest.mark.parametrize("kind", ["normal", "shifted", "constant", "zero", "tiny"])
def test_zero_points_of_groups(kind):
    """A zero point loses no more than none, and integers and parameters stay within their types."""
    base = torch.randn(6, 64, generator=GENERATOR)
    weight = {
        "normal": base,
        "shifted": base.abs() + 0.5,
        "constant": torch.full_like(base, -0.3),
        "zero": torch.zeros_like(base),
        "tiny": base * 1e-20,
    }[kind]
    errors = []
    for symmetric in (True, False):
        grid = Grid(-8, 7, symmetric)
        groups = weight.reshape(-1, 32)
        scales, zero_points = fit(groups, grid)
        integers = grid.rounded(groups, scales, zero_points)
        assert (scales > 0).all() and scales.isfinite().all()
        for numbers in (integers, zero_points):
            assert torch.equal(numbers, numbers.round()) and numbers.min() >= -8 and numbers.max() <= 7
        back = grouped(weight, integers, scales.reshape(6, 2), zero_points.reshape(6, 2), 32)
        errors.append(float((back - weight).double().square().sum()))
    assert errors[1] <= errors[0] * 1.001
    assert errors[1] < 0.8 * errors[0] or kind != "shifted"


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("blocks", [1, 2])
def test_rounding_by_output(symmetric, blocks):
    """On inputs that belong together the layer's output loses much less than with each weight rounded by itself."""
    weight = torch.randn(48, 64, generator=GENERATOR)
    x = torch.randn(512, 16, generator=GENERATOR) @ torch.randn(16, 64, generator=GENERATOR)
    x += 0.1 * torch.randn(512, 64, generator=GENERATOR)
    moments = torch.stack([part.T @ part for part in x.split(64 // blocks, 1)])
    grid = Grid(-8, 7, symmetric)
    integers, scales, zero_points = round_by_output(weight, moments, 32, grid, len(x))
    assert torch.equal(integers, integers.round()) and integers.min() >= -8 and integers.max() <= 7
    by_itself, by_zero = fit(weight.reshape(-1, 32), grid)
    plain = grid.rounded(weight.reshape(-1, 32), by_itself, by_zero)
    losses = [
        float(((grouped(weight, q, s, z, 32) - weight) @ x.T).square().sum())
        for q, s, z in ((integers, scales, zero_points), (plain, by_itself.reshape(48, 2), by_zero.reshape(48, 2)))
    ]
    assert losses[0] < 0.6 * losses[1]
    nothing_seen = grouped(weight, *round_by_output(weight, torch.zeros(64, 64), 32, grid, len(x)), 32)
    alone = grouped(weight, plain, by_itself.reshape(48, 2), by_zero.reshape(48, 2), 32)
    assert (nothing_seen - weight).square().sum() <= (alone - weight).square().sum() * 1.000001


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_second_look_makes_every_row_better(symmetric, monkeypatch):
    weight = torch.randn(48, 64, generator=GENERATOR)
    x = torch.randn(2000, 16, generator=GENERATOR) @ torch.randn(16, 64, generator=GENERATOR)
    x += 0.5 * torch.randn(2000, 64, generator=GENERATOR)
    losses = {}
    for rounds in (0, 1, 4):
        monkeypatch.setattr(group_rounding, "_ROUNDS", rounds)
        found = round_by_output(weight, x.T @ x, 32, Grid(-8, 7, symmetric), len(x))
        losses[rounds] = ((grouped(weight, *found, 32) - weight) @ x.T).square().sum(1)
    assert (losses[1] <= losses[0] * 1.01).all() and (
        losses[4] <= losses[1] * 1.01
    ).all()  # damped moments are the measure
    assert losses[4].sum() < 0.93 * losses[0].sum()


@pytest.mark.parametrize("count", [16, 64, 256])
def test_rounding_by_the_output_of_few_samples(count):
    """Columns make up for one another by what few samples show as far as it holds for others: the loss on unseen
    rows.
    """
    weight = torch.randn(96, 256, generator=GENERATOR)
    mix = torch.randn(64, 256, generator=GENERATOR)
    draw = lambda rows: (  # noqa: E731
        torch.randn(rows, 64, generator=GENERATOR) @ mix + 2 * torch.randn(rows, 256, generator=GENERATOR)
    )
    seen, unseen = draw(count), draw(2000)
    losses = {}
    for num_rows in (count, 10**9):  # the second: as if there were no end of samples
        found = round_by_output(weight, seen.T @ seen, 32, Grid(-8, 7, False), num_rows)
        losses[num_rows] = float(((grouped(weight, *found, 32) - weight) @ unseen.T).square().sum())
    assert losses[count] < 0.97 * losses[10**9], losses


def test_small_operators_run_on_one_thread(monkeypatch):
    """Rounding is hundreds of operators on a few numbers, for which threads only wait for each other. The caller's
    number of threads comes back, and the integers do not depend on it.
    """
    weight, x = torch.randn(64, 64, generator=GENERATOR), torch.randn(200, 64, generator=GENERATOR)
    before, seen, found = torch.get_num_threads(), [], {}
    inner = group_rounding._look_again
    monkeypatch.setattr(
        group_rounding, "_look_again", lambda *given: (seen.append(torch.get_num_threads()), inner(*given))
    )
    try:
        torch.set_num_threads(2)
        for worth in (1 << 18, 0):
            monkeypatch.setattr(group_rounding, "_WORTH_THREADS", worth)
            found[worth] = round_by_output(weight, x.T @ x, 32, Grid(-8, 7), len(x))
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 2]
    assert all(torch.equal(a, b) for a, b in zip(*found.values(), strict=True))


def test_moments_know_their_rows():
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 16)).eval()
    prepared = quantizer.prepare(model, (torch.randn(3, 64),), "int4_weight_only")
    quantizer.calibrate(prepared, [(torch.randn(3, 64),)] * 5)
    found = [module for module in prepared.modules() if isinstance(module, GroupwiseObserver)]
    assert [observer.num_rows for observer in found] == [15, 15]


@pytest.mark.parametrize("dtype", ACTIVATIONS)
@pytest.mark.parametrize("observer", ["min_max", "moving_average", "histogram", "percentile", "mse"])
def test_every_observer_with_every_dtype(observer, dtype):
    config = quantizer.quantization_config(dtype, observer=observer)
    spec = config.input_activation
    made = spec.observer_or_fake_quant_ctr.with_args(
        dtype=spec.dtype, quant_min=spec.quant_min, quant_max=spec.quant_max, qscheme=spec.qscheme
    )()
    values = SAMPLES["shifted"]
    made(values)
    scale, zero_point = made.calculate_qparams()
    back = torch.fake_quantize_per_tensor_affine(values, float(scale), int(zero_point), spec.quant_min, spec.quant_max)
    signal = float(values.square().mean() / (back - values).square().mean())
    assert signal > 1e4
