"""``etpy strip`` and ``etpy select``: what goes, what stays; a selective build has all that a program calls."""

import contextlib
import json
import random
import struct

import numpy as np
import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py.cli import main
from executorch_py.codegen.flatbuffer import DamagedError, read_root
from executorch_py.codegen.pte_stripping import stripped
from executorch_py.codegen.select_ops import read_selection
from executorch_py.devtools.requirements import requirements
from executorch_py.lowering.config import ExecutorchBackendConfig
from tests.devtools.models import two_blocks
from tests.python.runtime.programs import ADD, COUNTER, DYNAMIC, compile_text

BATCH = torch.export.Dim("batch", min=2, max=9)


class Padded(torch.nn.Module):
    """A weight that is a large segment, and a constant that is not."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(64, 64)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return self.lin(x) * self.count


def lowered(model, inputs, dynamic=None, partitioner=None, **config):
    exported = torch.export.export(model, inputs, dynamic_shapes=dynamic)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner)
    return edge.to_executorch(ExecutorchBackendConfig(**config))


def cases():
    model, inputs = two_blocks()
    padded = Padded().eval(), (torch.randn(3, 64),)
    everything = [XnnpackPartitioner(largest=True)]
    yield "kernels", lowered(model, inputs), inputs
    yield "dynamic", lowered(model, inputs, ({0: BATCH},)), inputs
    yield "delegated", lowered(model, inputs, None, everything), inputs
    yield "dynamic and delegated", lowered(model, inputs, ({0: BATCH},), everything), inputs
    yield "state", lowered(*padded), padded[1]
    yield "pages", lowered(*padded, segment_alignment=4096), padded[1]
    yield "inline payloads", lowered(model, inputs, None, everything, extract_delegate_segments=False), inputs
    yield "without", lowered(*padded, debug_info=False), padded[1]


CASES = {name: (program, inputs) for name, program, inputs in cases()}


def run(data, inputs):
    return et.Runtime.get().load_program(data).load_method("forward").execute(inputs)


@pytest.mark.parametrize("name", CASES)
def test_what_is_executed_stays(name):
    program, inputs = CASES[name]
    data = program.buffer
    smaller, removed = stripped(data)
    assert all(torch.equal(a, b) for a, b in zip(run(smaller, inputs), run(data, inputs), strict=True))
    assert not any(key in smaller for key in (b"executorch_py.debug", b"executorch_py.delegation", b"models.py"))
    named = et.Runtime.get().load_program(smaller).named_data()
    assert ("executorch_py.shapes" in named) == ("dynamic" in name)
    assert len(smaller) <= len(data) and bool(removed) == (name != "without")
    assert stripped(smaller) == (smaller, {}), "a second time nothing is left to take"


@pytest.mark.parametrize("name", [name for name in CASES if name != "without"])
def test_the_size_is_that_of_a_program_made_without(name):
    """Between the tables and the segments stays some room, of the entries in the tables."""
    program, _ = CASES[name]
    assert (
        len(program.buffer) - len(stripped(program.buffer)[0]) >= 0.5 * sum(stripped(program.buffer)[1].values()) - 128
    )


def segments(data):
    base = struct.unpack_from("<Q", data, 24)[0]
    return [(base + one.scalar(0, "Q"), one.scalar(1, "Q")) for one in read_root(data, b"ET12").tables(4)]


@pytest.mark.parametrize(("name", "alignment"), [("state", 128), ("pages", 4096)])
def test_segments_keep_their_alignment(name, alignment):
    data = stripped(CASES[name][0].buffer)[0]
    large = [offset for offset, size in segments(data) if size >= 4096]
    assert large and all(offset % alignment == 0 for offset in large)
    assert all(offset % 16 == 0 for offset, size in segments(data) if size)


def test_dynamic_sizes_stay_checked():
    smaller = stripped(CASES["dynamic"][0].buffer)[0]
    assert run(smaller, (torch.ones(9, 16),))[0].shape == (9, 16)
    with pytest.raises(et.InvalidArgumentError):
        run(smaller, (torch.ones(10, 16),))


@pytest.mark.parametrize("text", [ADD, COUNTER, DYNAMIC])
def test_programs_of_other_kinds(text):
    smaller, _ = stripped(compile_text(text))
    assert et.Runtime.get().load_program(smaller).method_names >= {"forward"}


def test_damaged_files_are_errors():
    """Whatever is in the file: an error of this package, or a program that loads or is refused at load."""
    data = CASES["dynamic and delegated"][0].buffer
    random.seed(0)
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(random.randint(1, 4)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        damaged = bytes(damaged[: random.choice([len(damaged), random.randrange(len(damaged))])])
        with contextlib.suppress(DamagedError):
            stripped(damaged)


def test_the_command(tmp_path, capsys):
    program, _ = CASES["delegated"]
    path = tmp_path / "model.pte"
    program.save(path)
    assert main(["strip", str(path), "-o", str(tmp_path / "small.pte"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == (tmp_path / "small.pte").stat().st_size < told["bytes_before"] == path.stat().st_size
    assert set(told["removed"]) >= {"executorch_py.debug", "executorch_py.delegation"}
    assert main(["strip", str(path), "-o", str(path)]) == 0
    assert path.read_bytes() == (tmp_path / "small.pte").read_bytes()
    path.write_bytes(b"nothing")
    assert main(["strip", str(path), "-o", str(tmp_path / "x.pte")]) == 2
    assert "InvalidProgramError" in capsys.readouterr().err and not (tmp_path / "x.pte").exists()


@pytest.mark.parametrize("suffix", [".txt", ".yaml"])
def test_select(tmp_path, capsys, suffix):
    plain, delegated = tmp_path / "plain.pte", tmp_path / "add.pte"
    CASES["state"][0].save(plain)
    delegated.write_bytes(compile_text(ADD.replace("f32", "i64")))
    out = tmp_path / f"kernels{suffix}"
    assert main(["select", str(plain), str(delegated), "-o", str(out)]) == 0
    assert f"-DET_SELECT_OPS={out}" in capsys.readouterr().out
    selection = read_selection(out)
    for path in (plain, delegated):
        assert not any(need.missing for need in requirements(path.read_bytes(), selection))
    assert "float32" in out.read_text() and "f32" not in out.read_text()
    assert selection.dtypes("aten::mul.out") == {"f32", "i64"} and not selection.has("aten::cos.out")


def test_select_tells_backends_and_prints(tmp_path, capsys):
    CASES["delegated"][0].save(tmp_path / "model.pte")
    assert main(["select", str(tmp_path / "model.pte")]) == 0
    assert "# Backends: XnnpackBackend" in capsys.readouterr().out
    assert main(["select", str(tmp_path / "model.pte"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"kernels": {}, "backends": ["XnnpackBackend"]}
    assert main(["select", str(tmp_path / "none.pte")]) == 2


def test_values_of_a_stripped_program_are_those_of_numpy():
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)
    assert (run(stripped(compile_text(ADD))[0], [x, y])[0] == 3).all()


def test_select_reads_lists_and_names_what_no_library_has(tmp_path, capsys):
    CASES["state"][0].save(tmp_path / "model.pte")
    (tmp_path / "more.txt").write_text("aten::cos.out float32\nmy_ops::triple.out\n")
    given = ["select", str(tmp_path / "model.pte"), str(tmp_path / "more.txt")]
    assert main(given) == 2
    assert "more.txt calls my_ops::triple.out, for which there is no kernel" in capsys.readouterr().err
    for name in ("my kernels", "class"):  # no name of a namespace
        assert (
            main(["select", str(tmp_path / "model.pte"), "--sources", str(tmp_path / "sources"), "--name", name]) == 2
        )
    assert main([*given, "--other", "my_ops::*", "-o", str(tmp_path / "all.yaml")]) == 0
    selection = read_selection(tmp_path / "all.yaml")
    assert selection.dtypes("aten::cos.out") == {"f32"} and selection.dtypes("my_ops::triple.out") is None
    assert selection.has("aten::mul.out")
