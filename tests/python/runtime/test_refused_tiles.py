"""A process that the system refuses tiles (AMX) computes the same, with packed weights that another one kept, too.

Linux refuses them where a thread's signal stack is too small for them, as that of an older crash handler is. On
processors without tiles both processes are alike.
"""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch

import executorch_py as et
from executorch_py import quantizer

PROGRAM = """
import ctypes, sys
if sys.argv[1] == "refused":
    class Stack(ctypes.Structure):
        _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

    memory = ctypes.create_string_buffer(8192)
    stack = Stack(ctypes.addressof(memory), 0, len(memory))
    assert ctypes.CDLL(None, use_errno=True).sigaltstack(ctypes.byref(stack), None) == 0
import numpy
import executorch_py as et

model = et.load(sys.argv[2], pack_cache=sys.argv[3])
print(numpy.asarray(model(numpy.load(sys.argv[4]))).tobytes().hex())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses tiles so")
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8"])
@pytest.mark.parametrize("first", ["granted", "refused"])
def test_kept_weights_of_the_other_kind_do_not_count(tmp_path: Path, first: str, preset: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(300, 100).eval()
    inputs = (torch.randn(20, 300),)
    program = et.to_edge_transform_and_lower(quantizer.quantize(model, inputs, preset, [inputs]))
    (tmp_path / "model.pte").write_bytes(program.to_executorch().buffer)
    numpy.save(tmp_path / "x.npy", inputs[0].numpy())
    (tmp_path / "kept").mkdir()
    results = set()
    for kind in (first, "granted" if first == "refused" else "refused"):
        arguments = [kind, tmp_path / "model.pte", tmp_path / "kept", tmp_path / "x.npy"]
        command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
        results.add(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    assert any((tmp_path / "kept").iterdir())
    assert len(results) == 1
    assert torch.isfinite(torch.frombuffer(bytearray.fromhex(results.pop()), dtype=torch.float32)).all()
