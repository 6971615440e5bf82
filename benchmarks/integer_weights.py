"""Linear layers whose weights are integers, beside eager's in float32: one row of input, as a language model decodes,
and many.

    python -m benchmarks.integer_weights [--threads 1 2] [--rounds N] [--json FILE]

The weights are made by torchao's `quantize_`: 8 or 4 bits, a scale for each row or for groups of columns. Inputs become
8-bit integers at the call ("dynamic") or stay floats ("weight only"). The third side is the same layer with the XNNPACK
delegate.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from typing import Any

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
    PerAxis,
    PerGroup,
    quantize_,
)

from tests.models.zoo import Method

from . import models

FORMS = [("dynamic", bits, group) for bits in (8, 4) for group in (0, 32, 128)]
FORMS += [("weight only", bits, group) for bits, group in ((8, 0), (4, 32))]


def _layer(kind: str, bits: int, group: int, features: int) -> torch.nn.Module:
    made = Int8DynamicActivationIntxWeightConfig if kind == "dynamic" else IntxWeightOnlyConfig
    layer = torch.nn.Sequential(torch.nn.Linear(features, features)).eval()
    granularity = PerGroup(group) if group else PerAxis(0)
    options = {"weight_dtype": getattr(torch, f"int{bits}")}
    options["weight_granularity" if kind == "dynamic" else "granularity"] = granularity
    quantize_(layer, made(**options))
    return layer


def _cases(features: int) -> Iterator[tuple[Any, ...]]:
    torch.manual_seed(0)
    for rows in (1, 64):
        x = torch.randn(rows, features)
        plain = Method(torch.nn.Linear(features, features).eval(), (x,))
        _, eager = models.calls(models.compile_methods({"forward": plain}), plain, "forward")
        for kind, bits, group in FORMS:
            method = Method(_layer(kind, bits, group, features), (x,))
            ours, _ = models.calls(models.compile_methods({"forward": copy.deepcopy(method)}), method, "forward")
            delegated, _ = models.calls(
                models.compile_methods({"forward": method}, [XnnpackPartitioner(largest=True)]), method, "forward"
            )
            scales = f"groups of {group}" if group else "rows"
            yield f"{rows} x {features}, {kind}, {bits} bits, {scales}", ours, eager, delegated


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=2048, help="columns and rows of the weight")
    models.add_options(parser, block_ms=20)
    options = parser.parse_args()
    return models.run(_cases(options.features), options)


if __name__ == "__main__":
    raise SystemExit(main())
