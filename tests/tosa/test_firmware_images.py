"""Images for the Cortex-M55 whose program has TOSA parts: the interpreter runs them there, the kernels the rest."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch
from executorch_py.backends.tosa import TOSAPartitioner
from executorch_py.backends.tosa.firmware import definitions

import executorch_py as et
from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import InvalidArgumentError
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import missing_tools
from tests.tosa.small_networks import lowered, quantized, small_networks

pytestmark = pytest.mark.mcu


def calls(data: bytes) -> int:
    """How many parts a program calls."""
    return len(delegates_of(data))


def need(target: str) -> None:
    if missing := missing_tools(TARGETS[target]):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One project, written again for each program, so that the runtime is compiled once."""
    return tmp_path_factory.mktemp("image")


def test_the_offload_grows_and_the_output_stays() -> None:
    """On the host: every number of operators gives the same bytes, and each step gives away more."""
    model, inputs = small_networks()["classifier"]
    program = quantized(model, inputs)
    wanted = et.Runtime.get().load_program(lowered(program, None).to_executorch().buffer)
    (expected,) = wanted.load_method("forward").execute(inputs)
    taken = []
    for count in range(7):
        edge = lowered(program, TOSAPartitioner(at_most=count))
        (got,) = et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward").execute(inputs)
        assert torch.equal(got, expected), count
        nodes = edge.exported_program().graph.nodes
        taken.append(sum("delegation_tag" in node.meta and "quantize" not in str(node.target) for node in nodes))
    assert taken[0] == 0 and taken == sorted(taken) and len(set(taken)) >= 4, taken


@pytest.mark.parametrize("count", [0, 3, None])
def test_an_image_with_a_part_gives_the_hosts_output(folder: Path, count: int | None) -> None:
    need("cortex-m55")
    model, inputs = small_networks()["classifier"]
    data = bytes(lowered(quantized(model, inputs), TOSAPartitioner(at_most=count)).to_executorch().buffer)
    assert calls(data) == (0 if count == 0 else 1)
    report = write_firmware(data, folder, "cortex-m55", inputs=inputs)
    assert report.run is not None and "output 0: as on the host" in report.run.text
    symbols = subprocess.run(
        ["arm-none-eabi-nm", "-C", folder / "build" / "firmware.elf"], capture_output=True, text=True, check=True
    ).stdout
    assert bool(re.search("tosa", symbols)) == (count != 0)
    assert not re.search(r"run_(gather|reverse|table|choice)|malloc|_sbrk", symbols), "what no payload needs"


def test_the_modules_of_the_arm_examples_on_the_m55(folder: Path) -> None:
    need("cortex-m55")
    for name in ("add", "custom"):
        model, inputs = small_networks()[name]
        data = bytes(lowered(quantized(model, inputs), TOSAPartitioner()).to_executorch().buffer)
        assert calls(data) == 1, name
        report = write_firmware(data, folder, "cortex-m55", inputs=inputs)
        assert report.run is not None and "output 0: as on the host" in report.run.text, name


def test_macros_name_the_operators_of_the_payloads() -> None:
    model, inputs = small_networks()["linear"]
    data = bytes(lowered(quantized(model, inputs), TOSAPartitioner()).to_executorch().buffer)
    (macro,) = definitions([one.payload for one in delegates_of(data)])
    assert macro == "ET_TOSA_OPERATORS=3,57,66", "CONV2D, RESHAPE, RESCALE"


def test_an_operator_that_was_left_out_is_refused_by_its_number(tmp_path: Path) -> None:
    need("host")
    model, inputs = small_networks()["linear"]
    data = bytes(lowered(quantized(model, inputs), TOSAPartitioner()).to_executorch().buffer)
    write_firmware(data, tmp_path, "host", inputs=inputs, measure=False)
    lists = tmp_path / "executorch" / "CMakeLists.txt"
    assert "ET_TOSA_OPERATORS=3,57,66" in lists.read_text()
    lists.write_text(lists.read_text().replace("ET_TOSA_OPERATORS=3,57,66", "ET_TOSA_OPERATORS=57,66"))
    build = tmp_path / "build"
    for command in (
        ["cmake", "-S", tmp_path, "-B", build, "-G", "Ninja", "-DEXECUTORCH_MESSAGES=ON"],
        ["cmake", "--build", build],
    ):
        subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run([build / "firmware.elf"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "NotSupported" in done.stdout and "operator 3 (CONV2D)" in done.stdout


def test_a_damaged_payload_is_refused_when_the_image_is_written(tmp_path: Path) -> None:
    model, inputs = small_networks()["linear"]
    data = bytes(lowered(quantized(model, inputs), TOSAPartitioner()).to_executorch().buffer)
    payload = delegates_of(data)[0].payload
    with pytest.raises(InvalidArgumentError, match=r"payload of the delegate 'tosa' is damaged: .*TOSA"):
        write_firmware(data.replace(payload[:8], payload[:4] + b"TOSB"), tmp_path, "host", measure=False)


def test_at_most_is_a_number_of_operators() -> None:
    with pytest.raises(InvalidArgumentError, match="at_most is -1"):
        TOSAPartitioner(at_most=-1)
