"""Memory that runs out at the n-th request, for all n, in a process of Python: always a MemoryError, and it goes on.

A library that is loaded before all others takes the place of malloc and mmap. Requests of less than a kilobyte do not
fail: pybind11 does not check what it asks for its own objects, and ends the process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.faults.models import write, write_training

LIBRARY = Path(__file__).parents[3] / "build/dev/bin/libet_failing_memory.so"

PROGRAM = """
import ctypes, gc, sys
import numpy as np
import executorch_py as et
from executorch_py import runtime, training

memory = ctypes.PyDLL(sys.argv[1])
memory.et_failing_memory_arm.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
memory.et_failing_memory_disarm.restype = ctypes.c_uint64
x = np.linspace(-1, 1, 64 * 128, dtype=np.float32).reshape(64, 128)

def infer(path):
    method = runtime.Runtime.get().load_program(path).load_method("forward")
    return [np.array(y) for _ in range(2) for y in method.execute([x])]

def profile(path):
    program = runtime.Runtime.get().load_program(path, enable_etdump=True, debug_buffer_size=1 << 20)
    outputs = program.load_method("forward").execute([x])
    program.write_etdump_result_to_file(path + ".etdp", path + ".bin")
    return [np.array(y) for y in outputs]

def module(path):
    return [np.array(et.load(path)(x))]

def train(path):
    module = training.TrainingModule.load(path)
    optimizer = training.SGD(module.named_parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        loss = module.forward_backward("forward", (x,))
        optimizer.step(module.named_gradients())
    module.save_checkpoint(path + ".ptd")
    module.load_checkpoint(path + ".ptd")
    return [np.array(value) for value in module.named_parameters().values()]

scenario = globals()[sys.argv[2]]
path = sys.argv[3]
scenario(path)  # what is imported late, is now
expected = scenario(path)

def same(outputs):
    return len(outputs) == len(expected) and all(np.allclose(a, b, atol=1e-5) for a, b in zip(outputs, expected))

gc.disable()
memory.et_failing_memory_arm(1 << 62, 1024)
scenario(path)
count = memory.et_failing_memory_disarm()
wrong = raised = 0
for n in range(1, count + 1):
    outputs = None
    memory.et_failing_memory_arm(n, 1024)
    try:
        outputs = scenario(path)
        memory.et_failing_memory_disarm()
        told = None if same(outputs) else "other outputs"
    except MemoryError:
        memory.et_failing_memory_disarm()
        raised += 1
        told = None
    except BaseException as error:
        memory.et_failing_memory_disarm()
        told = repr(error)
    if told is None and not same(scenario(path)):
        told = "other outputs afterwards"
    if told is not None:
        wrong += 1
        print("request", n, told, flush=True)
print("requests", count, "raised", raised, "wrong", wrong)
"""


@pytest.mark.skipif(not LIBRARY.exists(), reason="a build without C++ tests, or with sanitizers, which allocate")
@pytest.mark.parametrize("scenario", ["infer", "profile", "module", "train"])
def test_each_request_of_python_may_fail(scenario: str, tmp_path: Path) -> None:
    path = write_training(tmp_path, 128, 64) if scenario == "train" else write("wide_mlp", tmp_path)[0]
    environment = os.environ | {"LD_PRELOAD": str(LIBRARY)}
    command = [sys.executable, "-c", PROGRAM, LIBRARY, scenario, path]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    words = result.stdout.splitlines()[-1].split()
    assert words[-1] == "0", result.stdout[-3000:]
    assert int(words[3]) > 5, "requests that ended in a MemoryError"
