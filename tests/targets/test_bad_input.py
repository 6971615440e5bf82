"""Bad input on the device: a code and lines of at most 80 characters, never the fault handler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import build, missing_tools
from executorch_py.firmware.project import Project

pytestmark = pytest.mark.mcu

PROGRAM = Path(__file__).parent / "cortex_m" / "bad_input.cpp"
#: Case -> its code, and what the lines must have.
CASES = {
    "nothing": (0, []),
    "version": (0x23, ["model: InvalidProgram (35)", "ET12"]),
    "erased": (0x23, ["model: InvalidProgram (35)", "ET12"]),
    "erased flash": (0x23, ["model: InvalidProgram (35)", "ET12"]),
    "misaligned": (0x12, ["model: InvalidArgument (18)", "no multiple of 16"]),
    "odd address": (0x12, ["model: InvalidArgument (18)", "no multiple of 16"]),
    "method pool": (0x21, ["load: MemoryAllocationFailed (33)", "method pool lacks 16 bytes or more"]),
    "half a method pool": (0x21, ["load: MemoryAllocationFailed (33)", "method pool lacks "]),
    "temporary pool": (0x21, ["et::", "execute: MemoryAllocationFailed (33)", "temporary pool lacks 16 bytes or more"]),
    "arena": (0x12, ["load: InvalidArgument (18)", "arena lacks 48 bytes"]),
    "kernels": (0x14, ["et::quantized_convolution", "et::quantized_linear", "load: OperatorMissing (20)"]),
    "short input": (0x12, ["input 0 has 316 bytes, must have 320", "input: InvalidArgument (18)"]),
    "long input": (0x12, ["input 0 has 324 bytes, must have 320", "input: InvalidArgument (18)"]),
    "an input too many": (0x12, ["input: InvalidArgument (18)"]),
}


# Optimised across files, which is the default, and not: std:: functions that throw must not be needed then, either.
@pytest.fixture(scope="module", params=[("cortex-m0", "ON"), ("cortex-m55", "OFF")], ids=lambda param: param[0])
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines that bad_input.cpp prints."""
    target = TARGETS[request.param[0]]
    if missing := missing_tools(target):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.AvgPool2d((5, 4)),
        torch.nn.Flatten(), torch.nn.Linear(8, 5),
    ).eval()  # fmt: skip
    samples = [(torch.randn(1, 1, 10, 8),) for _ in range(4)]
    program = quantizer.quantize(model, samples[0], "static_int8", samples)
    folder = tmp_path_factory.mktemp("bad_input")
    write_firmware(et.to_edge_transform_and_lower(program).to_executorch(), folder, target.name, measure=False)
    (folder / "main.cpp").write_text(PROGRAM.read_text())
    option = f"-DEXECUTORCH_LTO={request.param[1]}"
    subprocess.run(["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", option], check=True)
    elf = build(Project(folder, target))
    done = subprocess.run([*target.emulator(), elf], capture_output=True, text=True, timeout=300, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 0, lines[-10:]
    return lines


def test_each_case_has_its_code_and_says_what_is_wrong(said: list[str]) -> None:
    texts = "\n".join(said).split("case ")[1:]
    assert {text.splitlines()[0] for text in texts} == set(CASES)
    for text in texts:
        name, *lines = text.split("damage\n")[0].splitlines()
        code, wanted = CASES[name]
        assert lines[-1] == f"code {code}", text
        assert all(part in text for part in wanted), (text, wanted)
    assert all(len(line) <= 80 for line in said), max(said, key=len)


def test_damage_at_random_is_refused_or_computed(said: list[str]) -> None:
    """The program went on to its end: no damage led to the fault handler. Some of it must have been found."""
    refused = next(int(line.split()[1]) for line in said if line.startswith("refused "))
    assert 500 < refused < 2000
    assert said[-2:] == ["case nothing", "code 0"]
