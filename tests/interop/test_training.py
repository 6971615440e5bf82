"""Training programs, trained weights apart from them, and checkpoints: ours in the official runtime, theirs in ours."""

import json
from pathlib import Path

import pytest
import torch

from executorch_py.training import SGD, TrainingModule

from . import training_programs

pytestmark = pytest.mark.interop


@pytest.fixture
def there(peer_script):
    return lambda *words: json.loads(peer_script("training_programs.py", "executorch", *words).splitlines()[-1])


@pytest.fixture(scope="module")
def folders(tmp_path_factory, peer_script):
    theirs, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")
    peer_script("training_programs.py", "executorch", "make", theirs)
    training_programs.make("executorch_py", ours)
    return theirs, ours


def in_eager() -> list[float]:
    model, batch = training_programs.model_and_batch()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(5):
        optimizer.zero_grad()
        losses.append(model(*batch)[0])
        losses[-1].backward()
        optimizer.step()
    return [float(one) for one in losses]


def test_both_runtimes_train_both_programs(folders, there):
    expected = in_eager()
    assert expected[-1] < 0.9 * expected[0]
    for folder in folders:
        for losses in (there("train", folder), training_programs.train("executorch_py", folder)):
            assert losses == pytest.approx(expected, abs=1e-5), folder


def test_both_runtimes_read_the_weights_of_both(folders, there):
    for folder in folders:
        (weights,) = folder.glob("*.ptd")
        for told in (there("loss", folder, weights), training_programs.loss("executorch_py", folder, weights)):
            assert told == pytest.approx(in_eager()[0], abs=1e-5), folder


def test_the_official_runtime_reads_our_checkpoints(folders, there, tmp_path):
    _, batch = training_programs.model_and_batch()
    for folder in folders:
        module = TrainingModule.load(folder / "model.pte")
        optimizer = SGD(module.named_parameters(), lr=0.5)
        for _ in range(4):
            module.forward_backward("forward", batch)
            optimizer.step(module.named_gradients())
        checkpoint = Path(tmp_path) / "four.ptd"
        module.save_checkpoint(checkpoint)
        for told in (there("loss", folder, checkpoint), training_programs.loss("executorch_py", folder, checkpoint)):
            assert told == pytest.approx(in_eager()[4], abs=1e-5), folder
