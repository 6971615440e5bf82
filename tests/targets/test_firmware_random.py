"""Random int8 networks as firmware: its kernels give the host's integers, and projects build without a warning and run.

The same ones in every run; ET_RANDOM_FIRMWARE=50 draws that many new ones.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import strategies as st

import executorch_py as et
from executorch_py import _core, quantizer
from executorch_py.errors import InvalidStateError
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import missing_tools
from executorch_py.runtime import Program, Runtime
from tests.conformance.drawn import drawn
from tests.conformance.random_networks import Network, exported, networks

pytestmark = pytest.mark.mcu

CORES = [f"cortex-m{core}" for core in (55, 33, 7, 4, 3, 0)]
STRICT = "-Wall -Wextra -Wconversion -Werror"


def lowered(network: Network, overlap: bool) -> tuple[bytes, list[tuple[torch.Tensor, ...]]] | None:
    """The int8 file of the network for one example at a time, and inputs; None where nothing can be quantized."""
    network.dynamic = None
    network.inputs = (network.inputs[0][:1].contiguous(), network.inputs[1])
    torch.manual_seed(1)
    samples = [(torch.randn_like(network.inputs[0]), torch.tensor(i % 2 == 0)) for i in range(4)]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = quantizer.quantize(exported(network), calibration_data=samples)
        except InvalidStateError as error:
            assert "nothing to quantize" in str(error)
            return None
        planning = et.MemoryPlanningPass(overlap_inputs=overlap)
        config = et.ExecutorchBackendConfig(memory_planning_pass=planning)
        return bytes(et.to_edge_transform_and_lower(program).to_executorch(config).buffer), samples


@drawn("ET_RANDOM_FIRMWARE", 8, network=networks())
def test_kernels_of_firmware_give_what_those_of_the_host_give(network: Network) -> None:
    """Plain C++ of kernels/cortex_m, results over their inputs too; floats between integers may round otherwise."""
    made = lowered(network, overlap=False)
    if made is None:
        return
    over = lowered(network, overlap=True)
    assert over is not None
    host = Runtime.get().load_program(made[0]).load_method("forward")
    methods = [
        Program(_core.Program.from_bytes(data, firmware_kernels=True)).load_method("forward")
        for data in (made[0], over[0])
    ]
    for call in made[1]:
        expected = [x.clone() for x in host.execute(call)]
        apart, shared = ([x.clone() for x in method.execute(call)] for method in methods)
        torch.testing.assert_close(apart, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(shared, apart, rtol=0, atol=0, equal_nan=True)


@drawn("ET_RANDOM_FIRMWARE", 2, network=networks(), target=st.sampled_from(CORES))
def test_a_random_network_is_firmware(network: Network, target: str) -> None:
    if missing := missing_tools(TARGETS[target]):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    made = lowered(network, overlap=True)
    if made is None:
        return
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXXFLAGS", f"{os.environ.get('CXXFLAGS', '')} {STRICT}".strip())
        report = write_firmware(made[0], Path(folder), target, inputs=made[1][0])
        assert report.run is not None and report.run.matches, (target, repr(network), report.run)
