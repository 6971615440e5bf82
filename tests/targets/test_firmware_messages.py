"""Texts of errors on the device: with their numbers, and without the C library's formatter."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import build, missing_tools
from executorch_py.firmware.project import Project

pytestmark = pytest.mark.mcu

PROGRAM = Path(__file__).parent / "cortex_m" / "messages.cpp"
NUMBERS = [
    f"integers 0 {-(2**31)} {2**32 - 1} beef M",
    "sizes 4 4 -70000 70000",
    f"of 64 bits {-(2**63)} {2**64 - 1} 1234567890123 7",
    "texts 'whole' 'cut' 'ET12' 100 %",
    f"floats 0.1 -1.23457e+06 {np.float32(0.1):.9g} 1e-10 0",
]
#: What the runtime says of a model at a wrong address, and of memory that is too small.
WANTED = [
    r"the program stands at address 0x[0-9a-f]+4, which is not a multiple of 16",
    r"allocator has no room for \d+ objects of 1 bytes \(0 bytes are used\); give it more memory load: MemoryAlloc",
    r"the temp_allocator has no room for \d+ bytes \(0 bytes are used\); give it more memory",
    r"method 'forward', instruction \d+, et::quantized_\w+.out: MemoryAllocationFailed",
    r"method 'forward' needs planned buffer 1 of \d+ bytes, aligned to 16; the MemoryManager has \d+ bytes at 0x",
]


@pytest.mark.parametrize(("target", "options"), [("cortex-m0", []), ("cortex-m55", ["-DEXECUTORCH_LTO=OFF"])])
def test_messages_have_their_numbers(target: str, options: list[str], tmp_path: Path) -> None:
    if missing := missing_tools(TARGETS[target]):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d((5, 4)),
        torch.nn.Flatten(), torch.nn.Linear(8, 5),
    ).eval()  # fmt: skip
    samples = [(torch.randn(1, 1, 10, 8),) for _ in range(4)]
    program = quantizer.quantize(model, samples[0], "static_int8", samples)
    write_firmware(et.to_edge_transform_and_lower(program).to_executorch(), tmp_path, target, measure=False)
    (tmp_path / "main.cpp").write_text(PROGRAM.read_text())
    project = Project(tmp_path, TARGETS[target])
    elf = build(project, ["-DEXECUTORCH_MESSAGES=ON", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", *options])
    done = subprocess.run([*TARGETS[target].emulator(), elf], capture_output=True, text=True, timeout=60, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    assert lines[: len(NUMBERS)] == NUMBERS
    assert done.returncode == 0, lines
    for wanted in WANTED:
        assert re.search(wanted, " ".join(lines)), (wanted, lines)
    assert all(len(line) <= 80 for line in lines), max(lines, key=len)

    symbols = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True, check=True).stdout
    formatters = r" _?_?(\w*printf\w*|_sbrk\w*|malloc\w*|_malloc_r|free|\w*dtoa\w*)$"
    assert not re.findall(formatters, symbols, re.MULTILINE)
