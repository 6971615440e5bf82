"""Neuron pruning on whole models: what is left is smaller, exports, runs, and equals eager PyTorch."""

import copy
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import pruning
from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError, NotSupportedError
from executorch_py.testing import assert_matches_eager
from tests.models import zoo


def smaller_of(name: str, **options):
    method = zoo.ZOO[name]()["forward"]
    result = pruning.prune_neurons(method.module, method.inputs, **options)
    return method, result


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def same_as_dense_zeros(model, smaller, inputs):
    """The shapes of both models' outputs agree."""
    with torch.no_grad():
        assert model(*inputs).shape == smaller(*inputs).shape


@pytest.mark.parametrize("name", ["ds_cnn", "unet"])
def test_small_models(name):
    method, result = smaller_of(name, amount=0.5)
    assert parameters(result.model) < 0.35 * parameters(method.module)
    assert result.channels and not result.heads
    same_as_dense_zeros(method.module, result.model, method.inputs)
    assert_matches_eager(result.model, method.inputs)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("mobilenet_v2", 0.45), ("resnet18", 0.35)])
def test_torchvision_models(name, most):
    method, result = smaller_of(name, amount=0.5, round_to=8)
    assert parameters(result.model) < most * parameters(method.module)
    assert all(after % 8 == 0 for after in dict(result.channels).values() if isinstance(after, int))
    assert all(after % 8 == 0 for _, after in result.channels.values())
    assert_matches_eager(result.model, method.inputs)


def test_vision_transformer_loses_heads_and_hidden_units():
    method, result = smaller_of("vit_small", amount=0.5, heads=0.5)
    assert set(result.heads.values()) == {(4, 2)} and len(result.heads) == 4
    assert {change for name, change in result.channels.items() if "mlp.0" in name} == {(256, 128)}
    assert result.skipped  # the width of the residual stream is written into the model
    assert parameters(result.model) < 0.6 * parameters(method.module)
    assert_matches_eager(result.model, method.inputs)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masks", ["none", "bool", "float", "padding", "both"])
def test_heads_that_stay_compute_what_they_did(need_weights, batch_first, masks):
    """A head that goes had a zero output projection, so the smaller layer must equal the whole one."""
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(24, 6, batch_first=batch_first).eval()
    with torch.no_grad():
        for head in (0, 3, 4):
            attention.out_proj.weight[:, 4 * head : 4 * head + 4] = 0
            for part in range(3):
                attention.in_proj_weight[24 * part + 4 * head : 24 * part + 4 * head + 4] = 0
    query, key = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    options = {"need_weights": need_weights}
    if masks in ("bool", "both"):
        options["attn_mask"] = torch.rand(5, 7) > 0.7
    if masks == "float":
        options["attn_mask"] = torch.randn(5, 7)
    if masks in ("padding", "both"):
        options["key_padding_mask"] = torch.tensor([[False] * 5 + [True] * 2, [False] * 7])
    if not batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    result = pruning.prune_heads(attention_in(attention), 0.5)
    assert result.heads == {"attention": (6, 3)}
    smaller = result.model["attention"]
    expected, actual = attention(query, key, key, **options), smaller(query, key, key, **options)
    torch.testing.assert_close(actual[0], expected[0])
    assert (actual[1] is None) == (not need_weights)


def attention_in(attention: nn.MultiheadAttention) -> nn.ModuleDict:
    return nn.ModuleDict({"attention": attention})


def test_named_layers_stay():
    method, result = smaller_of("ds_cnn", amount=0.5, keep=["features.0"])
    assert result.model.features[0].out_channels == 64 and result.model.features[3].out_channels == 64
    assert result.channels["features.6"] == (64, 32)
    assert "classifier" not in result.channels
    method, result = smaller_of("ds_cnn", amount=0.5, layers={"features.6": 0.75})
    assert result.channels["features.6"] == (64, 16) and result.channels["features.12"] == (64, 32)
    assert method.module.features[6].out_channels == 64


def test_importance_from_data_finds_dead_channels():
    """Channels whose weights are large but that the loss does not see go first with "taylor", not with "l2"."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    with torch.no_grad():
        model[0].bias[:8] = -100.0  # never active
        model[0].bias[8:] = 3.0  # always
        model[0].weight[:8] *= 10

    def loss(network, batch):
        return network(batch).square().mean()

    data = [torch.rand(16, 8) for _ in range(3)]
    example = (torch.rand(1, 8),)
    by_loss = pruning.prune_neurons(model, example, 0.5, importance="taylor", loss=loss, data=data).model
    assert by_loss[0].out_features == 8 and float(by_loss[0].bias.min()) > -100
    torch.testing.assert_close(by_loss(data[0]), model(data[0]))
    by_norm = pruning.prune_neurons(model, example, 0.5).model
    assert float(by_norm[0].bias.min()) == -100
    assert all(p.grad is None for p in by_loss.parameters())


def test_groups_of_convolutions_keep_their_number():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3, groups=4), nn.ReLU(), nn.Conv2d(32, 8, 1)
    )
    inputs = (torch.randn(1, 3, 12, 12),)
    result = pruning.prune_neurons(model.eval(), inputs, 0.5)
    assert result.model[2].groups == 4 and result.model[2].out_channels == 16
    assert_matches_eager(result.model, inputs)


class WritesItsSize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x):
        return self.second(self.first(x).reshape(-1, 16, 8, 8))


def test_errors():
    model, inputs = zoo.DsCnn().eval(), (torch.rand(1, 1, 49, 10),)
    for options, message in (
        ({"amount": 1.0}, "amount is 1.0"),
        ({"amount": "half"}, "amount is 'half'"),
        ({"heads": -1}, "heads is -1"),
        ({"keep": ["head"]}, "keep: 'head' fits no layer; there are features.0"),
        ({"keep": "classifier"}, "must be a list of names"),
        ({"layers": {"nothing": 0.5}}, "layers: 'nothing' fits no layer"),
        ({"importance": "l3"}, "importance is 'l3'"),
        ({"importance": "taylor"}, "needs loss="),
        ({"scope": "model"}, "scope is 'model'"),
        ({"round_to": 0}, "round_to is 0"),
        ({"importance": "taylor", "loss": lambda m, b: m(b), "data": [inputs[0]]}, "no scalar"),
        (
            {"importance": "taylor", "loss": lambda m, b: m(b).sum() * float("nan"), "data": [inputs[0]]},
            "batch 0 is nan",
        ),
        ({"importance": "taylor", "loss": lambda m, b: m(b).sum(), "data": []}, "data is empty"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            pruning.prune_neurons(model, inputs, **options)
    with pytest.raises(InvalidArgumentError, match="must be the tuple"):
        pruning.prune_neurons(model, inputs[0])
    masked = copy.deepcopy(model)
    pruning.Pruner(masked, 0.5)
    with pytest.raises(InvalidStateError, match="has a mask"):
        pruning.prune_neurons(masked, inputs)
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.features[3].weight[0] = float("nan")
    with pytest.raises(InvalidArgumentError, match=r"'features\.3\.weight' has elements that are NaN"):
        pruning.prune_neurons(broken, inputs)
    with pytest.raises(NotSupportedError, match="sizes of its own"):
        pruning.prune_neurons(WritesItsSize().eval(), (torch.rand(1, 3, 8, 8),))
    with pytest.raises(NotSupportedError, match=r"has no nn\.MultiheadAttention"):
        pruning.prune_heads(model)
    assert et.pruning is pruning


def test_amounts_are_not_off_by_a_rounding_error():
    model = nn.Sequential(nn.Conv2d(3, 10, 1), nn.ReLU(), nn.Conv2d(10, 4, 1)).eval()
    result = pruning.prune_neurons(model, (torch.randn(1, 3, 4, 4),), amount=0.8)
    assert result.channels == {"0": (10, 2)}


def test_layers_of_which_nothing_would_stay_are_named():
    model = nn.Sequential(nn.Conv2d(3, 10, 1), nn.ReLU(), nn.Conv2d(10, 4, 1)).eval()
    result = pruning.prune_neurons(model, (torch.randn(1, 3, 4, 4),), amount=0.95)
    assert result.channels == {}
    assert "none of its 10 channels" in result.skipped["0"]


def test_encoder_layers_of_torch_lose_heads():
    """``nn.TransformerEncoderLayer`` looks into its attention for a shortcut."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 6, 32, batch_first=True).eval()
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 5, 24)
    result = pruning.prune_neurons(model, (x,), amount=0.5, heads=0.5)
    assert set(result.heads.values()) == {(6, 3)}
    manager = et.to_edge(torch.export.export(result.model, (x,))).to_executorch()
    with torch.no_grad():
        torch.testing.assert_close(et.load(manager.buffer)(x), result.model(x), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("amount", "options"), [(0.9, {}), (0.5, {"round_to": 64})])
def test_layers_that_keep_all_their_channels_are_named(amount, options):
    """Of 32 channels a tenth is no multiple of four groups, and none is one of 64: nothing went, and nothing was
    said.
    """

    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.grouped = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1, groups=4)
            self.last = nn.Linear(32, 10)

        def forward(self, x):
            return self.last(torch.relu(self.grouped(torch.relu(self.first(x)))).mean((2, 3)))

    result = pruning.prune_neurons(Grouped().eval(), (torch.randn(2, 3, 8, 8),), amount, **options)
    assert result.channels == {}
    assert sorted(result.skipped) == ["first", "grouped"]
    assert all("round_to" in reason for reason in result.skipped.values())


class Shuffled(nn.Module):
    """Two units of ShuffleNet: half of the channels pass, all are mixed, and the next unit takes half of them again."""

    def __init__(self):
        super().__init__()
        self.first, self.unit, self.last = nn.Conv2d(3, 24, 3, padding=1), nn.Conv2d(12, 12, 1), nn.Linear(24, 5)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for _ in range(2):
            left, right = x.chunk(2, 1)
            x = torch.cat([left, torch.relu(self.unit(right))], 1)
            x = x.unflatten(1, (2, 12)).transpose(1, 2).flatten(1, 2)
        return self.last(x.mean((2, 3)))


class Mixer(nn.Module):
    """MLP-Mixer: linear layers over the tokens, then over the channels, which must not be taken for each other."""

    def __init__(self):
        super().__init__()
        self.patches, self.tokens_up, self.tokens_down = nn.Conv2d(3, 32, 4, 4), nn.Linear(16, 24), nn.Linear(24, 16)
        self.up, self.down, self.last = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens_down(torch.relu(self.tokens_up(x.transpose(1, 2)))).transpose(1, 2)
        return self.last((x + self.down(torch.relu(self.up(x)))).mean(1))


def test_shuffled_channels_all_go_together_and_so_all_stay():
    torch.manual_seed(0)
    result = pruning.prune_neurons(Shuffled().eval(), (torch.randn(2, 3, 8, 8),), 0.5)
    assert result.channels == {} and sorted(result.skipped) == ["first", "unit"]


def test_tokens_and_channels_are_not_taken_for_each_other():
    torch.manual_seed(0)
    result = pruning.prune_neurons(Mixer().eval(), (torch.randn(2, 3, 16, 16),), 0.5)
    assert result.channels == {"patches": (32, 16), "tokens_up": (24, 12), "up": (64, 32), "down": (32, 16)}
    assert list(result.skipped) == ["tokens_down"]  # there are as many tokens as the image has


class Slow(nn.Sequential):
    """Takes its time in each call."""

    def __init__(self, seconds):
        super().__init__(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.seconds = seconds

    def forward(self, x):
        time.sleep(self.seconds)
        return super().forward(x)


def test_threads_prune_beside_each_other():
    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(lambda one: pruning.prune_neurons(one, (torch.randn(2, 8),)), [Slow(0.1), Slow(0.15)]):
            assert result.channels == {"0": (16, 8)}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("importance", ["l2", "taylor"])
def test_channels_go_without_gradients_around(mode, importance):
    """Gradients are followed for "taylor", whatever stands around."""
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(2, 8)
    with mode():
        result = pruning.prune_neurons(
            model, (x,), importance=importance, loss=lambda m, batch: m(batch).square().mean(), data=[x]
        )
        assert result.model(x).shape == (2, 4)
    assert result.channels == {"0": (16, 8)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": {"0": 1.5}}, r"layers\['0'\] is 1.5; it must be the part that goes"),
        ({"layers": {"0": None}}, r"layers\['0'\] is None.*keep="),
        ({"layers": ["0"]}, "layers is list; it must be a dict"),
        ({"keep": None}, "keep is None; it must be a list of names"),
        ({"round_to": True}, "round_to is True"),
        ({"importance": "taylor", "loss": lambda m, b: m(b).sum(), "data": 5}, "data is int; it must be"),
    ],
    ids=["too much", "none", "list", "keep", "round", "data"],
)  # fmt: skip
def test_wrong_arguments_are_named(options, message):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    with pytest.raises(InvalidArgumentError, match=message):
        pruning.prune_neurons(model, (torch.randn(2, 8),), **options)


def test_exported_programs_are_refused():
    program = torch.export.export(nn.Linear(8, 16).eval(), (torch.randn(2, 8),))
    with pytest.raises(InvalidTypeError, match="model is ExportedProgram; it must be a module"):
        pruning.prune_neurons(program, (torch.randn(2, 8),))
    with pytest.raises(InvalidTypeError, match="model is ExportedProgram"):
        pruning.prune_heads(program)
