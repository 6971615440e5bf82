"""Random networks for the TOSA backend: odd windows, moves of elements, reductions, norms, attention and recurrence.

A network is drawn by running it: each layer is made for the value that is there, and dropped where eager refuses it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

_MOST_ELEMENTS = 6000
_IMAGE_KINDS = (
    "conv",
    "conv",
    "depthwise",
    "transposed",
    "max",
    "average",
    "adaptive",
    "upsample",
    "shuffle",
    "pad",
    "mean",
)
_SERIES_KINDS = ("conv", "conv", "transposed", "max", "average", "linear", "attention", "lstm", "norm", "bmm")
Apply = Callable[[torch.Tensor], torch.Tensor]


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.into, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        q, k, v = (
            part.view(n, length, self.heads, width // self.heads).transpose(1, 2) for part in self.into(x).chunk(3, -1)
        )
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width))


class _Recurrent(nn.Module):
    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(width, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


class RandomNetwork(nn.Module):
    """Drawn by a seed. ``text`` says what it computes.

    Attributes:
        dynamic: Whether the batch's size is one of run time.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        draw = self.random.randint
        shape = self.random.choice(
            [(draw(1, 3), draw(1, 6), draw(4, 12), draw(4, 12))] * 3
            + [(draw(1, 3), draw(2, 6), draw(4, 14)), (draw(2, 5), 8)]
        )
        self.inputs = (torch.randn(shape),)
        self.dynamic = shape[0] > 1 and draw(0, 5) == 0
        self.layers, self.steps, self.texts = nn.ModuleList(), [], []
        x = self.inputs[0]
        with torch.no_grad():
            for i in range(draw(3, 7)):
                x = self._add(x, i == 0)
        last = nn.Linear(x.shape[-1], 3)  # so that there is something to quantize
        self.layers.append(last)
        self.steps.append(last)
        self.texts.append(str(last))
        self.eval()
        self.text = f"seed {seed}, input {list(shape)}{' dynamic' if self.dynamic else ''}: {' -> '.join(self.texts)}"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            x = step(x)
        return x

    def _add(self, x: torch.Tensor, is_first: bool) -> torch.Tensor:
        families = {2: self._rows, 3: self._series, 4: self._images}
        for _ in range(50):
            step: Apply | None = None
            try:
                family = families.get(x.dim(), self._any)
                text, step = (family if is_first or self.random.random() < 0.65 else self._any)(x)
                if isinstance(step, nn.Module):
                    step.eval()
                y = step(x)
            except (RuntimeError, ValueError, IndexError, KeyError):
                continue
            if (
                0 < y.numel() <= _MOST_ELEMENTS
                and 1 <= y.dim() <= 5
                and torch.isfinite(y).all()
                and y.abs().max() < 1e3
            ):
                if isinstance(step, nn.Module):
                    self.layers.append(step)
                self.steps.append(step)
                self.texts.append(text)
                return y
        return x

    def _images(self, x: torch.Tensor) -> tuple[str, Apply]:
        r, c = self.random, x.shape[1]

        def pair(low: int, high: int) -> tuple[int, int]:
            return r.randint(low, high), r.randint(low, high)

        kind = r.choice(_IMAGE_KINDS)
        kernel, stride = pair(1, 4), pair(1, 3)
        if kind == "conv":
            groups = r.choice([g for g in range(1, c + 1) if c % g == 0])
            text = r.choice(["zeros", "zeros", "same"])
            layer = nn.Conv2d(
                c, groups * r.randint(1, 3), kernel, (1, 1) if text == "same" else stride,
                "same" if text == "same" else pair(0, 4), pair(1, 3), groups, r.random() < 0.7,
            )  # fmt: skip
        elif kind == "depthwise":
            layer = nn.Conv2d(c, c * r.randint(1, 2), kernel, stride, pair(0, 3), pair(1, 2), c, r.random() < 0.7)
        elif kind == "transposed":
            groups, dilation = r.choice([1, 1, c]), r.choice([(1, 1), (1, 1), (2, 1)])
            extra = tuple(r.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True))
            layer = nn.ConvTranspose2d(
                c, groups * r.randint(1, 3), kernel, stride, pair(0, 3), extra, groups, r.random() < 0.7, dilation
            )
        elif kind == "max":
            layer = nn.MaxPool2d(
                kernel,
                r.choice([None, stride]),
                tuple(k // 2 for k in kernel),
                r.choice([1, 1, 2]),
                False,
                r.random() < 0.5,
            )
        elif kind == "average":
            padding = tuple(r.choice([0, k // 2]) for k in kernel)
            layer = nn.AvgPool2d(
                kernel, r.choice([None, stride]), padding, r.random() < 0.5, r.random() < 0.5, r.choice([None, None, 3])
            )
        elif kind == "adaptive":
            layer = nn.AdaptiveAvgPool2d(pair(1, 4))
        elif kind == "upsample":
            mode = r.choice(["nearest", "bilinear"])
            corners = None if mode == "nearest" else r.random() < 0.5
            layer = nn.Upsample(scale_factor=r.choice([2, 3]), mode=mode, align_corners=corners)
        elif kind == "shuffle":
            layer = r.choice([nn.PixelShuffle(2), nn.PixelUnshuffle(2)])
        elif kind == "pad":
            amounts, mode = (*pair(0, 2), *pair(0, 2)), r.choice(["constant", "reflect", "replicate", "circular"])
            value = r.choice([0.0, 0.25]) if mode == "constant" else None
            return f"pad {amounts} {mode} {value}", lambda x: F.pad(x, amounts, mode, value)
        else:
            dims, keep = r.choice([(2, 3), (1,), (1, 2, 3), (0, 2), (-1, -2), (3,)]), r.random() < 0.5
            return f"mean {dims} {keep}", lambda x: x.mean(dims, keepdim=keep)
        return str(layer), layer

    def _series(self, x: torch.Tensor) -> tuple[str, Apply]:
        r, c, last = self.random, x.shape[1], x.shape[2]
        kind = r.choice(_SERIES_KINDS)
        kernel, stride, padding = r.randint(1, 4), r.randint(1, 3), r.randint(0, 3)
        if kind == "conv":
            groups = r.choice([g for g in range(1, c + 1) if c % g == 0])
            layer: nn.Module = nn.Conv1d(c, groups * r.randint(1, 3), kernel, stride, padding, r.randint(1, 3), groups)
        elif kind == "transposed":
            layer = nn.ConvTranspose1d(c, r.randint(1, 5), kernel, stride, padding, r.randint(0, stride - 1))
        elif kind == "max":
            layer = nn.MaxPool1d(kernel, stride, kernel // 2, ceil_mode=r.random() < 0.5)
        elif kind == "average":
            layer = nn.AvgPool1d(kernel, stride, kernel // 2, r.random() < 0.5, r.random() < 0.5)
        elif kind == "linear":
            layer = nn.Linear(last, r.randint(2, 9), r.random() < 0.7)
        elif kind == "attention":
            layer = _Attention(last, r.choice([h for h in (1, 2, 4) if last % h == 0]))
        elif kind == "lstm":
            layer = _Recurrent(r.choice(["LSTM", "GRU"]), last)
        elif kind == "norm":
            layer = r.choice([nn.LayerNorm(last), nn.BatchNorm1d(c), nn.GroupNorm(1, c)])
        else:
            return "x @ x.T", lambda x: x @ x.transpose(-1, -2) * 0.3
        return str(layer), layer

    def _rows(self, x: torch.Tensor) -> tuple[str, Apply]:
        last = x.shape[-1]
        layer = self.random.choice(
            [nn.Linear(last, self.random.randint(2, 12)), nn.Linear(last, 12), nn.LayerNorm(last), nn.BatchNorm1d(last)]
        )
        return str(layer), layer

    def _any(self, x: torch.Tensor) -> tuple[str, Apply]:
        r, d = self.random, self.random.randint(-x.dim(), x.dim() - 1)
        other = torch.randn([size if r.random() < 0.5 else 1 for size in x.shape[r.randint(0, x.dim() - 1) :]])
        amount, low, order = r.randint(1, 3), r.randint(-2, 2), r.sample(range(x.dim()), x.dim())
        steps: dict[str, Apply] = {
            f"+ constant {list(other.shape)}": lambda x: x + other,
            f"constant {list(other.shape)} - x": lambda x: other - x,
            f"* constant {list(other.shape)}": lambda x: x * other,
            f"x + mean {d}": lambda x: x + x.mean(d, keepdim=True),
            f"x * sigmoid of mean {d}": lambda x: x * x.mean(d, keepdim=True).sigmoid(),
            f"x - max {d}": lambda x: x - x.amax(d, keepdim=True),
            f"softmax {d}": lambda x: x.softmax(d),
            "relu": F.relu, "hardswish": F.hardswish, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh,
            "sigmoid": torch.sigmoid, "leaky relu": lambda x: F.leaky_relu(x, 0.1),
            "clamp": lambda x: x.clamp(-0.5, 0.7),
            "prelu": lambda x: F.prelu(x, torch.tensor([0.2])), "abs": torch.abs, "neg": torch.neg,
            "relu6 of sum": lambda x: F.relu6(x + 0.5 * x),
            f"slice {d} {low} step {amount}": lambda x: x[(slice(None),) * (d % x.dim()) + (slice(low, None, amount),)],
            f"narrow {d}": lambda x: x.narrow(d, 1, x.shape[d] - 1),
            f"split {d} {amount}, turned": lambda x: torch.cat(x.split(amount, d)[::-1], d),
            f"parts of chunk {d} added": lambda x: x.chunk(2, d)[0] + x.chunk(2, d)[1],
            f"cat {d} of relu": lambda x: torch.cat([x, F.relu(x), x * 2], d),
            f"stack {d}": lambda x: torch.stack([x, x.tanh()], d),
            f"select {d} {low}": lambda x: x.select(d, low),
            f"unsqueeze {d}": lambda x: x.unsqueeze(d),
            "squeeze": lambda x: x.squeeze(),
            "flatten": lambda x: x.flatten(1),
            f"permute {order}": lambda x: x.permute(order),
            f"flip {d}": lambda x: x.flip(d), f"roll {d} {amount}": lambda x: x.roll(amount, d),
            f"expand {amount}": lambda x: x.unsqueeze(0).expand(amount, *x.shape),
            f"repeat {d} {amount}": lambda x: x.repeat_interleave(amount, d),
            f"sum {d}": lambda x: x.sum(d), f"largest {d}": lambda x: x.amax(d), f"mean {d}": lambda x: x.mean(d),
            "mean of all": lambda x: x.mean((-1, -2)), "maximum": lambda x: torch.maximum(x, x.flip(0)),
            "where": lambda x: torch.where(x > 0, x, x * 0.3), "square": lambda x: x * x,
            "cumulative sum": lambda x: x.cumsum(-1), "view": lambda x: x.reshape(x.shape[0], -1, 2),
        }  # fmt: skip
        text = r.choice([*steps])
        return text, steps[text]
