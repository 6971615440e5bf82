"""Pruned models in a file: masks are folded, zeros are not stored, and the runtime gives what eager PyTorch gives."""

import contextlib
import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import executorch_py as et
from executorch_py import pruning
from executorch_py.testing import assert_close
from tests.models import zoo


def lowered(model: nn.Module, inputs, **config):
    exported = torch.export.export(model.eval(), inputs)
    return et.to_edge(exported).to_executorch(et.ExecutorchBackendConfig(**config))


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 16)).eval()


def run(program, inputs):
    return et.load(program.buffer)(*inputs)


@pytest.mark.parametrize("amount", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("batch", [1, 3, 20])
def test_linear_layers_are_stored_without_zeros(amount, batch):
    model, x = pruning.prune_weights(mlp(), amount), torch.randn(batch, 256)
    program = lowered(model, (x,))
    assert program.dump().count("et::sparse_linear") == 3
    assert_close(run(program, (x,)), model(x))
    dense = lowered(model, (x,), sparse_weights=False)
    assert "sparse" not in dense.dump()
    weights = sum(row.elements for row in pruning.sparsity(model))
    assert len(dense.buffer) > 4 * weights
    assert len(program.buffer) < (4 * (1 - amount) + 1 / 8) * weights + 20_000
    assert "sparse" not in lowered(model, (x,), compatible=True).dump()
    assert ("sparse" in lowered(model, (x,), sparse_weights=0.9).dump()) == (amount > 0.9)


@pytest.mark.parametrize("amount", [0.5, 0.9])
@pytest.mark.parametrize("name", ["ds_cnn", "unet", "vit_small", "autoencoder", "detection_head"])
def test_models(name, amount):
    method = zoo.ZOO[name]()["forward"]
    model = pruning.prune_weights(copy.deepcopy(method.module), amount)
    program = lowered(model, method.inputs)
    assert "et::sparse_" in program.dump()
    with torch.no_grad():
        expected = model(*method.inputs)
    found = run(program, method.inputs)
    for actual, wanted in zip(
        torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True
    ):
        assert_close(actual, wanted)


def test_dynamic_batch():
    model = pruning.prune_weights(mlp(), 0.9)
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(model, (torch.randn(4, 256),), dynamic_shapes={"input": {0: batch}})
    module = et.load(et.to_edge(exported).to_executorch().buffer)
    for size in (1, 2, 4, 5, 17, 64):
        x = torch.randn(size, 256)
        assert_close(module(x), model(x))


def test_methods_share_a_sparse_weight():
    model = pruning.prune_weights(mlp(), 0.9)
    one, many = torch.randn(1, 256), torch.randn(32, 256)
    programs = {"one": torch.export.export(model, (one,)), "many": torch.export.export(model, (many,))}
    program = et.to_edge(programs).to_executorch()
    assert len(program.buffer) < 1.1 * len(lowered(model, (one,)).buffer) + 10_000
    module = et.load(program.buffer)
    assert_close(module.one(one), model(one))
    assert_close(module.many(many), model(many))


@pytest.mark.parametrize("kind", ["parametrization", "torch.nn.utils.prune"])
def test_a_mask_that_is_not_permanent_is_folded(kind):
    """The product of weight and mask is computed by the compiler; the file has neither mask nor multiplication."""
    model, x = mlp(), torch.randn(1, 256)
    if kind == "parametrization":
        pruning.Pruner(model, 0.9)
    else:
        for layer in (model[0], model[2], model[4]):
            prune.l1_unstructured(layer, "weight", amount=0.9)
    assert set(pruning.masked_parameters(model).values()) == {kind}
    program = lowered(model, (x,))
    assert "aten::mul" not in program.dump() and program.dump().count("et::sparse_linear") == 3
    found = run(program, (x,))
    size = len(program.buffer)
    pruning.make_permanent(model)
    assert abs(size - len(lowered(model, (x,)).buffer)) < 2000
    assert_close(found, model(x))


def test_a_changed_file_gives_an_error():
    """Each constant of a sparse weight, changed in the file: an error or, for values, other numbers; never a crash."""
    torch.manual_seed(0)
    model, x = pruning.prune_weights(nn.Linear(200, 64), 0.8), torch.randn(9, 200)
    good = bytes(lowered(model, (x,)).buffer)
    weight = model.weight.detach().numpy()
    words = np.zeros((64, 4), np.uint64)
    for row, column in zip(*weight.nonzero(), strict=True):
        words[row, column // 64] |= np.uint64(1) << np.uint64(column % 64)
    at = good.find(words.tobytes())
    assert at > 0, "the mask is not in the file as described"
    for position, bits in [(0, 0x01), (100, 0xFF), (31, 0x80), (words.nbytes - 1, 0x40)]:
        bad = bytearray(good)
        bad[at + position] ^= bits
        with pytest.raises(et.ExecutorchError, match=r"sparse_linear.*(bits of the mask|values)"):
            et.load(bytes(bad))(x)
    generator = np.random.default_rng(0)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(generator.integers(1, 4)):
            bad[generator.integers(len(bad))] ^= 1 << generator.integers(8)
        with contextlib.suppress(et.ExecutorchError):
            et.load(bytes(bad))(x)


def test_errors_of_the_option():
    for wrong in (0, 1.5, -1, float("nan")):
        with pytest.raises(et.InvalidArgumentError, match="sparse_weights is"):
            et.ExecutorchBackendConfig(sparse_weights=wrong)
