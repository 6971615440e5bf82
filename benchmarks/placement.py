"""What XNNPACK's delegate costs or saves: each model without it, with the default, and with all that it can take.

    [ET_MAX_ISA=avx2] python -m benchmarks.placement [--models NAME ...] [--precision int8] [--programs DIR]

The default should be within 3 % of the faster of the other two, on every instruction set. The three run in turn on the
same inputs on one thread; figures are medians of its processor time. Sides with equal files are measured once.
`--programs` keeps the files, so that a run under another limit need not lower them again.
"""

from __future__ import annotations

import argparse
import filecmp
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.utils import _pytree as pytree

import executorch_py as et
from executorch_py import quantizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.models.zoo import ZOO, Method, _torchvision

LEVEL = 1.03
SIDES = ("none", "default", "all")
#: Precision -> preset of the quantizer.
PRESETS = {"fp32": None, "int8": "static_int8", "dynamic": "dynamic_int8"}


class Separator(nn.Module):
    """A source separator in the manner of Conv-TasNet: 1-D convolutions with PReLU, dilated and depthwise inside."""

    def __init__(self, channels: int = 128, hidden: int = 256, blocks: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, channels, 16, stride=8)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(channels, hidden, 1),
                nn.PReLU(),
                nn.GroupNorm(1, hidden),
                nn.Conv1d(hidden, hidden, 3, dilation=2**block, padding=2**block, groups=hidden),
                nn.PReLU(),
                nn.GroupNorm(1, hidden),
                nn.Conv1d(hidden, channels, 1),
            )
            for block in range(blocks)
        )
        self.mask = nn.Conv1d(channels, channels, 1)
        self.decoder = nn.ConvTranspose1d(channels, 1, 16, stride=8)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        """One sound [n, 1, samples]."""
        encoded = self.encoder(sound)
        x = encoded
        for block in self.blocks:
            x = x + block(x)
        return self.decoder(encoded * torch.sigmoid(self.mask(x)))


def separator() -> dict[str, Method]:
    """Half a second at 8 kHz."""
    torch.manual_seed(0)
    return {"forward": Method(Separator().eval(), (torch.randn(1, 1, 4000),))}


def gpt2() -> dict[str, Method]:
    """Four layers of GPT-2 small on 64 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = GPT2LMHeadModel(GPT2Config(n_layer=4, use_cache=False, attn_implementation="sdpa"))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model(tokens).logits

    torch.manual_seed(0)
    return {"forward": Method(Logits().eval(), (torch.randint(0, 50000, (1, 64)),))}


def distilbert() -> dict[str, Method]:
    """DistilBERT, six layers, on 64 tokens."""
    from transformers import DistilBertConfig, DistilBertModel

    class States(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = DistilBertModel(DistilBertConfig(attn_implementation="sdpa"))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model(tokens).last_hidden_state

    torch.manual_seed(0)
    return {"forward": Method(States().eval(), (torch.randint(0, 30000, (1, 64)),))}


def wav2vec2() -> dict[str, Method]:
    """The convolutions and four layers of wav2vec 2.0 base on a second at 16 kHz."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    class States(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=4, attn_implementation="sdpa"))

        def forward(self, sound: torch.Tensor) -> torch.Tensor:
            return self.model(sound).last_hidden_state

    torch.manual_seed(0)
    return {"forward": Method(States().eval(), (torch.randn(1, 16000),))}


MODELS: dict[str, Callable[[], dict[str, Method]]] = {
    **ZOO,
    "separator": separator,
    "mobilenet_v3_large": lambda: _torchvision("mobilenet_v3_large"),
    "efficientnet_b0": lambda: _torchvision("efficientnet_b0"),
    "resnet50": lambda: _torchvision("resnet50"),
    "convnext_tiny": lambda: _torchvision("convnext_tiny"),
    "vit_b_16": lambda: _torchvision("vit_b_16"),
    "gpt2": gpt2,
    "distilbert": distilbert,
    "wav2vec2": wav2vec2,
}


def lowered(name: str, precision: str, programs: Path) -> dict[str, Path]:
    """Side -> file of the model. Mapped files begin with a page, so that weights lie alike in all."""
    files = {side: programs / f"{name}.{precision}.{side}.pte" for side in SIDES}
    if all(file.exists() for file in files.values()):
        return files
    exported: dict[str, Any] = {}
    for method_name, method in MODELS[name]().items():
        if preset := PRESETS[precision]:
            module = method.module.eval()
            exported[method_name] = quantizer.quantize(module, method.inputs, preset, [method.inputs] * 2)
        else:
            exported[method_name] = method.export()
    programs.mkdir(parents=True, exist_ok=True)
    for side, file in files.items():
        partitioner = None if side == "none" else [XnnpackPartitioner(always=side == "all")]
        file.write_bytes(et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().buffer)
    return files


def first_alike(files: dict[str, Path]) -> dict[str, str]:
    """Side -> the first side whose file has the same bytes."""
    return {
        side: next(other for other in files if other == side or filecmp.cmp(files[other], file, shallow=False))
        for side, file in files.items()
    }


def measure(calls: dict[str, Callable[[], object]], rounds: int, block_ms: float) -> dict[str, float]:
    """Side -> milliseconds of a call: the median of blocks, all sides in turn."""
    clock = time.thread_time
    repeats, times = {}, {side: [] for side in calls}
    for side, call in calls.items():
        call()
        start = clock()
        call()
        repeats[side] = max(1, int(block_ms / max((clock() - start) * 1e3, 1e-3)))
    for turn in range(rounds):
        order = list(calls)
        for side in order[turn % len(order) :] + order[: turn % len(order)]:
            calls[side]()
            start = clock()
            for _ in range(repeats[side]):
                calls[side]()
            times[side].append((clock() - start) * 1e3 / repeats[side])
    return {side: statistics.median(values) for side, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--precision", choices=list(PRESETS), default="fp32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--block", type=float, default=30.0, help="milliseconds of a block")
    parser.add_argument("--programs", type=Path, help="keep the lowered files in this folder")
    options = parser.parse_args()
    programs = options.programs or Path(tempfile.mkdtemp())
    et.set_num_threads(1)
    print(f"{'model':32}" + "".join(f"{side + ' ms':>12}" for side in SIDES) + f"{'default/best':>14}")
    worst = 0.0
    for name in options.models:
        files = lowered(name, options.precision, programs)
        alike = first_alike(files)
        loaded = {side: et.Runtime.get().load_program(files[side]) for side in set(alike.values())}
        for method_name, method in MODELS[name]().items():
            inputs = tuple(pytree.tree_leaves(method.inputs))
            methods = {side: loaded[side].load_method(method_name) for side in SIDES if side in loaded}
            calls = {side: (lambda m=m, i=inputs: m.execute(i)) for side, m in methods.items()}
            measured = measure(calls, options.rounds, options.block)
            times = {side: measured[alike[side]] for side in SIDES}
            ratio = times["default"] / min(times.values())
            worst = max(worst, ratio)
            title = name if method_name == "forward" else f"{name}.{method_name}"
            if alike["default"] != "default":
                title += f" (as {alike['default']})"
            mark = "" if ratio <= LEVEL else "  not the best"
            print(
                f"{title:32}" + "".join(f"{times[side]:12.3f}" for side in SIDES) + f"{ratio:14.3f}{mark}", flush=True
            )
    print(f"worst: {worst:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
