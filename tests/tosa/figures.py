"""The figures of docs/how-to/backends_tosa.md, a line for each network.

python -m tests.tosa.figures [NAME ...] [--vela]        # with the tools: make tosa-setup
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
from executorch_py.backends.tosa import EthosUPartitioner, TOSAPartitioner, reference
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.codegen.pte_delegates import delegates_of
from tests.models import zoo
from tests.tosa.test_networks import _Lstm, _VitBlock
from tests.tosa.tools import tosa_python

ZOO = ("ds_cnn", "autoencoder", "resnet18", "mobilenet_v2", "mobilenet_v3_small")
LARGE_POOL = "ds_cnn_large_pool"
OTHERS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "lstm": (_Lstm, (1, 16, 32)),
    "vit_block": (_VitBlock, (1, 64, 96)),
}


class _LargePool(nn.Module):
    """DS-CNN whose average of the image is a pooling window of 25 x 5, which the official flow leaves on U55."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.features, self.pool, self.classifier = network.features, nn.AvgPool2d((25, 5)), network.classifier

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.pool(self.features(spectrogram)).flatten(1))


def _network(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...], Any]:
    torch.manual_seed(0)
    if name in OTHERS:
        make, shape = OTHERS[name]
        config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
        return make().eval(), (torch.randn(shape),), quantizer.TOSAQuantizer().set_global(config)
    method = getattr(zoo, name.removesuffix("_large_pool"))()["forward"]
    model = _LargePool(method.module).eval() if name == LARGE_POOL else method.module
    return model, tuple(torch.randn_like(x) for x in method.inputs), "static_int8"


def figures(name: str, vela: bool) -> str:
    """Segments, operators left, exactness, bytes, seconds of a processor, and Vela's estimates."""
    model, inputs, config = _network(name)
    exported = quantizer.quantize(model, inputs, config, [inputs])
    start = time.process_time()
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner()])
    program = edge.to_executorch()
    seconds = time.process_time() - start
    parts = delegates_of(bytes(program.buffer))
    nodes = [
        n for n in edge.exported_program().graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)
    ]
    left = [n for n in nodes if "delegation_tag" not in n.meta and "quantize_per" not in str(n.target)]
    quantize = next(node for node in exported.graph.nodes if "quantize_per_tensor" in str(node.target))
    scale, zero_point = exported.graph.output_node().args[0][0].args[1:3]
    kernels = (
        et.Runtime.get()
        .load_program(et.to_edge_transform_and_lower(exported).to_executorch().buffer)
        .load_method("forward")
    )
    exact, most = [], 0
    for i in range(6 if name in ZOO[2:] else 1):
        torch.manual_seed(i)
        given = tuple(torch.randn_like(x) for x in inputs)
        integers = torch.ops.quantized_decomposed.quantize_per_tensor.default(given[0], *quantize.args[1:])
        (got,) = reference.run(parts[0].payload, [integers.numpy()], tosa_python())
        wanted = torch.round(kernels.execute(given)[0] / scale).int() + zero_point
        off = (torch.from_numpy(got).int() - wanted).abs()
        exact.append(round(100 * float((off == 0).float().mean())))
        most = max(most, int(off.max()))
    line = f"{name}: {len(parts)} segment, {len(left)} left, exact {exact} %, {most} step, "
    line += f"{len(parts[0].payload)} bytes, {seconds:.1f} s"
    for accelerator in ("ethos-u55-128", "ethos-u85-256") if vela else ():
        partitioner = EthosUPartitioner(accelerator)
        et.to_edge_transform_and_lower(exported, partitioner=[partitioner])
        line += f", {accelerator} {partitioner.report.cycles} cycles in {len(partitioner.report.parts)}"
    return line


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[ZOO[0], LARGE_POOL, *ZOO[1:], *OTHERS])
    parser.add_argument("--vela", action="store_true", help="with the estimated cycles")
    chosen = parser.parse_args()
    os.environ["ET_TOSA_PYTHON"] = str(tosa_python())
    for one in chosen.names:
        print(figures(one, chosen.vela), flush=True)
