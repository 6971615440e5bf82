"""Weight pruning: which weights become zero, what a schedule does, what stays zero in training, and errors."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from executorch_py import pruning
from executorch_py.errors import InvalidArgumentError, InvalidStateError, NotSupportedError


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4, 16), nn.ReLU(), nn.Linear(16, 4))


def zeros(model: nn.Module) -> dict[str, float]:
    return {row.name: row.fraction for row in pruning.sparsity(model) if row.name.endswith("weight")}


@pytest.mark.parametrize("amount", [0.0, 0.3, 0.5, 0.9])
def test_the_smallest_of_each_layer_go(amount):
    model = network()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert pruning.prune_weights(model, amount) is model
    for name in ("0.weight", "3.weight", "5.weight"):
        reference = copy.deepcopy(before[name])
        count = round(amount * reference.numel())
        layer = nn.Linear(1, 1)
        layer.weight = nn.Parameter(reference.reshape(1, -1))
        expected = prune.l1_unstructured(layer, "weight", amount=count).weight.reshape(reference.shape)
        assert torch.equal(dict(model.named_parameters())[name], expected)
    assert torch.equal(model[0].bias, before["0.bias"])
    assert not parametrize.is_parametrized(model[0])


def test_global_scope_ranks_all_layers_together():
    model = network()
    with torch.no_grad():
        model[3].weight.mul_(100)
    reference = copy.deepcopy(model)
    pruning.prune_weights(model, 0.5, scope="global")
    layers = [(reference[i], "weight") for i in (0, 3, 5)]
    total = sum(layer.weight.numel() for layer, _ in layers)
    prune.global_unstructured(layers, pruning_method=prune.L1Unstructured, amount=round(total / 2))
    for i in (0, 3, 5):
        assert torch.equal(model[i].weight, reference[i].weight)
    assert zeros(model)["3.weight"] < 0.5 < zeros(model)["0.weight"]


@pytest.mark.parametrize(("pattern", "keep", "group"), [("2:4", 2, 4), ("4:8", 4, 8), ("1:4", 1, 4)])
def test_groups(pattern, keep, group):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(16, 8))
    before = copy.deepcopy(model)
    pruning.prune_weights(model, pattern)
    for after, old in ((model[0].weight, before[0].weight), (model[2].weight, before[2].weight)):
        groups = after.detach().movedim(1, -1).reshape(-1, group)
        olds = old.detach().movedim(1, -1).reshape(-1, group)
        assert (groups.count_nonzero(1) == keep).all()
        assert torch.equal(groups.abs().sum(1), olds.abs().topk(keep).values.sort(1).values.sum(1)) or torch.allclose(
            groups.abs().sum(1), olds.abs().topk(keep).values.sum(1)
        )


def test_amounts_by_name_and_class():
    model = network()
    pruning.prune_weights(model, 0.5, layers={nn.Linear: 0.75, "5": None, "0": "2:4"})
    assert zeros(model) == {"0.weight": 0.5, "3.weight": 0.75, "5.weight": 0.0}
    model = nn.ModuleDict({"encoder": network(), "classifier": nn.Linear(8, 8)})
    pruning.prune_weights(model, layers={"encoder": 0.5, "encoder.5": None})
    assert zeros(model)["classifier.weight"] == 0 and zeros(model)["encoder.5.weight"] == 0
    assert zeros(model)["encoder.0.weight"] == 0.5


def test_attention_is_pruned_whole():
    model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    pruning.prune_weights(model, 0.5)
    rows = {row.name: row.fraction for row in pruning.sparsity(model)}
    assert rows["self_attn.in_proj_weight"] == rows["self_attn.out_proj.weight"] == rows["linear1.weight"] == 0.5
    assert model(torch.randn(2, 3, 16)).isfinite().all()


def test_a_schedule_grows_while_training():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    pruner = pruning.Pruner(model, 0.8, schedule=pruning.Schedule("cubic", steps=10, start=2, every=2))
    seen, gone = [], {}
    for _ in range(14):
        optimizer.zero_grad()
        model(torch.randn(8, 4, 4, 4)).square().sum().backward()
        optimizer.step()
        pruner.step()
        seen.append(round(pruner.sparsity, 3))
        for name, mask in pruner.masks.items():
            assert not mask[gone.get(name, torch.zeros_like(mask)).bool()].any(), "came back"
            gone[name] = (mask == 0).clone()
    assert seen[0] == seen[1] == 0 and seen == sorted(seen) and len(set(seen)) == 6
    assert abs(seen[-1] - 0.8) < 2e-3
    assert abs(seen[5] - 0.8 * (1 - (1 - 0.4) ** 3)) < 2e-3  # after 6 steps, 4 of 10
    model.zero_grad()
    masked = copy.deepcopy(model)
    assert set(pruning.masked_parameters(model)) == {"0.weight", "3.weight", "5.weight"}
    pruner.finish()
    x = torch.randn(2, 4, 4, 4)
    assert torch.equal(model(x), masked(x)) and not pruning.masked_parameters(model)
    assert {n for n, _ in model.named_parameters()} == {n for n, _ in network().named_parameters()}
    with pytest.raises(InvalidStateError, match="finished"):
        pruner.step()


def test_masks_of_torch_are_made_permanent():
    model = network()
    prune.random_unstructured(model[0], "weight", amount=0.5)
    prune.l1_unstructured(model[3], "bias", amount=4)
    assert pruning.masked_parameters(model) == {
        "0.weight": "torch.nn.utils.prune",
        "3.bias": "torch.nn.utils.prune",
    }
    assert {row.name for row in pruning.sparsity(model)} == {n for n, _ in network().named_parameters()}
    x = torch.randn(2, 4, 4, 4)
    expected = model(x)
    assert sorted(pruning.make_permanent(model)) == ["0.weight", "3.bias"]
    assert torch.equal(model(x), expected) and not pruning.masked_parameters(model)


def test_pruning_further_keeps_what_is_gone():
    model = network()
    pruning.Pruner(model, 0.5)
    first = pruning.sparsity(model)
    pruner = pruning.Pruner(model, 0.75)
    assert [row.fraction for row in first if "weight" in row.name] == [0.5] * 3
    assert pruner.sparsity == 0.75 and len(model[0].parametrizations["weight"]) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"amount": 1.0}, InvalidArgumentError, "amount is 1.0"),
        ({"amount": -0.1}, InvalidArgumentError, "from 0 to below 1"),
        ({"amount": float("nan")}, InvalidArgumentError, "nan"),
        ({"amount": "4:2"}, InvalidArgumentError, "'4:2' is no pattern"),
        ({"amount": "half"}, InvalidArgumentError, "2 of every 4"),
        ({"amount": 0.5, "scope": "all"}, InvalidArgumentError, "'layer' or 'global'"),
        ({"amount": "2:4", "scope": "global"}, InvalidArgumentError, "each group"),
        ({}, InvalidArgumentError, "nothing to prune"),
        ({"layers": {"7": 0.5}}, InvalidArgumentError, "'7' fits no module.*0, 3, 5"),
        ({"layers": {nn.LSTM: 0.5}}, InvalidArgumentError, "LSTM fits no module"),
        ({"layers": {"1": 0.5}}, NotSupportedError, "'1' is a ReLU"),
        ({"layers": {"3": 2}}, InvalidArgumentError, "layer '3'"),
        ({"layers": {3: 0.5}}, InvalidArgumentError, "neither a name"),
    ],
)
def test_errors_of_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        pruning.prune_weights(network(), **arguments)


def test_errors_name_the_layer():
    model = network()
    with torch.no_grad():
        model[3].weight[0, 0] = float("nan")
    with pytest.raises(InvalidArgumentError, match=r"'3\.weight' has elements that are NaN"):
        pruning.prune_weights(model, 0.5)
    with pytest.raises(InvalidArgumentError, match=r"'conv\.weight' has 3 inputs.*layers=\{'conv': None\}"):
        pruning.prune_weights(nn.ModuleDict({"conv": nn.Conv2d(3, 8, 3)}), "2:4")
    tied = nn.ModuleDict({"table": nn.Embedding(8, 4), "head": nn.Linear(4, 8, bias=False)})
    tied["head"].weight = tied["table"].weight
    with pytest.raises(NotSupportedError, match=r"'head\.weight' is the same parameter as 'table\.weight'"):
        pruning.prune_weights(tied, 0.5)
    model = network()
    pruner = pruning.Pruner(model, 0.5, schedule=pruning.Schedule("linear", steps=4))
    with torch.no_grad():
        model[0].parametrizations["weight"].original[0] = float("inf")
    with pytest.raises(InvalidArgumentError, match=r"'0\.weight' has become NaN"):
        pruner.step()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("steep",), "there is no schedule 'steep'; there are one_shot, linear, cubic"),
        (("linear", 0), "steps is 0"),
        (("linear", 5, -1), "start is -1"),
        (("linear", 5, 0, 0), "every is 0"),
    ],
)
def test_errors_of_schedules(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        pruning.Schedule(*arguments)
    with pytest.raises(InvalidArgumentError, match=r"gave 2\.0 at step 1"):
        pruning.Schedule(lambda progress: 2.0, 5).fraction(1)


def test_two_pruners_on_layers_of_their_own():
    """The first that finished took the masks of both away."""
    model = network()
    first = pruning.Pruner(model, layers={"0": 0.5}, schedule=pruning.Schedule("linear", steps=2))
    second = pruning.Pruner(model[3], 0.75, schedule=pruning.Schedule("linear", steps=4))
    first.step()
    assert first.finish() is model
    assert pruning.masked_parameters(model) == {"3.weight": "parametrization"}
    assert not parametrize.is_parametrized(model[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model(torch.randn(8, 4, 4, 4)).square().sum().backward()
        optimizer.step()
        second.step()
    second.finish()
    assert zeros(model)["3.weight"] == 0.75 and not pruning.masked_parameters(model)


def test_two_pruners_on_one_layer():
    model = network()
    first = pruning.Pruner(model, 0.5)
    with pytest.raises(InvalidStateError, match=r"'0.weight' is pruned by another Pruner.*finish\(\) first.*layers="):
        pruning.Pruner(nn.Sequential(model[3]), 0.75)  # whatever its name is there
    with pytest.raises(InvalidStateError, match=r"'0.weight' is pruned by another"):
        pruning.prune_weights(model, 0.75)
    assert set(pruning.masked_parameters(model)) == {"0.weight", "3.weight", "5.weight"}
    other = copy.deepcopy(model)  # has no pruner
    assert zeros(pruning.prune_weights(other, 0.75))["3.weight"] == 0.75
    first.finish()
    kept = model[3].weight.detach() != 0
    pruning.prune_weights(model, 0.75)
    assert zeros(model)["3.weight"] == 0.75 and not (model[3].weight.detach() != 0)[~kept].any()


def test_masks_that_somebody_else_removes():
    model = network()
    prune.l1_unstructured(model[5], "weight", amount=0.5)
    pruner = pruning.Pruner(model, layers={"0": 0.5}, schedule=pruning.Schedule("linear", steps=2))
    pruner.finish()
    assert pruning.masked_parameters(model) == {"5.weight": "torch.nn.utils.prune"}  # not the pruner's
    pruner = pruning.Pruner(model, layers={"0": 0.75}, schedule=pruning.Schedule("linear", steps=2))
    pruning.make_permanent(model)
    for call in (pruner.step, pruner.finish):
        with pytest.raises(InvalidStateError, match=r"mask of '0.weight' is gone \(make_permanent"):
            call()
    assert zeros(pruning.prune_weights(model, 0.9))["0.weight"] == pytest.approx(0.9, abs=0.01)
