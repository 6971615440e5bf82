"""scikit-learn's digits, learnt by the runtime alone: torch exports the model and hands over batches, nothing else."""

import statistics
import time

import pytest
import sklearn.datasets
import torch
from torch import nn
from torch.export.experimental import _export_forward_backward
from torch.nn import functional as F

import executorch_py as et
from executorch_py.training import AdamW, TrainingModule
from tests.python.training.models import exported

BATCH = 29  # 899 = 31 batches


class Digits(nn.Module):
    """[batch, 1, 8, 8] and labels [batch] -> loss and predicted labels."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 16, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, images, labels):
        logits = self.layers(images)
        return F.cross_entropy(logits, labels), logits.detach().argmax(1)


@pytest.fixture(scope="module")
def digits():
    found = sklearn.datasets.load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    images = (torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16)[order]
    return images, torch.tensor(found.target)[order]


def test_the_runtime_learns_digits_as_eager_does(digits):
    images, labels = digits
    torch.manual_seed(0)
    model = Digits().train()
    example = (images[:BATCH], labels[:BATCH])
    joint = _export_forward_backward(torch.export.export(model, example))
    rest = (images[899:], labels[899:])
    infer = torch.export.export(model.eval(), rest)
    module = TrainingModule.load(et.to_edge({"forward": joint, "infer": infer}).to_executorch().buffer)
    ours = AdamW(module.named_parameters(), lr=3e-3)
    model.train()
    theirs = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    for epoch in range(6):
        losses, eager_losses = [], []
        for batch in torch.randperm(899, generator=generator).split(BATCH):
            loss, _ = module.forward_backward("forward", (images[batch], labels[batch]))
            ours.step(module.named_gradients())
            losses.append(float(loss))
            theirs.zero_grad()
            expected, _ = model(images[batch], labels[batch])
            expected.backward()
            theirs.step()
            eager_losses.append(expected.item())
        assert statistics.mean(losses) == pytest.approx(statistics.mean(eager_losses), rel=0.1, abs=0.01), epoch
    _, predicted = module.run_method("infer", rest)
    assert (predicted == rest[1]).double().mean() >= 0.97


def test_a_step_takes_at_most_twice_eagers_time(digits):
    """Processor time of one thread each, in turns; the least of several rounds."""
    images, labels = digits
    batch = (images[:BATCH], labels[:BATCH])
    torch.manual_seed(0)
    model = Digits().train()
    module = TrainingModule.load(exported(model, batch))
    ours, theirs = AdamW(module.named_parameters()), torch.optim.AdamW(model.parameters())

    def our_step():
        module.forward_backward("forward", batch)
        ours.step(module.named_gradients())

    def their_step():
        theirs.zero_grad()
        model(*batch)[0].backward()
        theirs.step()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    et.set_num_threads(1)
    try:
        best = {}
        for _ in range(8):
            for name, step in (("ours", our_step), ("theirs", their_step)):
                begin = time.process_time()
                for _ in range(10):
                    step()
                best[name] = min(best.get(name, 1e9), time.process_time() - begin)
    finally:
        torch.set_num_threads(threads)
        et.set_num_threads(0)
    assert best["ours"] <= 2 * best["theirs"], best
