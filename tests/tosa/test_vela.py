"""Payloads through Vela, and Arm's reference model as a subprocess."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executorch_py.backends.tosa import environment, reference, vela

import executorch_py as et
from executorch_py.errors import InvalidArgumentError
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from tests.tosa.alone import as_program
from tests.tosa.tools import tosa_python

pytestmark = pytest.mark.tosa


def payload_of(name: str, folder: Path) -> bytes:
    """A payload of graphs.py."""
    subprocess.run([tosa_python(), Path(__file__).with_name("graphs.py"), name, folder / name], check=True)
    return (folder / name).read_bytes()


def blocks(stream: bytes) -> dict[str, bytes]:
    """The blocks of a payload for EthosUBackend."""
    found, at = {}, 0
    while at < len(stream):
        name, size = struct.unpack_from("<16sI", stream, at)
        found[name.rstrip(b"\0").decode()] = stream[at + 32 : at + 32 + size]
        at += 32 + size + -size % 16
    assert at == len(stream)
    return found


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_a_payload_holds_what_the_driver_needs(tmp_path: Path, accelerator: str) -> None:
    compiled = vela.compile_payload(payload_of("convolution", tmp_path), vela.VelaOptions(accelerator), tosa_python())
    found = blocks(compiled.payload)
    assert list(found) == [
        "vela_bin_stream", "cmd_data", "weight_data", "scratch_size", "inputs", "outputs", "vela_end_stream",
    ]  # fmt: skip
    assert found["cmd_data"].startswith(b"COP1") and len(found["weight_data"]) > 1000
    (scratch,) = struct.unpack("<I", found["scratch_size"])
    for kind, channels in (("inputs", 8), ("outputs", 16)):
        count, *shape, size, offset, _ = struct.unpack("<10i", found[kind])
        assert (count, shape, size) == (1, [1, 1, 1, 16, 16, channels], 1)
        assert 0 <= offset <= scratch - 16 * 16 * channels


def test_the_report_names_cycles_memory_and_source_lines(tmp_path: Path) -> None:
    report = vela.compile_payload(
        payload_of("convolution", tmp_path), vela.VelaOptions("ethos-u55-128"), tosa_python()
    ).report
    (layer,) = report.layers
    assert (layer.operator, layer.target, layer.macs) == ("Conv2D", "NPU", 16 * 16 * 16 * 3 * 3 * 8)
    assert layer.source == "model.py:12 handle=7"
    assert layer.cycles == report.cycles > 0 and report.sram_kib > 0 and report.flash_kib > 1
    assert report.on("NPU") == 1 and report.on("CPU") == 0
    text = str(report)
    assert "estimate" in text and "model.py:12" in text and "500 MHz" in text


def test_options_reach_vela(tmp_path: Path) -> None:
    options = vela.VelaOptions("ethos-u55-64", system_config="Ethos_U55_Deep_Embedded", memory_mode="Sram_Only")
    report = vela.compile_payload(payload_of("convolution", tmp_path), options, tosa_python()).report
    assert report.clock_hz == 200e6, "that of the system configuration"
    assert dict(options.compile_specs())["compile_flags"].endswith(b"--memory-mode=Sram_Only")
    with pytest.raises(ValueError, match=r"ethos-u55-100.*none of.*ethos-u55-128"):
        vela.VelaOptions("ethos-u55-100")


@pytest.mark.parametrize("damage", ["floats", "cut off"])
def test_a_refusal_has_a_reason(tmp_path: Path, damage: str) -> None:
    payload, options = payload_of("convolution", tmp_path), vela.VelaOptions("ethos-u55-128")
    if damage == "floats":
        payload = payload_of("product_of_floats", tmp_path)
    else:
        payload = payload[:100]
    with pytest.raises(vela.VelaRefused, match=r"Vela refuses the payload for ethos-u55-128: .*\w"):
        vela.compile_payload(payload, options, tosa_python())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"memory_mode": "Everywhere"}, r"memory-mode 'Everywhere' is not in Arm/vela.ini, which has .*Shared_Sram"),
        ({"system_config": "Fast"}, r"system-config 'Fast' is not in .*Ethos_U55_High_End_Embedded"),
        ({"extra_flags": ("--no-such",)}, r"^[^\n]*unrecognized arguments: --no-such$"),
        ({"config": "nowhere.ini"}, "no configuration file nowhere.ini"),
    ],
)
def test_an_unknown_option_is_no_refusal(tmp_path: Path, option: dict[str, Any], message: str) -> None:
    """It would leave all operators on the CPU, one after the other."""
    options = vela.VelaOptions("ethos-u55-128", **option)
    with pytest.raises(InvalidArgumentError, match=message):
        vela.compile_payload(payload_of("convolution", tmp_path), options, tosa_python())


def test_options_travel_as_compile_specs() -> None:
    options = vela.VelaOptions("ethos-u85-512", memory_mode="Sram_Only", extra_flags=("--optimise=Size",))
    specs = [CompileSpec(key, value) for key, value in options.compile_specs()]
    assert vela.VelaOptions.from_compile_specs(specs).flags() == options.flags()
    with pytest.raises(InvalidArgumentError, match="accelerator ''"):
        vela.VelaOptions.from_compile_specs([])
    with pytest.raises(InvalidArgumentError, match="has a blank"):
        vela.VelaOptions("ethos-u55-128", config="my config.ini")


@pytest.mark.parametrize(("package", "call"), [("ethos_u_vela", "vela"), ("tosa_tools", "reference")])
def test_another_version_of_a_tool_is_refused(tmp_path: Path, package: str, call: str) -> None:
    """Another version may have other limits, and a stream that the driver does not know."""
    fake = tmp_path / "lib" / f"{package}-4.0.0.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 4.0.0\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/lib exec {tosa_python()} "$@"\n')
    python.chmod(0o755)
    payload = payload_of("convolution", tmp_path)
    with pytest.raises(environment.ToolsMissing, match=r"4\.0\.0, must be .*pip install"):
        if call == "vela":
            vela.compile_payload(payload, vela.VelaOptions("ethos-u55-128"), python)
        else:
            reference.run(payload, [np.zeros((1, 16, 16, 8), np.int8)], python)
    python.chmod(0o644)
    with pytest.raises(environment.ToolsMissing, match="does not run"):
        vela.compile_payload(payload, vela.VelaOptions("ethos-u55-128"), python)


def test_interpreter_and_reference_model_agree_on_a_graph(tmp_path: Path) -> None:
    payload = payload_of("convolution", tmp_path)
    inputs = [np.random.default_rng(0).integers(-128, 128, (1, 16, 16, 8), dtype=np.int8)]
    expected = reference.run(payload, inputs, tosa_python())
    method = et.Runtime.get().load_program(as_program(payload, inputs, expected)).load_method("forward")
    np.testing.assert_array_equal(method.execute(tuple(inputs))[0], expected[0])
    assert len(np.unique(expected[0])) > 20


def test_the_reference_models_refusal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(reference.ReferenceError, match="refuses the payload"):
        reference.run(payload_of("convolution", tmp_path), [np.zeros((1, 2), np.int8)], tosa_python())


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ET_TOSA_PYTHON", raising=False)
    with pytest.raises(environment.ToolsMissing, match=r"extra 'tosa'.*pip install tosa-tools.*ET_TOSA_PYTHON"):
        environment.tools_python("tosa_reference_model_of_nobody")
    with pytest.raises(environment.ToolsMissing, match="nowhere does not exist"):
        environment.tools_python("ethosu", tmp_path / "nowhere")
