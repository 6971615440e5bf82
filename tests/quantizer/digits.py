"""scikit-learn's handwritten digits and a small CNN for them: 899 images to train on, 898 held out."""

import functools

import sklearn.datasets
import torch
from torch import nn
from torch.nn import functional as F

NUM_TRAINING = 899


class DigitsCnn(nn.Module):
    """[batch, 1, 8, 8] -> [batch, 10]: three convolutions with batch norm, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 48, 3, padding=1, bias=False),
            nn.BatchNorm2d(48),
            nn.ReLU(),
        )
        self.hidden = nn.Linear(48 * 16, 64)
        self.classifier = nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.features(image).flatten(1)
        return self.classifier(F.relu(self.hidden(x)))


@functools.lru_cache(maxsize=1)
def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training images and labels, held-out images and labels; shuffled once, for all seeds the same."""
    digits = sklearn.datasets.load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = (torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16)[order]
    labels = torch.tensor(digits.target)[order]
    return images[:NUM_TRAINING], labels[:NUM_TRAINING], images[NUM_TRAINING:], labels[NUM_TRAINING:]


def fit(model: nn.Module, epochs: int, rate: float, seed: int) -> None:
    """Trains in place: batches of 29 (899 = 31 x 29), images moved by up to one pixel."""
    images, labels, _, _ = data()
    torch.set_num_threads(1)  # the steps are too small to share
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, epochs * 31)
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(29):
            moved = F.pad(images[batch], (1, 1, 1, 1))
            down, right = torch.randint(0, 3, (2,), generator=generator).tolist()
            loss = F.cross_entropy(model(moved[..., down : down + 8, right : right + 8]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


@functools.lru_cache(maxsize=8)
def trained(seed: int) -> DigitsCnn:
    """A trained model in eval mode; the callers do not change it."""
    torch.manual_seed(seed)
    model = DigitsCnn()
    fit(model, epochs=20, rate=4e-3, seed=seed)
    return model


def accuracy(logits: torch.Tensor) -> float:
    """Percent of the held-out images."""
    labels = data()[3]
    return 100 * float((logits.argmax(1) == labels).double().mean())
