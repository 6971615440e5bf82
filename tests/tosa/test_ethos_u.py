"""Ethos-U: what Vela takes, what it refuses, and firmware that hands the commands to a driver.

Nothing here runs an Ethos-U. The same partitions run through TOSAPartitioner with the same limits (test_lowering.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch_py.backends.tosa import EthosUPartitioner, TOSAPartitioner, VelaOptions, ethos_u, vela
from torch import nn

import executorch_py as et
from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import InvalidArgumentError
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import missing_tools
from tests.tosa.small_networks import lowered, quantized, small_networks
from tests.tosa.test_lowering import STRIDED_CASES, WRITTEN_CASES
from tests.tosa.tools import tosa_python

pytestmark = pytest.mark.tosa


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ET_TOSA_PYTHON", str(tosa_python()))


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", ["linear", "conv_relu", "custom", "classifier"])
def test_the_modules_of_the_arm_examples(name: str, accelerator: str) -> None:
    model, inputs = small_networks()[name]
    program = quantized(model, inputs)
    partitioner = EthosUPartitioner(accelerator)
    edge = lowered(program, partitioner)
    (part,) = delegates_of(bytes(edge.to_executorch().buffer))
    assert part.backend_id == "EthosUBackend" and part.compile_specs["target"].decode() == accelerator
    assert part.payload.startswith(b"vela_bin_stream\0") and b"COP1" in part.payload
    (report,) = partitioner.report.parts
    assert report.on("CPU") == 0 and report.on("NPU") > 0 and report.cycles > 0
    sources = [layer.source for layer in report.layers if "Conv2D" in layer.operator]  # copies of Vela's own have none
    assert sources and all(".py:" in source for source in sources), sources
    # The delegate takes what TOSA takes within the same limits.
    tosa = TOSAPartitioner(accelerator=accelerator)
    lowered(program, tosa)
    assert tosa.refusals == partitioner.refusals
    (eager,) = torch.utils._pytree.tree_leaves(edge.exported_program().module()(*inputs))  # the original parts
    torch.testing.assert_close(eager, program.module()(*inputs))


class _Residual(nn.Module):
    """A sum and a difference of images on different scales."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x + 3 * self.first(x))
        return y - self.second(y)


def _layers(model: nn.Module, inputs: tuple[torch.Tensor, ...], accelerator: str) -> tuple[vela.Layer, ...]:
    """Vela's operators for a network that is one part."""
    torch.manual_seed(0)
    partitioner = EthosUPartitioner(accelerator)
    lowered(quantized(model.eval(), inputs), partitioner)
    (report,) = partitioner.report.parts
    return report.layers


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_vela_takes_a_sum_as_one_operator(accelerator: str) -> None:
    """Without RESCALEs of their own, which cost U55 four more operators on 32 bits for each sum."""
    operators = [layer.operator for layer in _layers(_Residual(), (torch.randn(1, 8, 16, 16),), accelerator)]
    assert (operators.count("Add"), operators.count("Sub")) == (1, 1)
    assert "Rescale" not in operators, operators


class _Heads(nn.Module):
    """A linear layer whose columns become the batches of an attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(48, 144)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.qkv(x).reshape(1, 32, 3, 4, 12).permute(2, 0, 3, 1, 4)


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
def test_vela_takes_a_permutation_of_five_axes_as_one_operator(accelerator: str) -> None:
    layers = _layers(_Heads(), (torch.randn(1, 32, 48),), accelerator)
    (transpose,) = [layer for layer in layers if layer.operator == "Transpose"]
    assert transpose.cycles <= 3 * 32 * 144


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
def test_the_transposition_of_an_image_stays_cheap(accelerator: str) -> None:
    """As a matrix of channels and pixels it takes U85 ten times as many cycles and more."""
    layers = _layers(nn.Conv2d(3, 8, 3, stride=2), (torch.randn(1, 3, 112, 112),), accelerator)
    cycles = sum(layer.cycles for layer in layers if layer.operator == "Transpose")
    assert 0 < cycles <= 3 * (3 * 112 * 112 + 8 * 55 * 55)


def test_a_layer_norm_does_not_read_its_weights_from_flash_for_each_row() -> None:
    norm = nn.LayerNorm(96)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    layers = _layers(norm, (torch.randn(1, 64, 96),), "ethos-u55-128")
    slow = [layer for layer in layers if layer.operator in ("Mul", "Add") and layer.cycles > 2 * 64 * 96]
    assert not slow, slow


# U55 has the tighter limits, so that U85 gets a few of each kind.
_FORMS = WRITTEN_CASES | STRIDED_CASES


@pytest.mark.parametrize(
    ("name", "accelerator"), [*((n, "ethos-u55-128") for n in _FORMS), *((n, "ethos-u85-256") for n in [*_FORMS][::4])]
)
def test_vela_takes_what_the_quantizer_writes(name: str, accelerator: str) -> None:
    model, inputs = _FORMS[name]
    partitioner = EthosUPartitioner(accelerator)
    lowered(quantized(model, inputs), partitioner)
    assert len(partitioner.report.parts) == 1 and not partitioner.report.on_cpu, partitioner.report


def test_what_vela_refuses_stays_on_the_cpu_with_velas_reason() -> None:
    """TOSA has strides of (1, 2) and so has our table; Vela has them for images of one row only."""
    model = nn.Sequential(
        nn.Conv2d(4, 6, 3), nn.ConvTranspose2d(6, 6, 3, stride=(1, 2)), nn.Conv2d(6, 5, 1), nn.MaxPool2d(2)
    )
    inputs = (torch.randn(1, 4, 8, 8),)
    program = quantized(model, inputs)
    partitioner = EthosUPartitioner("ethos-u55-128")
    edge = lowered(program, partitioner)
    data = bytes(edge.to_executorch().buffer)
    assert len(delegates_of(data)) == 2, "in front of it and behind it"
    ((name, source, reason),) = partitioner.report.on_cpu
    assert "conv" in name and ".py:" in source
    assert "Vela refuses" in reason and "could not run on NPU" in reason
    assert "Vela refuses" in str(et.delegation_report(edge))
    u85 = EthosUPartitioner("ethos-u85-256")
    assert len(delegates_of(bytes(lowered(program, u85).to_executorch().buffer))) == 1 and not u85.report.on_cpu


@pytest.mark.parametrize("refused", [set(), {5}, {8}, {3, 8}, {3, 5, 8}])
def test_refusals_are_found_one_by_one(monkeypatch: pytest.MonkeyPatch, refused: set[int]) -> None:
    """A compiler that refuses TOSA operators by number (CONV2D 3, DEPTHWISE_CONV2D 5, MAX_POOL2D 8)."""

    def compile_payload(payload: bytes, options: VelaOptions) -> vela.Compiled:
        from executorch_py.backends.tosa.firmware import definitions

        found = {int(n) for n in definitions([payload])[0].partition("=")[2].split(",")} & refused
        if found:
            raise vela.VelaRefused(f"no operator {min(found)}")
        return vela.Compiled(b"made of " + payload, vela.Report(options.accelerator, 1e6, 0, 0, 0, 7))

    monkeypatch.setattr(ethos_u, "compile_payload", compile_payload)
    monkeypatch.setattr(ethos_u, "_compiled", {})
    model, inputs = small_networks()["classifier"]
    partitioner = EthosUPartitioner()
    edge = lowered(quantized(model, inputs), partitioner)
    reasons = [reason for _, _, reason in partitioner.report.on_cpu]
    named = {int(reason.removeprefix("no operator ")) for reason in reasons if reason.startswith("no operator ")}
    assert named <= refused and bool(named) == bool(refused)
    assert len(refused) != 1 or len(reasons) <= 3, "a part ends there, and the others stay"
    parts = delegates_of(bytes(edge.to_executorch().buffer))
    assert all(part.payload.startswith(b"made of ") for part in parts)
    assert partitioner.report.cycles == 7 * len(partitioner.report.parts)
    assert len(parts) == len(partitioner.report.parts)


def test_layers_behind_a_refused_one_keep_their_weights() -> None:
    """What dequantizes a weight stands in front of the first part, and goes with the layer."""
    model = nn.Sequential(
        nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3, stride=4, groups=4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 3)
    )
    partitioner = EthosUPartitioner("ethos-u55-128")
    edge = lowered(quantized(model, (torch.randn(1, 4, 9, 11),)), partitioner)
    assert len(delegates_of(bytes(edge.to_executorch().buffer))) == 2
    ((_, _, reason),) = partitioner.report.on_cpu
    assert "a stride of 4, ethos-u55 has 3" in reason


def test_the_offload_grows_operator_by_operator() -> None:
    model, inputs = small_networks()["classifier"]
    program = quantized(model, inputs)
    cycles = []
    for count in (0, 2, 4, None):
        partitioner = EthosUPartitioner(at_most=count)
        lowered(program, partitioner)
        cycles.append(partitioner.report.cycles)
    assert cycles[0] == 0 and cycles == sorted(set(cycles))


def test_missing_tools_are_an_error_before_anything_is_partitioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ET_TOSA_PYTHON", "/nowhere/python")
    monkeypatch.setattr(ethos_u, "_compiled", {})
    model, inputs = small_networks()["linear"]
    with pytest.raises(RuntimeError, match=r"/nowhere/python does not exist; make it with: .*ethos-u-vela"):
        lowered(quantized(model, inputs), EthosUPartitioner())


def test_unknown_accelerators_and_modes() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'ethos-u55-100' is none of .*ethos-u55-128"):
        EthosUPartitioner("ethos-u55-100")
    model, inputs = small_networks()["linear"]
    with pytest.raises(InvalidArgumentError, match="memory-mode 'Nowhere' is not in"):
        lowered(quantized(model, inputs), EthosUPartitioner(VelaOptions("ethos-u55-128", memory_mode="Nowhere")))


def _partial() -> tuple[bytes, tuple[torch.Tensor, ...]]:
    model, inputs = small_networks()["classifier"]
    edge = lowered(quantized(model, inputs), EthosUPartitioner("ethos-u55-128", at_most=3))
    return bytes(edge.to_executorch().buffer), inputs


def test_a_target_must_have_the_npu_of_the_parts(tmp_path: Path) -> None:
    data, _ = _partial()
    with pytest.raises(
        InvalidArgumentError, match=r"part for ethos-u55-128 .* has no NPU: give --target ethos-u55-128"
    ):
        write_firmware(data, tmp_path, "cortex-m55")
    with pytest.raises(InvalidArgumentError, match=r"part for ethos-u55-128 .* has ethos-u85-256"):
        write_firmware(data, tmp_path, "ethos-u85-256")
    with pytest.raises(Exception, match=r"needs backend 'EthosUBackend'.*not there"):
        et.Runtime.get().load_program(data).load_method("forward")


@pytest.mark.mcu
def test_firmware_hands_the_commands_to_a_driver(tmp_path: Path) -> None:
    if missing := missing_tools(TARGETS["ethos-u55-128"]):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    data, inputs = _partial()
    report = write_firmware(data, tmp_path, "ethos-u55-128", inputs=inputs)
    assert report.run is not None and report.run.matches and not report.is_compared
    assert "no NPU ran here" in str(report)
    lists = (tmp_path / "executorch" / "CMakeLists.txt").read_text()
    assert "backends/ethos_u/runtime/driver_stub.cpp" in lists and "backends/tosa" not in lists
