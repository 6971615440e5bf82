"""The models that the tests run end to end. Random weights with a fixed seed, except the sentence encoder's.

Each entry makes its methods anew: name -> (module, example inputs). A model with state has several methods that share
it.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from examples.models import SentenceEncoder  # the module also defines the operator names that torchvision needs


@dataclass(frozen=True)
class Method:
    """One method of a model.

    Attributes:
        module: The module whose forward it is.
        inputs: Example inputs; also what the tests run.
        dynamic_shapes: As in torch.export.
    """

    module: nn.Module
    inputs: tuple[Any, ...]
    dynamic_shapes: Any = None

    def export(self) -> torch.export.ExportedProgram:
        """The exported program."""
        return torch.export.export(self.module, self.inputs, dynamic_shapes=self.dynamic_shapes)


def settle(model: nn.Module) -> nn.Module:
    """Gives batch norms statistics as training would leave them, and every parameter a value that is not zero."""
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
    for parameter in model.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.02, generator=generator)
    return model.eval()


def _torchvision(name: str, size: int = 224) -> dict[str, Method]:
    import torchvision

    torch.manual_seed(0)
    model = settle(getattr(torchvision.models, name)(weights=None))
    return {"forward": Method(model, (torch.rand(1, 3, size, size),))}


def mobilenet_v2() -> dict[str, Method]:
    """MobileNetV2: depthwise convolutions, hardtanh in place, residual adds."""
    return _torchvision("mobilenet_v2")


def mobilenet_v3_small() -> dict[str, Method]:
    """MobileNetV3-small: hardswish, squeeze and excitation."""
    return _torchvision("mobilenet_v3_small")


def resnet18() -> dict[str, Method]:
    """ResNet-18: relu in place on residual sums."""
    return _torchvision("resnet18")


def vit_small() -> dict[str, Method]:
    """A small vision transformer."""
    from torchvision.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    model = VisionTransformer(
        image_size=64, patch_size=16, num_layers=4, num_heads=4, hidden_dim=128, mlp_dim=256, num_classes=100
    )
    return {"forward": Method(settle(model), (torch.rand(1, 3, 64, 64),))}


def minilm() -> dict[str, Method]:
    """A sentence encoder with its real weights."""
    torch.manual_seed(0)
    tokens = torch.randint(1000, 20000, (1, 24))
    mask = torch.ones(1, 24, dtype=torch.int64)
    mask[:, 18:] = 0
    return {"forward": Method(SentenceEncoder().eval(), (tokens, mask))}


class DsCnn(nn.Module):
    """Keyword spotting on a spectrogram [1, 1, 49, 10]: one convolution, four depthwise-separable blocks."""

    def __init__(self, channels: int = 64, classes: int = 12) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(1, channels, (10, 4), stride=2, padding=(5, 1)), nn.BatchNorm2d(channels)]
        layers.append(nn.ReLU(inplace=True))
        for _ in range(4):
            for convolution in (
                nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
                nn.Conv2d(channels, channels, 1),
            ):
                layers += [convolution, nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(spectrogram).mean((2, 3)))


def ds_cnn() -> dict[str, Method]:
    """DS-CNN keyword spotting."""
    torch.manual_seed(0)
    return {"forward": Method(settle(DsCnn()), (torch.rand(1, 1, 49, 10),))}


def autoencoder() -> dict[str, Method]:
    """The anomaly-detection autoencoder: ten small linear layers."""
    torch.manual_seed(0)
    widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(itertools.pairwise(widths)):
        layers.append(nn.Linear(before, after))
        if index < len(widths) - 2:
            layers.append(nn.ReLU())
    return {"forward": Method(nn.Sequential(*layers).eval(), (torch.rand(1, 640),))}


class Recurrent(nn.Module):
    """A recurrent layer and a classifier over its last state: [batch, time, features] -> [batch, 10]."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.recurrent = kind(16, 32, num_layers=2, batch_first=True)
        self.classifier = nn.Linear(32, 10)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        states, _ = self.recurrent(sequence)
        return self.classifier(states[:, -1])


def lstm() -> dict[str, Method]:
    """A two-layer LSTM."""
    torch.manual_seed(0)
    return {"forward": Method(Recurrent(nn.LSTM).eval(), (torch.rand(2, 12, 16),))}


def gru() -> dict[str, Method]:
    """A two-layer GRU."""
    torch.manual_seed(0)
    return {"forward": Method(Recurrent(nn.GRU).eval(), (torch.rand(2, 12, 16),))}


class UNet(nn.Module):
    """A small U-Net: two levels down by max pooling, two up by transposed convolution, skips by concatenation."""

    def __init__(self) -> None:
        super().__init__()

        def block(before: int, after: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(before, after, 3, padding=1),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
                nn.Conv2d(after, after, 3, padding=1),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
            )

        self.down1, self.down2, self.bottom = block(3, 16), block(16, 32), block(32, 64)
        self.up2, self.up1 = nn.ConvTranspose2d(64, 32, 2, stride=2), nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.join2, self.join1 = block(64, 32), block(32, 16)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.down1(image)
        second = self.down2(F.max_pool2d(first, 2))
        bottom = self.bottom(F.max_pool2d(second, 2))
        second = self.join2(torch.cat([self.up2(bottom), second], 1))
        first = self.join1(torch.cat([self.up1(second), first], 1))
        return self.head(first)


def unet() -> dict[str, Method]:
    """A small U-Net."""
    torch.manual_seed(0)
    return {"forward": Method(settle(UNet()), (torch.rand(1, 3, 64, 64),))}


class Attention(nn.Module):
    """Grouped-query attention with rotary positions and a cache of keys and values, written in place."""

    def __init__(self, width: int, heads: int, kv_heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.query = nn.Linear(width, heads * self.size, bias=False)
        self.key = nn.Linear(width, kv_heads * self.size, bias=False)
        self.value = nn.Linear(width, kv_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.register_buffer("keys", torch.zeros(1, kv_heads, length, self.size))
        self.register_buffer("values", torch.zeros(1, kv_heads, length, self.size))

    def forward(
        self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        batch, tokens, width = x.shape
        q = self.query(x).view(batch, tokens, self.heads, self.size).transpose(1, 2)
        k = self.key(x).view(batch, tokens, self.kv_heads, self.size).transpose(1, 2)
        v = self.value(x).view(batch, tokens, self.kv_heads, self.size).transpose(1, 2)
        q, k = _rotated(q, *rotation), _rotated(k, *rotation)
        self.keys.index_copy_(2, positions, k)
        self.values.index_copy_(2, positions, v)
        repeat = self.heads // self.kv_heads
        keys = self.keys.repeat_interleave(repeat, dim=1)
        values = self.values.repeat_interleave(repeat, dim=1)
        attended = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return self.out(attended.transpose(1, 2).reshape(batch, tokens, width))


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Decoder(nn.Module):
    """A small Llama-style decoder: token ids and their positions -> logits of the last token. Keeps a cache."""

    def __init__(
        self,
        layers: int = 2,
        width: int = 64,
        heads: int = 4,
        kv_heads: int = 2,
        vocabulary: int = 128,
        length: int = 32,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            self.layers.append(
                nn.ModuleDict(
                    {
                        "norm1": nn.RMSNorm(width),
                        "attention": Attention(width, heads, kv_heads, length),
                        "norm2": nn.RMSNorm(width),
                        "gate": nn.Linear(width, 2 * width, bias=False),
                        "up": nn.Linear(width, 2 * width, bias=False),
                        "down": nn.Linear(2 * width, width, bias=False),
                    }
                )
            )
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight  # tied
        size = width // heads
        frequencies = 1.0 / 10000 ** (torch.arange(0, size, 2).float() / size)
        angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("slots", torch.arange(length))

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        rotation = (self.cos[positions], self.sin[positions])
        mask = self.slots[None, :] <= positions[:, None]
        for layer in self.layers:
            x = x + layer["attention"](layer["norm1"](x), rotation, mask, positions)
            hidden = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](hidden)) * layer["up"](hidden))
        return self.head(self.norm(x[:, -1]))


class _Call(nn.Module):
    """The same module as another method: state and weights are shared."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(*inputs)


def llama() -> dict[str, Method]:
    """A small Llama-style decoder with a cache: a method that takes a prompt of 8 tokens, one that takes one token."""
    torch.manual_seed(0)
    model = Decoder().eval()
    tokens = torch.randint(0, 128, (1, 8))
    return {
        "prefill": Method(_Call(model), (tokens, torch.arange(8))),
        "decode": Method(_Call(model), (torch.randint(0, 128, (1, 1)), torch.tensor([8]))),
    }


class DetectionHead(nn.Module):
    """Two feature levels joined by upsampling, a box and a class branch each: image -> boxes and scores."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=4, padding=1), nn.BatchNorm2d(16), nn.SiLU(inplace=True))
        self.deep = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.SiLU(inplace=True))
        self.lateral = nn.Conv2d(32, 16, 1)
        self.boxes = nn.ModuleList([nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(32, 4, 3, padding=1)])
        self.classes = nn.ModuleList([nn.Conv2d(16, 5, 3, padding=1), nn.Conv2d(32, 5, 3, padding=1)])

    def forward(self, image: torch.Tensor) -> dict[str, Any]:
        shallow = self.stem(image)
        deep = self.deep(shallow)
        up = F.interpolate(self.lateral(deep), scale_factor=2, mode="nearest")
        smooth = F.interpolate(self.lateral(deep), size=shallow.shape[-2:], mode="bilinear", align_corners=False)
        levels = (shallow + up * 0.5 + smooth * 0.5, deep)
        boxes = [branch(x).flatten(2).transpose(1, 2) for branch, x in zip(self.boxes, levels, strict=True)]
        scores = [branch(x).flatten(2).transpose(1, 2) for branch, x in zip(self.classes, levels, strict=True)]
        scores_all = torch.cat(scores, 1).sigmoid()
        best, label = scores_all.max(dim=-1)
        return {"boxes": torch.cat(boxes, 1), "scores": (best, label)}


def detection_head() -> dict[str, Method]:
    """A detection head with nearest and bilinear upsampling; nested outputs."""
    torch.manual_seed(0)
    return {"forward": Method(settle(DetectionHead()), (torch.rand(1, 3, 64, 64),))}


#: Name -> function that makes its methods.
ZOO: dict[str, Callable[[], dict[str, Method]]] = {
    function.__name__: function
    for function in (
        mobilenet_v2,
        mobilenet_v3_small,
        resnet18,
        vit_small,
        minilm,
        ds_cnn,
        autoencoder,
        lstm,
        gru,
        unet,
        llama,
        detection_head,
    )
}
