"""Functions that a model spells out operator by operator: as one operator, in eager PyTorch, and as their chain.

    python -m benchmarks.spelled_out [--threads 1 2] [--only SUBSTRING] [--rounds N] [--json FILE]

Activations and norms of 128 x 4096 floats, and blocks of transformers (only where the package `transformers` is
installed). "chain ms" is our call with the passes that recognise such functions switched off, in the same run. Method
and columns as in benchmarks.models.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py.exir import ExecutorchBackendConfig
from tests.models.zoo import Method

from .models import add_options, calls, run

PASSES = ("recognise-activations", "recognise-norms")
ROWS, COLUMNS = 128, 4096


class _Function(nn.Module):
    """A function of (module, tensor) with a weight and a bias."""

    def __init__(self, function: Callable[[_Function, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight, self.bias = nn.Parameter(torch.rand(COLUMNS)), nn.Parameter(torch.rand(COLUMNS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def _layer_norm(self: _Function, x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias


def _softmax(_: _Function, x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


_FUNCTIONS: dict[str, Callable[[_Function, torch.Tensor], torch.Tensor]] = {
    "gelu_tanh": lambda _, x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3)))),
    "gelu_erf": lambda _, x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "silu": lambda _, x: x * torch.sigmoid(x),
    "quick_gelu": lambda _, x: x * torch.sigmoid(1.702 * x),
    "mish": lambda _, x: x * torch.tanh(F.softplus(x)),
    "hardswish": lambda _, x: x * F.relu6(x + 3) / 6,
    "rms_norm": lambda self, x: self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
    "torch_rms_norm": lambda self, x: F.rms_norm(x, (COLUMNS,), self.weight, 1e-6),
    "layer_norm": _layer_norm,
    "softmax": _softmax,
}


def _methods(only: str) -> Iterator[tuple[str, Method]]:
    torch.manual_seed(0)
    for name, function in _FUNCTIONS.items():
        if only in name:
            yield name, Method(_Function(function).eval(), (torch.randn(ROWS, COLUMNS),))
    if importlib.util.find_spec("transformers") is None:
        print("transformers is not installed: no blocks", file=sys.stderr)
        return
    for name, module, width in _blocks():
        if only in name:
            yield name, Method(module.eval(), (torch.randn(1, ROWS, width),))


class _Feed(nn.Module):
    """Norm, feed-forward network and residual of a transformer's block."""

    def __init__(self, norm: nn.Module, feed: nn.Module) -> None:
        super().__init__()
        self.norm, self.feed = norm, feed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.feed(self.norm(x))


def _blocks() -> Iterator[tuple[str, nn.Module, int]]:
    """Name, module and width of the half of a block that has a norm and an activation."""
    from transformers import GPT2Config, LlamaConfig
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP
    from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm

    llama = LlamaConfig(hidden_size=1024, intermediate_size=2816)
    yield "llama_block", _Feed(LlamaRMSNorm(1024), LlamaMLP(llama)), 1024
    yield "gpt2_block", _Feed(nn.LayerNorm(768), GPT2MLP(3072, GPT2Config())), 768


def _compiled(method: Method, disabled: tuple[str, ...]) -> et.Program:
    config = ExecutorchBackendConfig(disabled_passes=disabled)
    edge = et.to_edge_transform_and_lower({"forward": method.export()})
    return et.Runtime.get().load_program(edge.to_executorch(config).buffer)


def _cases(only: str) -> Iterator[tuple[str, Callable[[], object], Callable[[], object], Callable[[], object]]]:
    for name, method in _methods(only):
        ours, eager = calls(_compiled(method, ()), method, "forward")
        chain, _ = calls(_compiled(method, PASSES), method, "forward")
        yield name, ours, eager, chain


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    add_options(parser, block_ms=20.0)
    options = parser.parse_args(arguments)
    return run(_cases(options.only), options, third="chain")


if __name__ == "__main__":
    sys.exit(main())
