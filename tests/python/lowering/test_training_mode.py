"""A program that computes as its model trains is mentioned, with the operator, its module and what to call."""

import contextlib
import warnings

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidStateError
from executorch_py.graphs.modes import TrainingModeWarning


class Attention(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.2 if self.training else 0.0)


def attention() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), Attention())


TRAINING = {
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), (2, 4), r"aten\.dropout.*\(1,"),
    "alpha dropout": (lambda: nn.Sequential(nn.Linear(4, 4), nn.AlphaDropout(0.5)), (2, 4), "dropout"),
    "dropout of channels": (lambda: nn.Sequential(nn.Conv2d(2, 2, 1), nn.Dropout2d(0.5)), (2, 2, 4, 4), "dropout"),
    "batch norm": (lambda: nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)), (2, 2, 4, 4), "batch_norm"),
    "recurrent layer": (lambda: nn.LSTM(4, 4, 2, dropout=0.5), (3, 2, 4), "lstm"),
    "random slopes": (lambda: nn.Sequential(nn.Linear(4, 4), nn.RReLU()), (2, 4), "rrelu"),
    "attention": (attention, (1, 2, 4, 4), "attention"),
}


def said(program: torch.export.ExportedProgram) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with contextlib.suppress(et.NotSupportedError):  # nothing computes random slopes; what was said before counts
            et.to_edge(program)
    return [str(one.message) for one in seen if isinstance(one.message, TrainingModeWarning)]


@pytest.mark.parametrize("name", TRAINING)
def test_training_mode_is_mentioned(name: str):
    make, shape, operator = TRAINING[name]
    (message,) = said(torch.export.export(make().train(), (torch.randn(shape),)))
    assert "model.eval()" in message and "'forward'" in message
    with pytest.warns(TrainingModeWarning, match=operator):
        warnings.warn(message, TrainingModeWarning, stacklevel=1)
    assert not said(torch.export.export(make().eval(), (torch.randn(shape),)))


@pytest.mark.parametrize(
    "layer", [nn.Dropout(0.0), nn.LSTM(4, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 4)], ids=repr
)
def test_what_trains_as_it_evaluates_is_not(layer: nn.Module):
    shape = (3, 2, 4) if isinstance(layer, nn.LSTM) else (2, 4)
    assert not said(torch.export.export(layer.train(), (torch.randn(shape),)))


def test_many_are_counted():
    model = nn.Sequential(*[part for _ in range(5) for part in (nn.Linear(4, 4), nn.Dropout(0.5))])
    (message,) = said(torch.export.export(model, (torch.randn(2, 4),)))
    assert "and 2 more" in message


def test_what_is_prepared_stays_in_evaluation_mode():
    example = (torch.randn(2, 4),)
    prepared = quantizer.prepare(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval(), example, "static_int8")
    with pytest.raises(InvalidStateError, match="prepare_qat"):
        prepared.train()
    assert prepared.eval() is prepared and prepared.train(False) is prepared
    quantizer.calibrate(prepared, [example])
    assert not said(quantizer.convert(prepared))


def test_quantizing_what_trains_is_refused():
    with pytest.raises(InvalidStateError, match=r"model\.eval\(\)"):
        quantizer.quantize(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), (torch.randn(2, 4),), "dynamic_int8")
