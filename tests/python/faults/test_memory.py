"""Memory that runs out at the n-th request, for all n, in C++; and as an exception in Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.faults.models import MODELS, write, write_training

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / os.environ.get("ET_BUILD_DIR", "build/dev") / "bin/et_memory_faults"  # also a sanitized one


@pytest.mark.skipif(not PROGRAM.exists(), reason="a build without C++ tests")
@pytest.mark.parametrize("name", [*MODELS, "--profile", "--train"])
def test_each_request_may_fail(name, tmp_path):
    if "ET_BUILD_DIR" in os.environ and name in ("wide_mlp", "large_xnnpack"):
        pytest.skip("these start threads, for each of which a sanitizer takes memory, or ends the process")
    files = {"--train": lambda: [write_training(tmp_path)], "--profile": lambda: write("mlp", tmp_path)}
    options = [name, *files[name]()] if name in files else write(name, tmp_path)
    result = subprocess.run([PROGRAM, *options], capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stdout + result.stderr
    assert int(result.stdout.split()[0]) > 100, "requests that failed"


SCARCE = """
import resource, sys
import numpy as np
from executorch_py import runtime

program = runtime.Runtime.get().load_program(sys.argv[1])
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), hard))
try:
    program.load_method("forward")
except MemoryError as error:
    print(type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
method = program.load_method("forward")
print(float(np.asarray(method.execute([np.ones((1 << 20,), np.float32)])[0])[-1]))
"""


def test_python_raises_memory_error_and_goes_on(tmp_path):
    """Address space is limited to what the process has, so that the method's planned buffer does not fit."""
    import torch

    import executorch_py as et

    class Sums(torch.nn.Module):
        def forward(self, x):
            return (x + 1).flip(0).cumsum(0)

    exported = torch.export.export(Sums(), (torch.randn(1 << 20),))
    et.to_edge_transform_and_lower(exported).to_executorch().save(tmp_path / "sums.pte")
    result = subprocess.run(
        [sys.executable, "-c", SCARCE, tmp_path / "sums.pte"], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stdout + result.stderr
    refused, total = result.stdout.splitlines()[-2:]
    assert refused.startswith("OutOfMemoryError") and "bytes" in refused
    assert float(total) == 2 * (1 << 20)
