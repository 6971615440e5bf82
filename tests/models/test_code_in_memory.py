"""Functions that loading and first calls take stand together in the extension module: few pages of it come into
memory.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import _core

# Run in a process without history; the child of a fork begins without pages of code.
SCRIPT = """
import os, sys
from pathlib import Path
import torch
import executorch_py as et
from executorch_py import _core

def code_bytes():
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if not first.endswith(":"):
            inside = line.endswith(_core.__file__) and line.split()[1].startswith("r-x")
        elif inside and first == "Rss:":
            total += int(line.split()[1]) * 1024
    return total

et.Runtime.get()
if os.fork() == 0:
    et.set_num_threads(1)
    before = code_bytes()
    et.Runtime.get().load_program(sys.argv[1]).load_method("forward").execute((torch.zeros(1, 64),))
    print(code_bytes() - before, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="pages of Linux on x86-64")
@pytest.mark.parametrize("kind", ("kernels", "delegate"))
def test_a_first_call_takes_few_pages_of_code(kind: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64)).eval()
    partitioner = [XnnpackPartitioner(largest=True)] if kind == "delegate" else []
    exported = torch.export.export(model, (torch.zeros(1, 64),))
    path = tmp_path / "model.pte"
    et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().save(path)
    # As installed, a copy: of a file that a linker has just written the system maps up to 300 KiB more at once.
    shutil.copytree(Path(_core.__file__).parent, tmp_path / "executorch_py")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert int(run.stdout) < 1280 << 10  # 600 to 860 KiB; 2.4 MiB in the linker's own order
