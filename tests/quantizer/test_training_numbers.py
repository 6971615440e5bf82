"""What is trained is what is converted, and looking at a model while it trains changes nothing."""

import copy
from typing import Any

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.spec.pt2e import FakeQuantizeBase
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidArgumentError

IMAGES = [torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(i)) for i in range(6)]


class Net(nn.Module):
    """Batch norms behind convolutions, depthwise and transposed ones; a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU6(),
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.ConvTranspose2d(16, 8, 2, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean((2, 3)))


def trained(config: Any) -> torch.fx.GraphModule:
    torch.manual_seed(0)
    prepared = quantizer.prepare_qat(Net(), (IMAGES[0],), config)
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.05)
    prepared.train()
    for image in IMAGES:
        optimizer.zero_grad()
        prepared(image).square().mean().backward()
        optimizer.step()
    return prepared.eval()


CONFIGS: dict[str, Any] = {
    "int8": lambda: quantizer.quantization_config(qat=True),
    "int4": lambda: quantizer.quantization_config(weights="int4", qat=True),
    "int16": lambda: quantizer.quantization_config("int16", qat=True),
    "symmetric": lambda: quantizer.quantization_config(symmetric_activations=True, qat=True),
    "published": lambda: quantizer.get_symmetric_quantization_config(is_qat=True),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_converted_model_is_the_trained_one(name: str) -> None:
    """Weights were trained with a seventh of the largest as their step and converted with 2/15 (int4): 10 dB apart."""
    prepared = trained(CONFIGS[name]())
    with torch.no_grad():
        expected = prepared(IMAGES[1])
        actual = quantizer.convert(prepared).module()(IMAGES[1])
    step = 2e-6 * float(expected.abs().max())
    torch.testing.assert_close(actual, expected, atol=step, rtol=0)


def test_evaluation_changes_nothing() -> None:
    """Data that are evaluated between epochs moved the scales of activations."""
    prepared = trained(quantizer.quantization_config(qat=True))
    with torch.no_grad():
        expected = prepared(IMAGES[0])
        for image in IMAGES:
            prepared(10 * image)
        assert torch.equal(prepared(IMAGES[0]), expected)
        prepared.train()
        prepared(10 * IMAGES[0])
        assert not torch.equal(prepared.eval()(IMAGES[0]), expected)


def test_observers_that_a_user_stopped_stay_stopped() -> None:
    from torchao.quantization.pt2e import disable_observer

    prepared = trained(quantizer.quantization_config(qat=True))
    prepared.train()
    prepared.apply(disable_observer)
    with torch.no_grad():
        expected = copy.deepcopy(prepared.eval())(IMAGES[0])
        prepared.train()
        prepared(10 * IMAGES[0])
    scales = [float(m.scale[0]) for m in prepared.modules() if hasattr(m, "observer_enabled")]
    prepared.train()
    prepared(10 * IMAGES[0])
    assert scales == [float(m.scale[0]) for m in prepared.modules() if hasattr(m, "observer_enabled")]
    assert expected.isfinite().all()


def test_a_model_that_is_not_trained_may_be_observed_in_eval_mode() -> None:
    torch.manual_seed(0)
    prepared = quantizer.prepare_qat(Net(), (IMAGES[0],)).eval()
    prepared(IMAGES[0])
    with torch.no_grad():
        assert quantizer.convert(prepared).module()(IMAGES[0]).isfinite().all()


def _trained(prepared: Any, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(prepared.parameters(), lr=1e-2)
    prepared.train()
    for _ in range(steps):
        loss = prepared(torch.randn(8, 6, generator=generator) * 3).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("taken_in_training_mode", [True, False])
@pytest.mark.parametrize("loaded_in_training_mode", [True, False])
@pytest.mark.parametrize("qat", [{}, {"dynamic": True}], ids=["static", "dynamic"])
def test_training_goes_on_from_a_checkpoint(
    taken_in_training_mode: bool, loaded_in_training_mode: bool, qat: dict[str, Any]
) -> None:
    """What was saved after an evaluation held activations that stand still, and they never followed the data again."""

    def prepare() -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        return quantizer.prepare_qat(model, (torch.randn(8, 6),), quantizer.quantization_config(qat=True, **qat))

    first, second = prepare(), prepare()
    _trained(first, 4, seed=1)
    first.train(taken_in_training_mode)
    _trained(second, 1, seed=2)  # so that it has seen something, too
    second.train(loaded_in_training_mode)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    x = torch.randn(8, 6) * 5
    second.eval()
    before = second(x)
    assert torch.equal(before, second(x))
    for prepared in (first, second):
        _trained(prepared, 3, seed=3)
        prepared.eval()
    assert torch.equal(first(x), second(x))
    assert not torch.equal(before, second(x))
    expected = second(x)
    assert torch.equal(quantizer.convert(second).module()(x), expected)


def test_a_checkpoint_keeps_what_a_user_stopped() -> None:
    first, second = (quantizer.prepare_qat(nn.Linear(6, 3), (torch.randn(8, 6),)) for _ in range(2))
    _trained(first, 2, seed=1)
    for module in first.modules():
        if isinstance(module, FakeQuantizeBase):
            module.disable_observer()
    first.eval()
    second.load_state_dict(first.state_dict())
    second.train()
    stopped = [m for m in second.modules() if isinstance(m, FakeQuantizeBase)]
    assert stopped and not any(int(m.observer_enabled[0]) for m in stopped)


def test_nan_while_training_is_named() -> None:
    """It was an AssertionError of the library, without the layer."""
    prepared = quantizer.prepare_qat(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3)), (torch.randn(8, 6),))
    prepared.train()
    with torch.no_grad():
        prepared(torch.randn(8, 6))
        with pytest.raises(InvalidArgumentError, match=r"'input', which aten.linear.default .* reads, is NaN"):
            prepared(torch.full((8, 6), float("nan")))


def test_transposed_convolutions_train_with_their_batch_norm() -> None:
    """Their channels lie along the second axis, which torchao's fused fake quantization refused at the first call."""
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 6, 2, stride=2), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 2, 1)
    )  # fmt: skip
    x = IMAGES[0]
    prepared = quantizer.prepare_qat(model, (x,))
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    losses = []
    prepared.train()
    for _ in range(8):
        loss = (prepared(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0], losses
    prepared.eval()
    with torch.no_grad():
        trained = prepared(x)
    program = quantizer.convert(prepared)
    scales = [node.args[1] for node in program.graph.nodes if "dequantize_per_channel" in str(node.target)]
    assert len(scales) == 3
    run = et.load(
        et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )
    assert (run(x) - trained).abs().max() < 0.05
