"""Small models that add to the zoo what it lacks, for running files both ways. Random weights, fixed seeds."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Residual(nn.Module):
    """Two convolutions around a skip connection, with instance-like normalisation by groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.GroupNorm(4, 8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x + self.second(F.elu(self.norm(self.first(x)))))


class SqueezeExcite(nn.Module):
    """Channels scaled by what their means say."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(8, 2), nn.Linear(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        return x * scale[:, :, None, None]


class Encoder(nn.Module):
    """A transformer encoder layer with a padding mask made from the input."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) * 8**-0.5
        scores = scores.masked_fill((tokens == 0)[:, None, None, :], float("-inf"))
        return self.norm(x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))


class TwoTowers(nn.Module):
    """Two inputs, two outputs, one shared weight."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 4))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = self.tower(a), self.tower(b)
        return F.cosine_similarity(left, right), (left - right).abs().amax(1)


class SuperResolution(nn.Module):
    """Convolution and depth to space."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 9, 5, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pixel_shuffle(torch.tanh(self.conv(x)), 3)


class Temporal(nn.Module):
    """Dilated causal one-dimensional convolutions, as in speech."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(4, 4, 3, dilation=d) for d in (1, 2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + F.relu(layer(F.pad(x, (2 * layer.dilation[0], 0))))
        return x


class MixtureOfExperts(nn.Module):
    """Gates by softmax and top-k, experts by gathering."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.Parameter(torch.randn(4, 8, 8) * 0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, -1)
        outputs = torch.einsum("bi,eio->beo", x, self.experts)
        picked = outputs.gather(1, chosen[:, :, None].expand(-1, -1, 8))
        return (picked * weights[:, :, None]).sum(1)


class Counter(nn.Module):
    """State that a call changes: how often it was called, and a running mean."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        self.mean.mul_(0.5).add_(x, alpha=0.5)
        return self.mean * self.calls


class Neck(nn.Module):
    """Features of two resolutions, joined at the higher one, with scores over the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, 2, 1)
        self.last = nn.Conv2d(14, 5, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = F.relu(self.fine(x))
        coarse = F.interpolate(F.relu6(self.coarse(fine)).clamp(0.1, 1), scale_factor=2.0)
        return torch.softmax(self.last(torch.cat([fine, coarse], 1)), 1)


def cases() -> dict[str, Case]:
    """Name -> (module in eval mode, inputs)."""
    torch.manual_seed(3)
    made: dict[str, Case] = {
        "residual": (Residual(), (torch.randn(1, 8, 10, 10),)),
        "squeeze_excite": (SqueezeExcite(), (torch.randn(2, 8, 5, 5),)),
        "encoder": (Encoder(), (torch.tensor([[4, 8, 15, 16, 23, 0, 0]]),)),
        "two_towers": (TwoTowers(), (torch.randn(5, 6), torch.randn(5, 6))),
        "super_resolution": (SuperResolution(), (torch.randn(1, 1, 7, 9),)),
        "temporal": (Temporal(), (torch.randn(1, 4, 20),)),
        "mixture_of_experts": (MixtureOfExperts(), (torch.randn(6, 8),)),
        "counter": (Counter(), (torch.randn(3),)),
        "classifier": (
            nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU6(), nn.AvgPool2d(2),
                          nn.Flatten(), nn.Linear(54, 5), nn.LogSoftmax(1)),
            (torch.randn(2, 3, 14, 14),),
        ),
        "decoder": (
            nn.Sequential(nn.ConvTranspose2d(4, 8, 2, 2), nn.LeakyReLU(0.1),
                          nn.Upsample(scale_factor=2, mode="bilinear"),
                          nn.Conv2d(8, 1, 1), nn.Sigmoid()),
            (torch.randn(1, 4, 6, 6),),
        ),
        "neck": (Neck(), (torch.randn(2, 3, 8, 12),)),
        "pooled_lines": (
            nn.Sequential(nn.Conv1d(3, 8, 5), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 8, 3), nn.AdaptiveAvgPool1d(1),
                          nn.Flatten(), nn.Linear(8, 4)),
            (torch.randn(2, 3, 24),),
        ),
    }  # fmt: skip
    return {name: (module.eval(), inputs) for name, (module, inputs) in made.items()}
