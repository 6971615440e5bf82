"""Single operators without a delegate, beside PyTorch eager in the same run: which kernel holds a model back.

    python -m benchmarks.kernels [--set zoo|database] [--dtype float32 …] [--threads 1 2] [--only SUBSTRING]
                                 [--rounds N] [--json FILE]

`--set zoo` (the default): models of one operator with shapes from the zoo; for images a figure contains the transposes
that a network needs at its borders only. `--set database`: every operator of PyTorch's own database on about a million
elements (benchmarks/enlarge.py, benchmarks/matrices.py), slowest first, then those that are left out, with the reason.
No operator may take more than three times eager's time.

A figure contains one call from Python, about a microsecond on either side. Method and columns as in benchmarks.models;
"out= ms" is our call into outputs that the caller gives; beside ours it shows what fresh memory costs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.models.zoo import Method

from . import enlarge
from .models import add_options, calls, compile_methods, run


class _Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


class _Sequences(nn.Module):
    """A recurrent layer without its last states."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def _image(channels: int, size: int) -> torch.Tensor:
    return torch.randn(1, channels, size, size)


def _tokens(rows: int = 128, width: int = 384) -> torch.Tensor:
    return torch.randn(1, rows, width)


def _heads(rows: int, keys: int, heads: int = 12, depth: int = 32) -> tuple[torch.Tensor, ...]:
    return torch.randn(1, heads, rows, depth), torch.randn(1, heads, keys, depth), torch.randn(1, heads, keys, depth)


def _pairs() -> dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]]:
    """Name -> (function or module, inputs)."""
    torch.manual_seed(0)
    cases: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {}
    unary = {
        "relu": F.relu, "hardtanh": F.relu6, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh, "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "exp": torch.exp, "erf": torch.erf, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "pow2": lambda x: x**2,
        "neg": torch.neg, "abs": torch.abs,
    }  # fmt: skip
    for name, function in unary.items():
        cases[name] = (function, (torch.rand(1, 128, 1536) + 0.1,))
    cases |= {
        "add": (torch.add, (_tokens(), _tokens())),
        "add_row": (torch.add, (_tokens(), torch.randn(384))),
        "mul_channel": (torch.mul, (_image(64, 56), _image(64, 1))),
        "div_scalar": (lambda x: x / 3.0, (_tokens(),)),
        "maximum": (torch.maximum, (_tokens(), _tokens())),
        "where": (lambda m, x, y: torch.where(m > 0, x, y), (_tokens(), _tokens(), _tokens())),
        "conv3x3": (nn.Conv2d(64, 64, 3, padding=1), (_image(64, 56),)),
        "conv1x1": (nn.Conv2d(96, 24, 1), (_image(96, 56),)),
        "conv_depthwise": (nn.Conv2d(144, 144, 3, padding=1, groups=144), (_image(144, 56),)),
        "conv_stem": (nn.Conv2d(3, 32, 3, stride=2, padding=1), (_image(3, 224),)),
        "conv1d": (nn.Conv1d(64, 64, 5, padding=2), (torch.randn(1, 64, 400),)),
        "conv_transpose": (nn.ConvTranspose2d(64, 32, 2, stride=2), (_image(64, 32),)),
        "linear": (nn.Linear(384, 1536), (_tokens(),)),
        "linear_one_row": (nn.Linear(768, 768), (torch.randn(1, 768),)),
        "bmm": (torch.bmm, (torch.randn(12, 128, 32), torch.randn(12, 32, 128))),
        "softmax": (lambda x: x.softmax(-1), (torch.randn(12, 128, 128),)),
        "softmax_dim1": (lambda x: x.softmax(1), (torch.randn(1, 21, 64, 64),)),
        "log_softmax": (lambda x: x.log_softmax(-1), (torch.randn(64, 1000),)),
        "layer_norm": (nn.LayerNorm(384), (_tokens(),)),
        "group_norm": (nn.GroupNorm(8, 64), (_image(64, 56),)),
        "batch_norm": (nn.BatchNorm2d(64).eval(), (_image(64, 56),)),
        "mean_image": (lambda x: x.mean((2, 3)), (_image(576, 7),)),
        "mean_rows": (lambda x: x.mean(-1), (_tokens(),)),
        "sum_dim1": (lambda x: x.sum(1), (_tokens(),)),
        "amax": (lambda x: x.amax(-1), (_tokens(),)),
        "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (_image(64, 112),)),
        "avg_pool": (lambda x: F.avg_pool2d(x, 2), (_image(64, 56),)),
        "upsample_nearest": (lambda x: F.interpolate(x, scale_factor=2), (_image(64, 28),)),
        "upsample_bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (_image(64, 28),)),
        "transpose": (lambda x: x.transpose(1, 2).contiguous(), (_tokens(384, 384),)),
        "heads_permute": (lambda x: x.view(1, 128, 12, 32).permute(0, 2, 1, 3).contiguous(), (_tokens(),)),
        "cat": (lambda x, y: torch.cat((x, y), 1), (_image(64, 56), _image(32, 56))),
        "slice": (lambda x: x[:, 3:100].contiguous(), (_tokens(),)),
        "embedding": (nn.Embedding(30000, 384), (torch.randint(0, 30000, (1, 128)),)),
        "attention": (F.scaled_dot_product_attention, _heads(128, 128)),
        "attention_causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _heads(512, 512)),
        "lstm_small": (_Sequences(nn.LSTM(16, 32, num_layers=2, batch_first=True)), (torch.randn(2, 12, 16),)),
        "lstm_speech": (_Sequences(nn.LSTM(80, 256, num_layers=2, bidirectional=True)), (torch.randn(100, 1, 80),)),
        "lstm_batch": (_Sequences(nn.LSTM(128, 256)), (torch.randn(50, 16, 128),)),
        "lstm_wide": (_Sequences(nn.LSTM(512, 1024)), (torch.randn(20, 1, 512),)),
        "gru_text": (_Sequences(nn.GRU(300, 128, bidirectional=True)), (torch.randn(40, 4, 300),)),
        "lstm_one_step": (_Sequences(nn.LSTM(256, 512)), (torch.randn(1, 1, 256),)),
        "attention_decode": (F.scaled_dot_product_attention, _heads(1, 1024, 16, 64)),
    }
    return cases


def _zoo(only: str) -> Iterator[tuple[Any, ...]]:
    for name, (function, inputs) in _pairs().items():
        if only in name:
            module = function if isinstance(function, nn.Module) else _Function(function)
            method = Method(module.eval(), inputs)
            yield (name, *calls(compile_methods({"forward": method}), method, "forward"))


def _database(dtypes: list[str], only: str, left_out: list[str]) -> Iterator[tuple[Any, ...]]:
    """Every operator that can be exported and that our kernels take; `left_out` gets the others with the reason."""
    for dtype in dtypes:
        for case in enlarge.cases(dtype, lambda name: only in name, left_out):
            method = Method(_Function(case.function).eval(), case.inputs)
            name = case.name if len(dtypes) == 1 else f"{case.name} {dtype}"
            try:
                loaded = compile_methods({"forward": method}).load_method("forward")
                outputs = loaded.execute(case.inputs)
            except Exception as error:  # whatever export, lowering or the runtime say: the reason is shown
                left_out.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:110]}")
                continue

            def ours(loaded=loaded, inputs=case.inputs) -> object:
                return loaded.execute(inputs)

            def eager(case=case) -> object:
                with torch.inference_mode():
                    return case.eager(*case.inputs)

            def reused(loaded=loaded, inputs=case.inputs, outputs=outputs) -> object:
                return loaded.execute(inputs, out=outputs)

            tensors = all(isinstance(output, torch.Tensor) for output in outputs)
            yield (name, ours, eager, *([reused] if tensors else []))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=["zoo", "database"], default="zoo")
    parser.add_argument("--dtype", nargs="+", default=["float32"], help="of the database's samples")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    add_options(parser, block_ms=10.0)
    options = parser.parse_args(arguments)
    if options.set == "zoo":
        return run(_zoo(options.only), options)
    left_out: list[str] = []
    result = run(_database(options.dtype, options.only, left_out), options, third="out=", slowest_first=True)
    if left_out:
        print(f"\nnot measured ({len(left_out)}):", *left_out, sep="\n  ")
    return result


if __name__ == "__main__":
    sys.exit(main())
