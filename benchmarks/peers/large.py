"""Rows of the comparison that are large or odd: published architectures with random weights, and shapes of real use.

The weights follow a fixed seed and norms are settled, so that no layer computes with zeros; speed does not depend on
them. Each row takes the number of samples, so that it can be measured one at a time and in batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers.row import Model
from tests.models.zoo import settle


class FirstOutput(nn.Module):
    """A transformers model as a function of tensors: its first output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(*inputs, return_dict=False)[0]


def _vision(name: str, size: int, samples: int) -> Model:
    import torchvision

    torch.manual_seed(0)
    model = settle(getattr(torchvision.models, name)(weights=None))
    return Model(model, (torch.rand(samples, 3, size, size),))


def _tokens(samples: int, length: int, vocabulary: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, (samples, length), generator=torch.Generator().manual_seed(3))


def distilbert(samples: int) -> Model:
    """DistilBERT with four layers on 96 tokens."""
    from transformers import DistilBertConfig, DistilBertModel

    torch.manual_seed(0)
    model = DistilBertModel(DistilBertConfig(n_layers=4, attn_implementation="sdpa"))
    return Model(FirstOutput(model).eval(), (_tokens(samples, 96, 30522),))


class NextToken(nn.Module):
    """Logits of a causal language model, without a cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(tokens, use_cache=False, return_dict=False)[0]


def gpt2(samples: int) -> Model:
    """GPT-2 with four layers on 64 tokens: its last layer has 50,257 columns."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return Model(NextToken(GPT2LMHeadModel(GPT2Config(n_layer=4))).eval(), (_tokens(samples, 64, 50257),))


def whisper_encoder(samples: int) -> Model:
    """The encoder of Whisper-tiny on 30 seconds of sound."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    torch.manual_seed(0)
    model = FirstOutput(WhisperEncoder(WhisperConfig()))
    return Model(model.eval(), (torch.randn(samples, 80, 3000),))


def wav2vec2(samples: int) -> Model:
    """wav2vec2 with four layers on one second of sound."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    torch.manual_seed(0)
    model = Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=4))
    return Model(FirstOutput(model).eval(), (torch.randn(samples, 16000),))


def mobilevit(samples: int) -> Model:
    """MobileViT-small at 256x256."""
    from transformers import MobileViTConfig, MobileViTModel

    torch.manual_seed(0)
    return Model(FirstOutput(settle(MobileViTModel(MobileViTConfig()))).eval(), (torch.rand(samples, 3, 256, 256),))


def _block(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Module:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.SiLU())


class CrossStage(nn.Module):
    """Half of the channels through residual blocks, all of them joined (Wang et al. 2020)."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        half = channels // 2
        self.enter = _block(channels, channels, 1)
        self.blocks = nn.ModuleList(nn.Sequential(_block(half, half), _block(half, half)) for _ in range(depth))
        self.leave = _block(half * (2 + depth), channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class Detector(nn.Module):
    """A detector of one stage with a pyramid of three scales, in the manner of the YOLO family."""

    def __init__(self, width: int = 16, classes: int = 80) -> None:
        super().__init__()
        w = width
        self.first = nn.Sequential(_block(3, w, 3, 2), _block(w, 2 * w, 3, 2), CrossStage(2 * w, 1))
        self.second = nn.Sequential(_block(2 * w, 4 * w, 3, 2), CrossStage(4 * w, 2))
        self.third = nn.Sequential(_block(4 * w, 8 * w, 3, 2), CrossStage(8 * w, 2))
        self.fourth = nn.Sequential(_block(8 * w, 16 * w, 3, 2), CrossStage(16 * w, 1))
        self.pooled = _block(64 * w, 16 * w, 1)
        self.up = nn.ModuleList([_block(24 * w, 8 * w, 1), _block(12 * w, 4 * w, 1)])
        self.heads = nn.ModuleList(nn.Conv2d(c * w, 4 + classes, 1) for c in (4, 8, 16))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        small = self.second(self.first(image))
        middle = self.third(small)
        large = self.fourth(middle)
        pools = [large]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        large = self.pooled(torch.cat(pools, 1))
        middle = self.up[0](torch.cat([F.interpolate(large, scale_factor=2.0), middle], 1))
        small = self.up[1](torch.cat([F.interpolate(middle, scale_factor=2.0), small], 1))
        levels = zip(self.heads, (small, middle, large), strict=True)
        found = torch.cat([head(level).flatten(2) for head, level in levels], 2)
        boxes, scores = found.split([4, found.shape[1] - 4], 1)
        return torch.cat([boxes.exp(), scores.sigmoid()], 1)


def detector(samples: int) -> Model:
    """A detector with three scales at 320x320."""
    torch.manual_seed(0)
    return Model(settle(Detector()), (torch.rand(samples, 3, 320, 320),))


class Masked(nn.Module):
    """A separator of two voices: coder, dilated depthwise blocks, masks, decoder (Luo and Mesgarani 2019)."""

    def __init__(self, filters: int = 256, width: int = 128, blocks: int = 8) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, filters, 16, 8)
        self.enter = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1))
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, filters, 1), nn.PReLU(), nn.GroupNorm(1, filters),
                nn.Conv1d(filters, filters, 3, padding=2**i, dilation=2**i, groups=filters), nn.PReLU(),
                nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1),
            )
            for i in range(blocks)
        )  # fmt: skip
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(width, 2 * filters, 1), nn.Sigmoid())
        self.decode = nn.ConvTranspose1d(filters, 1, 16, 8)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        coded = self.encode(wave).relu()
        x = self.enter(coded)
        for block in self.blocks:
            x = x + block(x)
        first, second = self.mask(x).chunk(2, 1)
        return torch.cat([self.decode(coded * first), self.decode(coded * second)], 1)


def separator(samples: int) -> Model:
    """A separator of two voices on half a second of sound."""
    torch.manual_seed(0)
    return Model(Masked().eval(), (torch.randn(samples, 1, 8000),))


class Tagger(nn.Module):
    """A tag for each word from a bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5000, 64)
        self.layer = nn.LSTM(64, 96, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(192, 18)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.tags(self.layer(self.words(words))[0])


def tagger(samples: int) -> Model:
    """A BiLSTM tagger on 24 words."""
    torch.manual_seed(0)
    return Model(Tagger().eval(), (_tokens(samples, 24, 5000),))


class Enlarge(nn.Module):
    """Twice the height and width by sub-pixel convolution (Shi et al. 2016), with residual blocks."""

    def __init__(self, width: int = 32, blocks: int = 4) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(blocks)
        )
        self.leave = nn.Sequential(nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.enter(image)
        for block in self.blocks:
            x = x + block(x)
        return self.leave(x)


def enlarge(samples: int) -> Model:
    """Super-resolution from 512x512 to 1024x1024."""
    torch.manual_seed(0)
    return Model(Enlarge().eval(), (torch.rand(samples, 3, 512, 512),))


def unet_256(samples: int) -> Model:
    """The small U-Net of the zoo at 256x256."""
    from tests.models.zoo import UNet

    torch.manual_seed(0)
    return Model(settle(UNet()), (torch.rand(samples, 3, 256, 256),))


#: Name -> function of the number of samples.
LARGE: dict[str, Callable[[int], Model]] = {
    "resnet50": partial(_vision, "resnet50", 224),
    "mobilenet_v3_large": partial(_vision, "mobilenet_v3_large", 224),
    "efficientnet_b0": partial(_vision, "efficientnet_b0", 224),
    "convnext_tiny": partial(_vision, "convnext_tiny", 224),
    "vit_b_16": partial(_vision, "vit_b_16", 224),
    "swin_t": partial(_vision, "swin_t", 224),
    "mobilevit": mobilevit,
    "detector": detector,
    "unet_256": unet_256,
    "distilbert": distilbert,
    "gpt2": gpt2,
    "whisper_encoder": whisper_encoder,
    "wav2vec2": wav2vec2,
    "separator": separator,
    "tagger": tagger,
    "enlarge": enlarge,
}
