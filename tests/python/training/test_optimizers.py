"""SGD and AdamW beside torch.optim, with random options; groups, states, errors."""

import copy
import random

import numpy as np
import pytest
import torch

from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from executorch_py.training import SGD, AdamW, get_sgd_optimizer

SHAPES = {"a": (7,), "b": (3, 5), "c": (), "d": (2, 0), "e": (4, 1, 33)}


def _parameters(dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in SHAPES.items()}


def _options(kind, draw):
    decay = draw.choice([0.0, 0.01, 0.3])
    if kind == "SGD":
        momentum = draw.choice([0.0, 0.5, 0.9])
        nesterov = momentum > 0 and draw.random() < 0.5
        dampening = 0.0 if nesterov else draw.choice([0.0, 0.3])
        return {
            "lr": draw.uniform(0.001, 0.5),
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": decay,
            "nesterov": nesterov,
        }
    return {
        "lr": draw.uniform(1e-4, 0.1),
        "betas": (draw.choice([0.0, 0.8, 0.9]), draw.choice([0.9, 0.999])),
        "eps": draw.choice([1e-8, 1e-3]),
        "weight_decay": decay,
        "amsgrad": draw.random() < 0.5,
    }


def _pair(kind, parameters, options):
    ours = {"SGD": SGD, "AdamW": AdamW}[kind](parameters, **options)
    theirs = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    return ours, theirs, getattr(torch.optim, kind)(list(theirs.values()), **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("seed", range(6))
def test_steps_are_torchs(kind, dtype, seed):
    draw = random.Random(f"{kind} {seed}")
    parameters = _parameters(dtype)
    ours, theirs, reference = _pair(kind, parameters, _options(kind, draw))
    for step in range(5):
        gradients = {name: value * (step - 1.5) for name, value in _parameters(dtype, 10 + step).items()}
        left_out = draw.choice([None, "b"])
        for name, parameter in theirs.items():
            parameter.grad = None if name == left_out else gradients[name].clone()
        ours.step({name: value for name, value in gradients.items() if name != left_out})
        reference.step()
        ours.param_groups[0]["lr"] *= 0.7
        reference.param_groups[0]["lr"] *= 0.7
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for name, parameter in theirs.items():
        torch.testing.assert_close(parameters[name], parameter.detach(), **tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_steps_of_narrow_parameters_are_float_steps_rounded(kind, dtype):
    parameters = _parameters(dtype)
    wide = {name: value.float() for name, value in parameters.items()}
    _, theirs, reference = _pair(kind, wide, {"lr": 0.05})
    gradients = _parameters(dtype, 3)
    for name, parameter in theirs.items():
        parameter.grad = gradients[name].float()
    {"SGD": SGD, "AdamW": AdamW}[kind](parameters, lr=0.05).step(gradients)
    reference.step()
    for name, parameter in theirs.items():
        torch.testing.assert_close(parameters[name], parameter.detach().to(dtype))


def test_groups_have_options_of_their_own():
    parameters = _parameters(torch.float32)
    before = copy.deepcopy(parameters)
    first = {name: parameters[name] for name in "ab"}
    optimizer = SGD([{"params": first, "lr": 1.0}, {"params": {"c": parameters["c"]}, "weight_decay": 0.5}], lr=0.1)
    optimizer.step({name: torch.ones_like(parameters[name]) for name in "abc"})
    torch.testing.assert_close(parameters["a"], before["a"] - 1)
    torch.testing.assert_close(parameters["c"], before["c"] - 0.1 * (1 + 0.5 * before["c"]))
    assert torch.equal(parameters["e"], before["e"])


def test_numpy_arrays_are_trained_too():
    values = {"w": np.ones((3, 2), np.float32)}
    get_sgd_optimizer(values, 0.5).step({"w": np.full((3, 2), 2, np.float32)})
    np.testing.assert_array_equal(values["w"], np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_a_state_that_comes_back_goes_on_as_before(kind):
    options = {"momentum": 0.9} if kind is SGD else {"amsgrad": True}
    parameters = _parameters(torch.float32)
    optimizer = kind(parameters, lr=0.1, **options)
    gradients = _parameters(torch.float32, 2)
    optimizer.step(gradients)
    state, kept = optimizer.state_dict(), copy.deepcopy(parameters)
    assert state["state"]["b"]["step"] == 1
    optimizer.step(gradients)
    other = kind(kept, lr=5.0, **options)
    other.load_state_dict(state)
    assert other.param_groups[0]["lr"] == 0.1
    other.step(gradients)
    for name, value in parameters.items():
        assert torch.equal(kept[name], value)
    with pytest.raises(InvalidArgumentError, match="hold the parameters"):
        kind({"a": kept["a"]}, lr=0.1, **options).load_state_dict(state)
    with pytest.raises(InvalidArgumentError, match="another optimizer's"):
        (AdamW if kind is SGD else SGD)(kept, lr=0.1).load_state_dict(
            {**state, "param_groups": [{"params": list(kept)}]}
        )


def test_errors_in_words():
    parameters = _parameters(torch.float32)
    optimizer = SGD(parameters, lr=0.1)
    gradients = _parameters(torch.float32, 1)
    before = copy.deepcopy(parameters)
    with pytest.raises(InvalidArgumentError, match=r"the gradient 'z'.*the parameter 'a'"):
        optimizer.step({"z": gradients["a"], "b": gradients["b"]})
    with pytest.raises(
        InvalidArgumentError, match=r"gradient of 'e' is torch.float32 \(2,\).*torch.float32 \(4, 1, 33\)"
    ):
        optimizer.step({**gradients, "e": torch.ones(2)})
    with pytest.raises(InvalidArgumentError, match=r"gradient of 'a' is torch\.float64"):
        optimizer.step({**gradients, "a": gradients["a"].double()})
    with pytest.raises(InvalidArgumentError, match="not contiguous"):
        optimizer.step({"b": torch.ones(5, 3).t()})
    assert all(torch.equal(parameters[name], before[name]) for name in parameters)  # nothing was changed by halves
    with pytest.raises(InvalidTypeError, match=r"'a' is torch\.int64"):
        SGD({"a": torch.arange(3)})
    with pytest.raises(InvalidTypeError, match="must be a tensor"):
        SGD({"a": 3.0})
    with pytest.raises(InvalidTypeError, match="must be a dict of named parameters"):
        SGD(torch.ones(3))
    with pytest.raises(InvalidTypeError, match="gradients is a list"):
        optimizer.step([torch.ones(3)])
    with pytest.raises(InvalidArgumentError, match="no parameters"):
        SGD({})
    with pytest.raises(InvalidArgumentError, match="another group already"):
        SGD([{"params": {"a": parameters["a"]}}, {"params": parameters}])
    with pytest.raises(InvalidArgumentError, match="no option 'lrs'"):
        SGD([{"params": parameters, "lrs": 1}])
    with pytest.raises(InvalidArgumentError, match="read-only"):
        frozen = np.ones(3, np.float32)
        frozen.setflags(write=False)
        SGD({"a": frozen})


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (SGD, {"lr": -1}, "lr is -1, must be at least 0"),
        (SGD, {"lr": "fast"}, "lr is 'fast', must be a number"),
        (SGD, {"lr": float("nan")}, "lr is nan, must be a number"),
        (SGD, {"momentum": -0.5}, "momentum is -0.5"),
        (SGD, {"nesterov": True}, "nesterov needs a momentum above 0"),
        (SGD, {"nesterov": 1, "momentum": 0.9}, "nesterov is 1, must be True or False"),
        (AdamW, {"betas": (0.9, 1.0)}, "beta2 is 1, must be in"),
        (AdamW, {"betas": 0.9}, "betas is 0.9, must be two numbers"),
        (AdamW, {"eps": -1e-8}, "eps is -1e-08"),
        (AdamW, {"weight_decay": -1}, "weight_decay is -1"),
    ],
)
def test_options_out_of_range(kind, options, said):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=said):
        kind({"a": torch.ones(2)}, **options)
