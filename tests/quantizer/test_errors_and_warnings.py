"""Arguments that are none, data that makes no sense: errors and warnings that say what to do."""

import re
import warnings
from pathlib import Path

import pytest
import torch
from executorch_py.quantizer.calibration.checks import QuantizationWarning
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError, NotSupportedError

X = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
SAMPLES = [torch.randn(32, 8, generator=torch.Generator().manual_seed(i)) for i in range(20)]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


@pytest.mark.parametrize(
    ("data", "words"),
    [(3, "a int, must be an iterable"), ("abc", "a str, must"), ({"input": X}, "one sample; give a list")],
)
def test_data_that_are_no_samples(data: object, words: str):
    with pytest.raises(InvalidTypeError, match=words):
        quantizer.quantize(model(), (X,), "static_int8", data)


def test_calibrating_what_has_no_observers():
    with pytest.raises(InvalidStateError, match="what prepare made"):
        quantizer.calibrate(model(), SAMPLES)  # type: ignore[arg-type]
    prepared = quantizer.prepare(model(), (X,))
    quantizer.calibrate(prepared, SAMPLES)
    quantizer.convert(prepared)
    with pytest.raises(InvalidStateError, match="what prepare made"):
        quantizer.calibrate(prepared, SAMPLES)


@pytest.mark.parametrize("size", [0, -4, "32", 2.5])
def test_sizes_of_groups(size: object):
    with pytest.raises(InvalidArgumentError, match="group_size is"):
        quantizer.quantization_config(None, "int4", group_size=size)  # type: ignore[arg-type]


def test_observers_that_are_none():
    with pytest.raises(InvalidTypeError, match="observer is 3, must be one of 'min_max'"):
        quantizer.quantization_config(observer=3)


def outlier(size: float) -> torch.Tensor:
    return torch.where(torch.arange(16).reshape(2, 8) == 3, torch.tensor(size), X)


@pytest.mark.parametrize("observer", ["min_max", "moving_average", "histogram", "mse"])
def test_outliers_beside_which_values_share_few_integers(observer: str):
    """Their ranges hold the outlier, and the model computes with a few integers for everything else."""
    config = quantizer.quantization_config(observer=observer)
    with pytest.warns(
        QuantizationWarning,
        match=r"few integers for nearly all values beside a few outliers[^\n]*"
        r"PercentileObserver[^\n]*set_module_name.*\n"
        r"  'input', which aten.linear.default \(0, .*linear.py:\d+\) reads, reaches .*\d %",
    ):
        quantizer.quantize(model(), (X,), config, [outlier(1e6), *SAMPLES])


@pytest.mark.parametrize("observer", ["min_max", "histogram"])
def test_a_channel_that_takes_the_range(observer: str):
    """One of 32: it was no outlier to a rule about 98 % of the values, and the others were zero."""
    wide = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 4)).eval()
    with torch.no_grad():
        wide[0].bias[3] = 5000.0
    with pytest.warns(QuantizationWarning, match=r"few integers(.|\n)*the result of aten.linear.default \(0, "):
        quantizer.quantize(wide, (X,), quantizer.quantization_config(observer=observer), SAMPLES)


@pytest.mark.filterwarnings("error::executorch_py.quantizer.calibration.checks.QuantizationWarning")
@pytest.mark.parametrize("observer", ["histogram", "min_max"])
@pytest.mark.parametrize("move", [nn.Identity(), nn.Unflatten(1, (1, -1))])
def test_probabilities_have_no_outliers(observer: str, move: nn.Module):
    """Those near 1 are what softmax says: without them, which the remedy was, the layer's result had 12 dB instead of
    37.
    """
    samples = [10 * torch.randn(8, 16) for _ in range(6)]
    chooser = nn.Sequential(nn.Linear(16, 1000), nn.Softmax(-1), move, nn.Linear(1000, 8)).eval()
    quantizer.quantize(
        chooser, (samples[0],), quantizer.quantization_config("int8", "int8", observer=observer), samples
    )


@pytest.mark.parametrize("observer", ["percentile", "min_max", "moving_average", "histogram", "mse"])
def test_values_that_share_many_integers_are_no_outliers(observer: str):
    """Heavy tails, values of which most are zero, and outliers that the observer cuts off."""
    kind: object = quantizer.PercentileObserver.with_args(percentile=99.0) if observer == "percentile" else observer
    data = [sample**3 * (sample > -1) for sample in SAMPLES] + ([outlier(400.0)] if observer == "percentile" else [])
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuantizationWarning)
        quantizer.quantize(model(), (X,), quantizer.quantization_config(observer=kind), data)
        quantizer.quantize(
            model(), (X,), quantizer.quantization_config("int16", observer=observer), [outlier(400.0), X]
        )


@pytest.mark.parametrize("operator", ["aten.add", nn.Linear, torch.relu])
def test_operators_that_are_none(operator: object):
    """With None as the configuration they were without effect, in silence."""
    with pytest.raises(InvalidTypeError, match=r"must be one as torch.export writes it.*set_module_type"):
        quantizer.XNNPACKQuantizer().set_global("static_int8").set_operator_type(operator, None)


def test_eager_mode_is_named_before_training_mode():
    stub = torch.ao.quantization.QuantStub()
    with pytest.raises(NotSupportedError, match=r"eager-mode[\s\S]*give the float model"):
        quantizer.quantize(nn.Sequential(stub, nn.Linear(8, 4)).train(), (X,), "static_int8", SAMPLES)


@pytest.mark.parametrize("preset", ["int4_weight_only", "dynamic_int4"])
def test_columns_that_groups_do_not_divide_are_told(preset: str, tmp_path: Path):
    """They got one scale a row, in silence. Rows of less than a group have no more than they asked for."""
    torch.manual_seed(0)
    odd = nn.Sequential(nn.Linear(8, 100), nn.Linear(100, 64), nn.Linear(64, 46), nn.Linear(46, 3)).eval()
    with pytest.warns(QuantizationWarning, match="one scale for each whole row") as caught:
        program = quantizer.quantize(odd, (X,), preset)
    (text,) = [str(one.message) for one in caught if "whole row" in str(one.message)]
    first, *places = text.splitlines()
    assert "group_size" in first and "set_module_name" in first and len(places) == 2, text
    assert re.search(
        r"'1.weight', which aten.linear.default \(1, .*linear.py:\d+\) reads, has 100 columns, no multiple of 32: "
        r"group_size=25 divides",
        places[0],
    ), text
    assert places[1].endswith("has 46 columns, no multiple of 32: group_size=23 divides them"), text
    torch.export.save(program, tmp_path / "odd.pt2")
    for said in (program, torch.export.load(tmp_path / "odd.pt2")):
        notes = {row.module_path: " ".join(row.notes) for row in et.quantization_report(odd, said, [(X,)]).layers}
        assert {path for path, note in notes.items() if "whole row" in note and "no multiple of 32" in note} == {
            "1",
            "3",
        }


ROWS = (torch.randn(2, 4, generator=torch.Generator().manual_seed(0)),)


def two_layers():
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()


def test_part_in_training_mode_is_refused():
    model = two_layers()
    model[1].train()
    with pytest.raises(InvalidStateError, match=r"'1', a Dropout, is in training mode"):
        quantizer.quantize(model, ROWS, "dynamic_int8")


def test_what_is_quantized_already_is_refused():
    program = quantizer.quantize(two_layers(), ROWS, "static_int8", [ROWS])
    with pytest.raises(InvalidStateError, match="quantized already"):
        quantizer.quantize(program, config_or_quantizer="dynamic_int8")
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = two_layers()
    quantize_(model, Int8WeightOnlyConfig())
    with pytest.raises(NotSupportedError, match=r"'0.weight' is a Int8Tensor.*to_edge_transform_and_lower"):
        quantizer.quantize(model, ROWS, "static_int8", [ROWS])


def test_configuration_for_training_is_refused():
    with pytest.raises(InvalidArgumentError, match="prepare_qat"):
        quantizer.quantize(two_layers(), ROWS, quantizer.quantization_config(qat=True), [ROWS])


def test_arrays_are_no_samples():
    with pytest.raises(InvalidArgumentError, match=r"torch\.from_numpy"):
        quantizer.quantize(two_layers(), ROWS, "static_int8", [ROWS[0].numpy()])


def test_operator_that_is_not_there_is_a_warning():
    choice = quantizer.XNNPACKQuantizer().set_global("static_int8")
    choice.set_operator_type(torch.ops.aten.conv2d.default, "dynamic_int8")
    with pytest.warns(QuantizationWarning, match=r"no operator of the model is aten.conv2d.default"):
        quantizer.quantize(two_layers(), ROWS, choice, [ROWS])
