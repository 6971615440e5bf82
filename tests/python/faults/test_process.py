"""What a process may do to a loaded program, and what may happen to its files (docs/reference/faults.md)."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import runtime
from tests.python.runtime.programs import compile_text


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """A program whose large product uses the threads' pool."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).eval()
    path = tmp_path_factory.mktemp("models") / "model.pte"
    exported = torch.export.export(model, (torch.randn(64, 256),))
    et.to_edge_transform_and_lower(exported).to_executorch().save(path)
    return path


X = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)


def output_of(method) -> np.ndarray:
    return np.array(method.execute([X])[0])


def test_200_threads_share_a_program(file):
    program = runtime.Runtime.get().load_program(file)
    expected = output_of(program.load_method("forward"))
    barrier = threading.Barrier(200)

    def work(_: int) -> bool:
        barrier.wait()
        method = program.load_method("forward")
        return all(np.allclose(output_of(method), expected, atol=1e-5) for _ in range(3))

    with ThreadPoolExecutor(200) as threads:
        assert all(threads.map(work, range(200)))


FORKED = """
import os, sys
import numpy as np
import executorch_py as et
from executorch_py import runtime

x = np.ones((64, 256), np.float32)
program = runtime.Runtime.get().load_program(sys.argv[1])
method = program.load_method("forward")
expected = np.array(method.execute([x])[0])
for _ in range(3):
    child = os.fork()
    if child == 0:
        same = np.array_equal(np.array(method.execute([x])[0]), expected)
        fresh = runtime.Runtime.get().load_program(sys.argv[1]).load_method("forward")
        same = same and np.array_equal(np.array(fresh.execute([x])[0]), expected)
        os._exit(0 if same else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(np.array(method.execute([x])[0]), expected)
print("children and parent agree")
"""


def test_children_of_fork_run_what_the_parent_loaded(file):
    result = subprocess.run([sys.executable, "-c", FORKED, file], capture_output=True, text=True, timeout=60)
    assert "children and parent agree" in result.stdout, result.stdout + result.stderr


def test_a_file_that_is_cut_off_after_it_was_read(file, tmp_path):
    path = tmp_path / "read.pte"
    path.write_bytes(file.read_bytes())
    program = runtime.Runtime.get().load_program(path, mmap=False)
    os.truncate(path, 100)
    assert np.allclose(output_of(program.load_method("forward")), output_of_file(file), atol=1e-5)
    with pytest.raises(et.ExecutorchError, match="100"):
        runtime.Runtime.get().load_program(path)


def output_of_file(path: Path) -> np.ndarray:
    return output_of(runtime.Runtime.get().load_program(path).load_method("forward"))


def test_a_mapped_file_that_another_one_replaces(file, tmp_path):
    path = tmp_path / "mapped.pte"
    path.write_bytes(file.read_bytes())
    program = runtime.Runtime.get().load_program(path)
    (tmp_path / "new").write_bytes(b"no program")
    os.replace(tmp_path / "new", path)
    assert np.allclose(output_of(program.load_method("forward")), output_of_file(file), atol=1e-5)


def test_a_disk_that_is_full_leaves_the_file_before(file, tmp_path):
    """A limit on the size of files stands for the disk: writing fails in the middle."""
    path = tmp_path / "model.pte"
    path.write_bytes(b"before")
    program = et.to_edge_transform_and_lower(
        torch.export.export(torch.nn.Linear(64, 64).eval(), (torch.randn(1, 64),))
    ).to_executorch()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError):
            program.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.pte"], "nothing half written stays"
    program.save(path)
    assert path.stat().st_size > 4096


LONG = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
import executorch_py as et
from executorch_py import runtime
import numpy as np

method = runtime.Runtime.get().load_program(sys.argv[1]).load_method("forward")
x = np.ones((int(sys.argv[3]), 400), np.float32)
if sys.argv[4] == "once before":  # the library makes room and plans at the first call, and does not look meanwhile
    method.execute([x])
print("begin", flush=True)
try:
    while True:
        method.execute([x])
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
print(np.array(runtime.Runtime.get().load_program(sys.argv[2]).load_method("forward").execute(
    [np.ones((64, 256), np.float32)])[0]).shape)
"""


class LongLoop(torch.nn.Module):
    """A call of many instructions."""

    def forward(self, x):
        def go(i, y):
            return i < 4_000_000

        def step(i, y):
            return i + 1, (y @ y).clamp(-1, 1)

        return torch.ops.higher_order.while_loop(go, step, (torch.tensor(0), x), ())[1]


class LongDelegate(torch.nn.Module):
    """One instruction: hundreds of products by one weight in a delegate."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(400, 400)

    def forward(self, x):
        for _ in range(300):
            x = self.layer(x).clamp(-1, 1)
        return x


class LongKernel(torch.nn.Module):
    """A product that takes a second by itself."""

    def forward(self, x):
        y = x @ x.T
        return y @ y


@pytest.mark.parametrize(
    ("model", "partitioner", "rows"),
    [(LongLoop, [], 400), (LongDelegate, [XnnpackPartitioner(largest=True)], 1000), (LongKernel, [], 4000)],
)
def test_an_interrupt_ends_a_long_call_soon(file, tmp_path, model, partitioner, rows):
    exported = torch.export.export(model().eval(), (torch.randn(rows, 400),))
    et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().save(tmp_path / "long.pte")
    command = [sys.executable, "-c", LONG, tmp_path / "long.pte", file, str(rows), "once before" if partitioner else ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "begin\n"
            time.sleep(1)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            word, at = process.stdout.readline().split()
            rest = process.stdout.read()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
    assert word == "interrupted" and "(64, 256)" in rest
    assert float(at) - sent < 0.1 * max(1.0, os.getloadavg()[0] / os.cpu_count()), "seconds until the exception"


HALF_A_CALL = """
delegate "FaultyBackend" = "payload"
buffer @calls : f32[2, 2] = [0.0, 0.0, 0.0, 0.0]
method @forward(%x: f32[2, 2]) stage(lowered) {
  %n = buffer @calls : f32[2, 2]
  %one = aten::add.out(%n, %x, 1) : f32[2, 2]
  %kept = aten::copy_(%n, %one, false) : f32[2, 2] alias(%n)
  %y = delegate @0(%kept) : f32[2, 2]
  return %y
}"""


class Faulty:
    """A backend that writes half of its output and then fails, as often as it is told to."""

    failures = 0

    def init(self, context, processed, compile_specs):
        return None

    def execute(self, context, handle, args):
        source, target = args
        target[0] = source[0]
        if Faulty.failures > 0:
            Faulty.failures -= 1
            raise OSError("the device is gone")
        target[1] = source[1]


def test_a_delegate_that_fails_in_the_middle_leaves_what_was_written_before():
    runtime.Runtime.get().register_backend("FaultyBackend", Faulty)
    method = runtime.Runtime.get().load_program(compile_text(HALF_A_CALL)).load_method("forward")
    ones = np.ones((2, 2), np.float32)
    assert np.array_equal(method.execute([ones])[0], ones)
    Faulty.failures = 2
    for _ in range(2):
        with pytest.raises(OSError, match="the device is gone"):
            method.execute([ones])
    assert np.array_equal(method.execute([ones])[0], 4 * ones), "the sums before the errors stay"
    method.reset_state()
    assert np.array_equal(method.execute([ones])[0], ones)
