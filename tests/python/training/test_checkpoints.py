"""Checkpoints: everything comes back bit by bit, or nothing; files of another model are refused in words."""

import pytest
import torch

from executorch_py.errors import AccessFailedError, InvalidExternalDataError
from executorch_py.training import SGD, AdamW, TrainingModule
from tests.python.training.models import Cnn, Mlp, Transformer, exported, made


def _train(module, optimizer, batches):
    for batch in batches:
        module.forward_backward("forward", batch)
        optimizer.step(module.named_gradients())


@pytest.mark.parametrize("kind", [Cnn, Transformer])
def test_training_goes_on_from_a_checkpoint(kind, tmp_path):
    _, module, batches = made(kind)
    optimizer = AdamW(module.named_parameters(), lr=0.01)
    _train(module, optimizer, batches[:3])
    module.save_checkpoint(tmp_path / "third.ptd", optimizer)
    _train(module, optimizer, batches[3:])
    other = TrainingModule(module.program, module.program.new_session())
    again = AdamW(other.named_parameters(), lr=0.01)
    other.load_checkpoint(tmp_path / "third.ptd", again)
    _train(other, again, batches[3:])
    for name, value in module.named_state().items():
        assert torch.equal(other.named_state()[name], value), name


def test_a_checkpoint_holds_running_statistics(tmp_path):
    _, module, batches = made(Cnn)
    module.forward_backward("forward", batches[0])
    state = {name: value.clone() for name, value in module.named_state().items()}
    assert {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "first.weight"} <= set(state)
    module.save_checkpoint(tmp_path / "one.ptd")
    module.forward_backward("forward", batches[1])
    assert not torch.equal(module.named_state()["norm.running_mean"], state["norm.running_mean"])
    module.load_checkpoint(tmp_path / "one.ptd")
    for name, value in module.named_state().items():
        assert torch.equal(value, state[name]), name


def test_checkpoints_that_do_not_fit_change_nothing(tmp_path):
    _, module, _ = made(Mlp)
    _, other, _ = made(Cnn)
    before = {name: value.clone() for name, value in module.named_state().items()}
    other.save_checkpoint(tmp_path / "other.ptd")
    with pytest.raises(
        InvalidExternalDataError, match=r"has no 'hidden.bias', so it is the checkpoint of another model"
    ):
        module.load_checkpoint(tmp_path / "other.ptd")
    module.save_checkpoint(tmp_path / "without.ptd")
    with pytest.raises(InvalidExternalDataError, match=r"has no 'optimizer.hidden.bias.momentum_buffer'"):
        module.load_checkpoint(tmp_path / "without.ptd", SGD(module.named_parameters(), lr=0.1, momentum=0.9))
    wide = Mlp()
    wide.out = torch.nn.Linear(16, 3)
    TrainingModule.load(exported(wide, (torch.randn(8, 6), torch.randn(8, 3)))).save_checkpoint(tmp_path / "wide.ptd")
    with pytest.raises(
        InvalidExternalDataError, match=r"'out.bias' in .* is torch.float32 \(3,\), here it is torch.float32 \(2,\)"
    ):
        module.load_checkpoint(tmp_path / "wide.ptd")
    bytes_ = (tmp_path / "without.ptd").read_bytes()
    (tmp_path / "cut.ptd").write_bytes(bytes_[: len(bytes_) // 2])
    with pytest.raises(InvalidExternalDataError):
        module.load_checkpoint(tmp_path / "cut.ptd")
    with pytest.raises(AccessFailedError, match=r"none.ptd"):
        module.load_checkpoint(tmp_path / "none.ptd")
    with pytest.raises(AccessFailedError, match="cannot be written"):
        module.save_checkpoint(tmp_path / "no" / "folder.ptd")
    for name, value in module.named_state().items():
        assert torch.equal(value, before[name])
    assert not list(tmp_path.glob("*.tmp"))


def test_reset_state_brings_the_first_parameters_back():
    model, module, batches = made(Mlp)
    _train(module, SGD(module.named_parameters(), lr=0.1), batches)
    module.program.load_method("forward").reset_state()
    for name, parameter in model.named_parameters():
        assert torch.equal(module.named_parameters()[name], parameter.detach())
