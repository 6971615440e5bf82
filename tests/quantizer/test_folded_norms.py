"""Batch norms behind every kind of layer, folded where nobody else reads it, in every flow."""

import copy
import random

import pytest
import torch
from torch import nn

from executorch_py import quantizer

WIDTH = 8
LAYERS = {
    "Linear": (nn.Linear, (1,)),
    **{f"Conv{d}d": (getattr(nn, f"Conv{d}d"), (1, 2, 8)) for d in (1, 2, 3)},
    **{f"ConvTranspose{d}d": (getattr(nn, f"ConvTranspose{d}d"), (1, 2, 4)) for d in (1, 2, 3)},
}
CASES = [(name, groups) for name, (_, several) in LAYERS.items() for groups in several]


class Pair(nn.Module):
    """A layer and norms of one width, with fixed statistics."""

    def __init__(self, kind, groups, bias, affine):
        super().__init__()
        self.rank = 0 if kind == "Linear" else int(kind[-2])
        options = {"kernel_size": 3, "padding": 1, "groups": groups} if self.rank else {}
        self.layer = LAYERS[kind][0](WIDTH, WIDTH, bias=bias, **options)
        self.first, self.second = (self.norm(affine) for _ in range(2))

    def norm(self, affine):
        norm = getattr(nn, f"BatchNorm{max(self.rank, 1)}d")(WIDTH, affine=affine, eps=1e-3, momentum=0.3)
        with torch.no_grad():
            norm.running_mean.uniform_(-1, 1), norm.running_var.uniform_(0.3, 3)
            if affine:
                norm.weight.uniform_(0.5, 2), norm.bias.uniform_(-1, 1)
        return norm

    def example(self):
        return torch.randn(4, WIDTH, *[5] * self.rank)


class Alone(Pair):
    def forward(self, x):
        return self.first(self.layer(x)).relu()


class Beside(Pair):
    def forward(self, x):
        y = self.layer(x)
        return self.first(y).relu() + y, y


class Twice(Pair):
    def forward(self, x):
        return self.first(self.layer(x)) + self.first(self.layer(0.5 * x))


class TwoNorms(Pair):
    def forward(self, x):
        return self.first(self.layer(x)) + self.second(self.layer(0.5 * x))


READERS = (Alone, Beside, Twice, TwoNorms)


def decibels(got, want):
    got, want = (torch.cat([y.flatten() for y in (x if isinstance(x, tuple) else (x,))]).double() for x in (got, want))
    return float(10 * torch.log10(want.square().sum() / (got - want).square().sum().clamp(min=1e-30)))


def drawn(case, readers):
    """A pair with or without biases and factors, by its place among the cases."""
    place = CASES.index(case) + READERS.index(readers)
    torch.manual_seed(place)
    pair = readers(*case, bias=place % 2 == 0, affine=place % 3 != 0)
    return pair, pair.example()


@pytest.mark.parametrize("readers", READERS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_after_training(case, readers):
    model, x = drawn(case, readers)
    model.eval()
    with torch.no_grad():
        expected = model(x)
        for preset in ("static_int8", "int8_weight_only", "fp16"):
            got = quantizer.quantize(model, (x,), preset, [(x,)]).module()(x)
            assert decibels(got, expected) > 28, preset
        config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
        exported = torch.export.export(model, (x,)).module()
        prepared = quantizer.prepare_pt2e(exported, quantizer.XNNPACKQuantizer().set_global(config))
        prepared(x)
        assert decibels(quantizer.convert_pt2e(prepared)(x), expected) > 28


@pytest.mark.parametrize("readers", READERS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_with_the_functions_of_torchao(case, readers):
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    model, x = drawn(case, readers)
    with torch.no_grad():
        expected = model.eval()(x)
        config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
        composed = quantizer.ComposableQuantizer([quantizer.XNNPACKQuantizer().set_global(config)])
        for one in (quantizer.XNNPACKQuantizer().set_global(config), composed):
            prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), one)
            prepared(x)
            assert decibels(convert_pt2e(prepared)(x), expected) > 28


class Net(nn.Module):
    """Layers and norms drawn at random, each used any number of times, on values that others read, too."""

    def __init__(self, seed):
        super().__init__()
        self.seed, draw = seed, random.Random(seed)
        pairs = [Pair("Conv2d", draw.choice([1, 2]), draw.random() < 0.5, draw.random() < 0.7) for _ in range(3)]
        self.pairs = nn.ModuleList(pairs)

    def forward(self, x):
        draw, values = random.Random(self.seed + 1), [x]
        for _ in range(6):
            layer, norm = draw.choice(self.pairs).layer, draw.choice(self.pairs).first
            y = layer(draw.choice(values))
            z = norm(y).relu() if draw.random() < 0.8 else y
            values.append(z + draw.choice(values) if draw.random() < 0.5 else z)
            if draw.random() < 0.5:
                values.append(y)
        return sum(values) / len(values)


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_with_the_functions_of_torchao(seed):
    """Folding alone, without rounding: what is observed is what the model computes."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(seed)
    model, x = Net(seed).eval(), torch.randn(4, WIDTH, 6, 6)
    config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
    with torch.no_grad():
        expected = model(x)
        exported = torch.export.export(model, (x,))
        prepared = prepare_pt2e(exported.module(), quantizer.XNNPACKQuantizer().set_global(config))
        assert decibels(prepared(x), expected) > 90
        assert decibels(convert_pt2e(prepared)(x), expected) > 30


def test_quantizers_of_others_are_left_to_torchao():
    from torchao.quantization.pt2e import quantize_pt2e

    class Theirs(quantizer.Quantizer):
        def annotate(self, model):
            self.norms = sum("batch_norm" in str(node.target) for node in model.graph.nodes)
            return model

        def validate(self, model):
            pass

    model, x = drawn(("Conv2d", 1), Beside)
    theirs = Theirs()
    quantize_pt2e.prepare_pt2e(torch.export.export(model.eval(), (x,)).module(), theirs)
    assert theirs.norms == 0  # torchao folds it, whoever reads the convolution


def trained(prepared, x):
    optimizer = torch.optim.SGD(prepared.parameters(), 1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        result = prepared(x)
        sum(y.square().mean() for y in (result if isinstance(result, tuple) else (result,))).backward()
        optimizer.step()


def with_modules(model, x, prepare, composed=False):
    """Prepared for training by a function that takes an exported module."""
    config = quantizer.get_symmetric_quantization_config(is_per_channel=True, is_qat=True)
    one = quantizer.XNNPACKQuantizer().set_global(config)
    exported = torch.export.export(model.train(), (x,)).module()
    return prepare(exported, quantizer.ComposableQuantizer([one]) if composed else one)


@pytest.mark.parametrize("flow", ["prepare_qat", "prepare_qat_pt2e"])
@pytest.mark.parametrize("readers", READERS)
@pytest.mark.parametrize("case", CASES[::2], ids=str)
def test_while_training(case, readers, flow):
    model, x = drawn(case, readers)
    if flow == "prepare_qat":
        prepared = quantizer.prepare_qat(model, (x,))
    else:
        prepared = with_modules(model, x, quantizer.prepare_qat_pt2e)
    trained(prepared.train(), x)
    prepared.eval()
    with torch.no_grad():
        expected = prepared(x)
        program = quantizer.convert(prepared).module() if flow == "prepare_qat" else quantizer.convert_pt2e(prepared)
        assert decibels(program(x), expected) > 40


@pytest.mark.parametrize("readers", READERS)
@pytest.mark.parametrize("case", CASES[::2], ids=str)
def test_training_with_the_functions_of_torchao(case, readers):
    """Any of its functions between ours: statistics, the modes and the converted model are the same."""
    from torchao.quantization.pt2e import allow_exported_model_train_eval, move_exported_model_to_eval
    from torchao.quantization.pt2e import move_exported_model_to_train as move_to_train
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

    results = []
    for kind in range(4):
        model, x = drawn(case, readers)
        prepare = prepare_qat_pt2e if kind % 2 else quantizer.prepare_qat_pt2e
        prepared = with_modules(model, x, prepare, composed=kind == 3)
        if kind == 1:
            allow_exported_model_train_eval(prepared)
        if kind:
            move_exported_model_to_eval(prepared), move_to_train(prepared)
        trained(prepared, x)
        prepared.eval() if kind < 2 else move_exported_model_to_eval(prepared)
        with torch.no_grad():
            expected = prepared(x)
            converted = (quantizer.convert_pt2e if kind in (0, 3) else convert_pt2e)(prepared)
            assert decibels(converted(x), expected) > 100
        results.append(expected)
    assert all(decibels(result, results[0]) > 100 for result in results)


def test_calls_of_one_layer_before_one_norm_share_their_weight():
    """What is folded once stands in the file once."""
    model, x = drawn(("Conv2d", 1), Twice)
    program = quantizer.quantize(model.eval(), (x,), "static_int8", [(x,)])
    assert sum(value.numel() == model.layer.weight.numel() for value in program.state_dict.values()) == 1


def test_statistics_that_a_model_writes_are_not_folded():
    class Follows(Alone):
        def forward(self, x):
            self.first.running_mean.mul_(0.5)
            return super().forward(x)

    model = Follows("Conv2d", 1, True, True).eval()
    x = model.example()
    expected, whole = copy.deepcopy(model), copy.deepcopy(model)
    program = quantizer.quantize(whole, (x,), "int8_weight_only").module()
    with torch.no_grad():
        for _ in range(3):
            assert decibels(program(x), expected(x)) > 30


def test_the_model_keeps_its_parameters():
    model, x = drawn(("Conv2d", 1), TwoNorms)
    before = copy.deepcopy(model.eval().state_dict())
    quantizer.quantize(model, (x,), "static_int8", [(x,)])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
