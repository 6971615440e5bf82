"""Packed weights that a file keeps for other processes: ``load_program(..., pack_cache=...)``."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py.errors import InvalidArgumentError

ANEW = "packed anew"


class Layers(nn.Module):
    """One of each kind that packs: 1x1, 3x3, depthwise and strided convolutions, linear layers, an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.images = nn.Sequential(
            nn.Conv2d(8, 32, 1), nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, groups=32),
            nn.Conv2d(32, 48, 3, stride=2)
        )  # fmt: skip
        self.sequence = nn.LSTM(48, 40)
        self.linear = nn.Linear(40, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.images(x).mean(3).permute(2, 0, 1)
        return self.linear(self.sequence(x)[0])


EXAMPLE = (torch.linspace(-1, 1, 8 * 16 * 16).reshape(1, 8, 16, 16),)


def export(path: Path, delegated: bool, seed: int = 0, external: bool = False) -> None:
    torch.manual_seed(seed)
    exported = torch.export.export(Layers().eval(), EXAMPLE)
    partitioner = [XnnpackPartitioner(always=True)] if delegated else None
    program = et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch(
        et.ExecutorchBackendConfig(external_constants=external)
    )
    path.write_bytes(program.buffer)
    if external:
        program.write_tensor_data_to_file(str(path.parent))


def run(path: Path, **options: object) -> tuple[torch.Tensor, int]:
    """The result, and how many bytes this load packed."""
    program = et.Runtime.get().load_program(path, **options)  # type: ignore[arg-type]
    result = program.load_method("forward").execute(EXAMPLE)[0]
    return result.clone(), program._core.packed_nbytes


def packs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.packed*"))


@pytest.fixture(params=[False, True], ids=["kernels", "delegate"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "model.pte"
    export(path, request.param)
    return path


def test_a_second_load_packs_nothing(model: Path) -> None:
    expected, of_all = run(model)
    first, of_first = run(model, pack_cache=True)
    second, of_second = run(model, pack_cache=True)
    assert of_all == of_first > 4 * 32 * 32 * 9
    assert of_second == 0
    assert torch.equal(expected, first)
    assert torch.equal(expected, second)
    assert [path.parent for path in packs(model.parent)] == [model.parent]


def test_a_directory_holds_packs_of_programs_with_one_name(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    results = []
    for seed in range(2):
        path = tmp_path / str(seed) / "model.pte"
        path.parent.mkdir()
        export(path, False, seed)
        run(path, pack_cache=store)
        result, packed = run(path, pack_cache=store)
        assert packed == 0
        assert torch.equal(result, run(path)[0])
        results.append(result)
    assert len(packs(store)) == 2
    assert not torch.equal(*results)


def test_a_program_in_memory_is_known_by_its_contents(model: Path, tmp_path: Path) -> None:
    loads = [et.Runtime.get().load_program(model.read_bytes(), pack_cache=tmp_path) for _ in range(2)]
    for program in loads:
        program.load_method("forward")
    again = et.Runtime.get().load_program(model.read_bytes(), pack_cache=tmp_path)
    again.load_method("forward")
    assert again._core.packed_nbytes == 0
    with pytest.raises(InvalidArgumentError, match="for a program's path"):
        et.Runtime.get().load_program(model.read_bytes(), pack_cache=True)


@pytest.mark.parametrize("delegated", [False, True])
def test_weights_in_another_file(tmp_path: Path, delegated: bool) -> None:
    path = tmp_path / "model.pte"
    export(path, delegated, external=True)
    data = next(tmp_path.glob("*.ptd"))
    expected, _ = run(path, data_path=data)
    run(path, data_path=data, pack_cache=True)
    result, packed = run(path, data_path=data, pack_cache=True)
    assert packed == 0
    assert torch.equal(expected, result)
    if not delegated:  # a delegate's weights are named by their contents
        other = tmp_path / "other"
        other.mkdir()
        export(other / "model.pte", False, seed=1, external=True)
        data.write_bytes(next(other.glob("*.ptd")).read_bytes())
        result, _ = run(path, data_path=data, pack_cache=True)
        assert torch.equal(result, run(other / "model.pte", data_path=data)[0])
        assert not torch.equal(result, expected)


def test_a_weight_that_changed_in_place_is_packed_anew(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, _ = run(model, pack_cache=True)
    torch.manual_seed(0)
    row = Layers().linear.weight[7].detach().numpy().tobytes()
    data = model.read_bytes()
    assert row in data
    at = data.index(row) + 3  # the sign of a number
    model.write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])
    result, packed = run(model, pack_cache=True)
    assert "another model's" in caplog.text
    assert packed > 0
    assert not torch.equal(before, result)
    assert torch.equal(result, run(model)[0])
    assert run(model, pack_cache=True)[1] == 0


def test_the_same_contents_in_another_file_are_read_once(model: Path) -> None:
    run(model, pack_cache=True)
    (pack,) = packs(model.parent)
    before = pack.read_bytes()
    copy = model.parent / "copy"
    copy.write_bytes(model.read_bytes())
    copy.replace(model)
    time.sleep(2.1)  # a file that is younger is read each time
    assert run(model, pack_cache=True)[1] == 0
    after = pack.read_bytes()
    assert len(after) == len(before)
    assert after != before  # knows the new file by its stamp
    assert run(model, pack_cache=True)[1] == 0
    assert pack.read_bytes() == after


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def cut_to_nothing(data: bytes) -> bytes:
    return b""


def foreign(data: bytes) -> bytes:
    return b"GIF89a" + bytes(len(data) - 6)


def flipped(at: int) -> Callable[[bytes], bytes]:
    """A bit of the byte at `at`; from the end where that is negative."""

    def flip(data: bytes) -> bytes:
        place = at % len(data)
        return data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]

    return flip


FAULTS = [cut, cut_to_nothing, foreign, *map(flipped, (9, 20, 40, 70, 130, 300, -2000, -20000))]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_is_replaced(
    model: Path, fault: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    expected, _ = run(model, pack_cache=True)
    (pack,) = packs(model.parent)
    whole = pack.read_bytes()
    pack.write_bytes(fault(whole))
    caplog.clear()
    result, packed = run(model, pack_cache=True)
    assert ANEW in caplog.text
    assert packed > 0
    assert torch.equal(expected, result)
    caplog.clear()
    result, packed = run(model, pack_cache=True)
    assert ANEW not in caplog.text
    assert packed == 0
    assert torch.equal(expected, result)


def test_a_file_that_others_may_write_is_not_used(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(model, pack_cache=True)
    packs(model.parent)[0].chmod(0o666)
    assert run(model, pack_cache=True)[1] > 0
    assert "others may have written it" in caplog.text


PROGRAM = """
import sys
import torch
import executorch_py as et

program = et.Runtime.get().load_program(sys.argv[1], pack_cache=True)
result = program.load_method("forward").execute((torch.linspace(-1, 1, 8 * 16 * 16).reshape(1, 8, 16, 16),))[0]
print(result.numpy().tobytes().hex())
"""


def start(model: Path, **options: object) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(model)], text=True, **pipes, **options)  # type: ignore


def test_a_full_disk_is_said_and_does_no_harm(model: Path) -> None:
    expected, _ = run(model)
    limit = 4096  # bytes of a file: what a full disk refuses, refused without one
    full = start(model, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    out, err = full.communicate(timeout=120)
    assert full.returncode == 0, err
    assert "cannot be written: File too large; the next load packs them again" in err
    assert out.strip() == expected.numpy().tobytes().hex()
    assert packs(model.parent) == []
    run(model, pack_cache=True)
    assert run(model, pack_cache=True)[1] == 0


def test_a_folder_that_nobody_writes(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected, _ = run(model)
    result, packed = run(model, pack_cache="/proc")
    assert "cannot be written" in caplog.text
    assert packed > 0
    assert torch.equal(expected, result)


def test_processes_that_start_together(model: Path) -> None:
    expected, _ = run(model)
    for _ in range(2):
        started = [start(model) for _ in range(3)]
        for process in started:
            out, err = process.communicate(timeout=240)
            assert process.returncode == 0, err
            assert out.strip() == expected.numpy().tobytes().hex()
    (pack,) = packs(model.parent)
    assert pack.suffix == ".packed"
    assert run(model, pack_cache=True)[1] == 0


def test_what_cannot_be_done_is_an_error(model: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"pack_cache is '.*none', which is no directory"):
        run(model, pack_cache=model.parent / "none")
    with pytest.raises(InvalidArgumentError, match=r"not for those that are read \(mmap=False"):
        run(model, pack_cache=True, mmap=False)


C_CALLS = """
import ctypes, sys

et = ctypes.CDLL(sys.argv[1])
et.et_last_error.restype = ctypes.c_char_p
program, method = ctypes.c_void_p(), ctypes.c_void_p()
path, store = sys.argv[2].encode(), sys.argv[3].encode()
data = open(path, "rb").read()


def check(status):
    assert status == 0, et.et_last_error().decode()


check(et.et_init_abi(1))
if sys.argv[4] == "file":
    check(et.et_program_load_file_packed(path, None, store, ctypes.byref(program)))
else:
    size = ctypes.c_size_t(len(data))
    check(et.et_program_load_memory_packed(data, size, None, store, ctypes.byref(program)))
check(et.et_method_load(program, b"forward", ctypes.byref(method)))
et.et_method_free(method)
et.et_program_free(program)
"""


@pytest.mark.parametrize("source", ["file", "memory"])
def test_the_c_interface_keeps_weights(tmp_path: Path, source: str) -> None:
    model, store = tmp_path / "model.pte", tmp_path / "store"
    store.mkdir()
    export(model, False)
    states = []
    for _ in range(2):  # a process each
        subprocess.run([sys.executable, "-c", C_CALLS, et.c_library_path, model, store, source], check=True)
        (pack,) = packs(store)
        states.append((pack.stat().st_ino, pack.stat().st_size))
    assert states[0] == states[1]  # the second one maps what the first one wrote
    assert states[0][1] > 4 * 32 * 32 * 9
