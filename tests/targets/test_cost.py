"""What `etpy firmware --cost` says of a file: bytes moved, flash and RAM by layer, with the lines of the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import executorch_py as et
from benchmarks.microcontrollers import NETWORKS
from executorch_py import _core, quantizer
from executorch_py.codegen.pte_stripping import stripped
from executorch_py.errors import InvalidArgumentError
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import missing_tools
from executorch_py.firmware.cost import cost_text, layers_of
from executorch_py.firmware.plan import Plan
from executorch_py.runtime import Program

pytestmark = pytest.mark.mcu


class TwoLayers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(2, 4, 3, padding=1)
        self.last = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        return self.last(x.mean((2, 3)))


@pytest.fixture(scope="module")
def data() -> bytes:
    torch.manual_seed(0)
    samples = [(torch.randn(1, 2, 6, 5),) for _ in range(2)]
    quantized = quantizer.quantize(TwoLayers().eval(), samples[0], "static_int8", samples)
    config = et.ExecutorchBackendConfig(quantized_io=True)
    return bytes(et.to_edge_transform_and_lower(quantized).to_executorch(config).buffer)


def test_bytes_follow_from_the_sizes_of_tensors(data: bytes) -> None:
    layers = {layer.kernel.removesuffix(".out"): layer for layer in layers_of(data)}
    convolution, linear = layers["et::quantized_convolution"], layers["et::quantized_linear"]
    weights = 4 * 2 * 9 + 4 * (4 + 4)  # and a bias and a scale for each channel
    assert convolution.flash_bytes == weights
    assert convolution.moved_bytes == 2 * 30 + 4 * 30 + weights
    assert convolution.ram_bytes == 2 * 30 + 4 * 30
    assert linear.flash_bytes == 3 * 4 + 3 * (4 + 4)
    assert linear.ram_bytes == 4 + 3
    assert layers["dim_order_ops::_clone_dim_order"].flash_bytes == 0


def test_lines_are_those_of_the_model_where_the_file_has_them(data: bytes) -> None:
    layers = {layer.kernel.removesuffix(".out"): layer for layer in layers_of(data)}
    line = TwoLayers.forward.__code__.co_firstlineno
    assert layers["et::quantized_convolution"].line.endswith(f"test_cost.py:{line + 1}")
    assert layers["et::quantized_convolution"].module == "first"
    assert layers["et::quantized_linear"].line.endswith(f"test_cost.py:{line + 2}")
    assert not any(layer.line or layer.module for layer in layers_of(stripped(data)[0]))


def test_the_table_says_what_nothing_measures(data: bytes) -> None:
    assert "Nothing here measures energy" in cost_text(tuple(layers_of(data)))


def test_layers_add_up_to_the_inference(data: bytes, tmp_path: Path) -> None:
    if missing := missing_tools(TARGETS["cortex-m3"]):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    report = write_firmware(data, tmp_path, "cortex-m3", cost=True)
    assert report.run is not None and report.run.matches
    counts = [layer.instructions for layer in report.cost]
    assert len(counts) == len(layers_of(data)) and min(counts) > 0
    assert 0.8 * report.run.instructions < sum(counts) < 1.02 * report.run.instructions
    assert "Nothing here measures energy" in str(report) and "test_cost.py" in str(report)


def test_a_target_that_counts_nothing_has_no_cost(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="host has none"):
        write_firmware(data, tmp_path, "host", cost=True)


def test_what_overlapping_results_would_save_is_about_what_planning_them_saves() -> None:
    module, shape = NETWORKS["ds_cnn"]()
    torch.manual_seed(0)
    samples = [torch.randn(shape) for _ in range(2)]
    edge = et.to_edge_transform_and_lower(quantizer.quantize(module.eval(), (samples[0],), "static_int8", samples))
    files = {}
    for overlap in (False, True):
        config = et.ExecutorchBackendConfig(
            quantized_io=True, memory_planning_pass=et.MemoryPlanningPass(overlap_inputs=overlap)
        )
        files[overlap] = bytes(edge.to_executorch(config).buffer)
    saved = arena(files[False]) - arena(files[True])
    assert saved > 7_000
    assert abs(Plan(files[False]).saved_by_overlaps() - saved) < 0.1 * saved
    assert Plan(files[True]).saved_by_overlaps() == 0


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=4),
        torch.nn.Conv2d(8, 72, 1),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
        torch.nn.MaxPool2d(3, stride=1),
        torch.nn.MaxPool2d(2, stride=1, dilation=2),
    ],
    ids=str,
)
def test_the_hint_names_only_what_planning_can_save(layer: torch.nn.Module) -> None:
    """A program that was planned so already is told nothing."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), layer, torch.nn.Flatten()).eval()
    samples = [(torch.randn(1, 1, 10, 9),) for _ in range(2)]
    planning = et.MemoryPlanningPass(overlap_inputs=True)
    config = et.ExecutorchBackendConfig(quantized_io=True, memory_planning_pass=planning)
    edge = et.to_edge_transform_and_lower(quantizer.quantize(model, samples[0], "static_int8", samples))
    assert Plan(bytes(edge.to_executorch(config).buffer)).saved_by_overlaps() == 0


def arena(data: bytes) -> int:
    """Bytes of a file's planned memory."""
    program = Program(_core.Program.from_bytes(data, firmware_kernels=True))
    return sum(program.metadata("forward").planned_buffer_sizes())
