"""Random programs as generated code: the interpreter's bytes, whatever layers, operators and element types are drawn.

The same ones in every run; ET_RANDOM_BUILDS=100 draws that many new ones.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import ExecutorchError, InvalidStateError, NotSupportedError
from tests.conformance.drawn import drawn
from tests.conformance.random_graphs import Graph, graphs
from tests.conformance.random_networks import Network, exported, networks
from tests.targets.generated import Generated


def _check(program: torch.export.ExportedProgram, calls: list[tuple[Any, ...]], text: str) -> None:
    data = bytes(et.to_edge_transform_and_lower(program).to_executorch().buffer)
    with tempfile.TemporaryDirectory() as folder:
        try:
            generated = Generated(data, Path(folder))
        except NotSupportedError as error:
            assert "sizes of a tensor depend on data" in str(error), text
            return
        generated.check([("forward", call) for call in calls])


def _static(network: Network) -> torch.export.ExportedProgram:
    """The network at the sizes that it was drawn with."""
    network.dynamic = None
    return exported(network)


@drawn("ET_RANDOM_BUILDS", 3, network=networks())
def test_random_network(network: Network) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = _static(network)
        _check(program, [(torch.randn_like(network.inputs[0]), torch.tensor(i == 1)) for i in range(3)], repr(network))


@drawn("ET_RANDOM_BUILDS", 3, network=networks())
def test_random_network_of_other_sizes(network: Network) -> None:
    example = network.inputs[0]
    network.dynamic = {d: torch.export.Dim.AUTO(max=example.shape[d] + 2) for d in network.dynamic or (0,)}
    with torch.no_grad(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        generated = Generated(
            bytes(et.to_edge_transform_and_lower(exported(network)).to_executorch().buffer), Path(folder)
        )
        bounds = generated.program.metadata("forward").input_tensor_meta(0).bounds()
        for sizes in (example.shape, [upper for _, upper in bounds], [lower for lower, _ in bounds]):
            call = (torch.randn(*sizes), torch.tensor(True))
            try:
                generated.expected("forward", call)
            except ExecutorchError:  # sizes that two inputs or an operator do not let pass
                continue
            generated.check([("forward", call)])


@drawn("ET_RANDOM_BUILDS", 3, network=networks())
def test_random_network_in_int8(network: Network) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = [(torch.randn_like(network.inputs[0]), torch.tensor(i % 2 == 0)) for i in range(4)]
        try:
            program = quantizer.quantize(_static(network), calibration_data=samples)
        except InvalidStateError as error:
            assert "nothing to quantize" in str(error)
            return
        _check(program, samples, repr(network))


@drawn("ET_RANDOM_BUILDS", 4, graph=graphs())
def test_random_graph(graph: Graph) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check(torch.export.export(graph, tuple(graph.inputs)), [tuple(graph.inputs)] * 2, repr(graph))
