"""Random networks against eager, with and without the XNNPACK delegate, at the sizes they were exported with and at
others.

The same ones in every run; ET_RANDOM_NETWORKS=1000 draws that many new ones.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidStateError
from tests.conformance.closeness import difference
from tests.conformance.drawn import drawn
from tests.conformance.random_networks import Network, exported, networks


def _sizes(network: Network) -> list[list[int]]:
    """The sizes of the input to try: those of export, then larger and smaller ones, then those of export again."""
    sizes = list(network.inputs[0].shape)
    tried = [sizes]
    for change in (3, -1, 1):
        tried.append([size + change if i in (network.dynamic or {}) else size for i, size in enumerate(sizes)])
    return [*tried, sizes]


def _lowered(program: torch.export.ExportedProgram, delegated: bool) -> Any:
    edge = et.to_edge_transform_and_lower(
        copy.deepcopy(program), partitioner=[XnnpackPartitioner(largest=True)] if delegated else []
    )
    return et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")


def _check(network: Network, program: torch.export.ExportedProgram, delegated: bool) -> None:
    method = _lowered(program, delegated)
    for turn, sizes in enumerate(_sizes(network)):
        x, flag = torch.randn(sizes), torch.tensor(turn % 2 == 0)
        report = f"{'delegate' if delegated else 'own kernels'} at {sizes}:"
        expected = _result(network, x, flag)
        before = x.clone()
        try:
            actual = method.execute([x, flag])[0]
        except et.ExecutorchError as error:
            allowed = expected is None or _result(program.module(), x, flag) is None
            assert allowed, f"{report} {error}\n{network!r}"
            continue
        assert expected is not None, f"{report} eager refuses this size, ours gives {list(actual.shape)}\n{network!r}"
        wrong = difference(actual, expected, looser=10.0)
        assert not wrong, f"{report} {wrong}\n{network!r}"
        assert torch.equal(x, before), f"{report} the input was written to\n{network!r}"


def _result(model: Any, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor | None:
    """What a model gives; None for sizes that it refuses."""
    try:
        return model(x.clone(), flag)
    except (RuntimeError, ValueError, AssertionError):
        return None


@drawn("ET_RANDOM_NETWORKS", 25, network=networks())
def test_random_network(network: Network) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = exported(network)
        for delegated in (False, True):
            _check(network, program, delegated)


@drawn("ET_RANDOM_NETWORKS", 25, network=networks())
def test_random_network_in_int8(network: Network) -> None:
    """Static int8: with and without the delegate, and beside the quantized program in eager."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = [(torch.randn(network.inputs[0].shape), torch.tensor(i % 2 == 0)) for i in range(4)]
        try:
            program = quantizer.quantize(exported(network), calibration_data=samples)
        except InvalidStateError as error:
            assert "nothing to quantize" in str(error)
            return
        reference = program.module()
        methods = {"own kernels": _lowered(program, False), "delegate": _lowered(program, True)}
        for x, flag in samples:
            expected = reference(x, flag)
            for name, method in methods.items():
                error = (method.execute([x, flag])[0] - expected).norm() / expected.norm().clamp(min=1e-6)
                assert error < 0.05, f"{name}: relative error {error:.3f}\n{network!r}"
