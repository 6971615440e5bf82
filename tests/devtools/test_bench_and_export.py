"""``etpy bench`` beside peers, and what ``etpy export`` takes."""

import json
import os
from multiprocessing.context import SpawnProcess

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py.cli import engines, instruction_sets, main
from executorch_py.cli.engines import ENGINES, EngineError, Running
from executorch_py.cli.instruction_sets import isa_settings
from tests.devtools.models import two_blocks

MODEL = "tests.devtools.models:two_blocks"
OF_AVX2 = {"sse4_1", "avx", "avx2", "fma", "f16c"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    model, inputs = two_blocks()
    exported = torch.export.export(model, inputs)
    et.to_edge_transform_and_lower(exported).to_executorch().save(folder / "model.pte")
    torch.export.save(exported, folder / "model.pt2")
    return folder


def bench(capsys, *arguments, status=0):
    few = ["--seconds", "0.05", "--rounds", "2", "--json"]
    assert main(["bench", *map(str, arguments), *few]) == status, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_percentiles_and_threads(folder, capsys):
    told = bench(capsys, folder / "model.pte", "--threads", 1, "--threads", 2, "--engine", "executorch_py")
    first, second = told["rows"]
    assert (first["threads"], second["threads"]) == (1, 2)
    for row in told["rows"]:
        assert 0 < row["best_ms"] <= row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"] and row["runs"] > 10
        assert row["load_ms"] > 0 and row["first_ms"] > 0 and row["peak_bytes"] >= 0


def test_runs_and_inputs(folder, capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 16), np.float32))
    command = [folder / "model.pte", "--engine", "executorch_py", "--runs", 3, "--input", tmp_path / "x.npy"]
    assert bench(capsys, *command)["rows"][0]["runs"] == 3


def test_models_are_made(folder, capsys):
    for model in (MODEL, folder / "model.pt2"):
        rows = bench(capsys, model, "--engine", "executorch_py", "--runs", 5)["rows"]
        assert [row["engine"] for row in rows] == ["executorch_py"]


def test_what_is_not_installed_is_told(folder, capsys, monkeypatch):
    monkeypatch.setattr(engines.Engine, "is_installed", property(lambda self: self.name == "executorch_py"))
    (folder / "model.onnx").write_bytes(b"")
    told = bench(capsys, folder / "model.pte", folder / "model.onnx", "--runs", 3)
    assert len(told["rows"]) == 1
    assert {note.rpartition(" ")[2] for note in told["notes"]} == set(ENGINES) - {"executorch_py"}


def test_figures_are_of_an_instruction_set(folder, capsys, monkeypatch):
    """The environment of the engine's process has the limit when its library is loaded, and nobody else's."""
    started = []
    start = SpawnProcess.start
    monkeypatch.setattr(SpawnProcess, "start", lambda self: started.append(dict(os.environ)) or start(self))
    monkeypatch.setattr(instruction_sets, "cpu_flags", lambda: OF_AVX2)
    monkeypatch.delenv("ET_MAX_ISA", raising=False)
    command = [folder / "model.pte", "--engine", "executorch_py", "--runs", 3]
    told = bench(capsys, *command, "--isa", "sse4.1")
    assert (told["isa"], told["machine_isa"], told["rows"][0]["runs"]) == ("sse4.1", "avx2", 3)
    assert isa_settings("sse4.1").items() <= started[0].items() and "ET_MAX_ISA" not in os.environ
    assert main(["bench", *map(str, command), "--isa", "sse4.1"]) == 0
    assert "instruction set: sse4.1 (--isa), of a machine that has avx2" in capsys.readouterr().out
    assert bench(capsys, *command)["isa"] is None and started[-1] == dict(os.environ)
    monkeypatch.setenv("ET_MAX_ISA", "sse4.1")
    assert main(["bench", *map(str, command)]) == 0
    assert "set: sse4.1 for executorch_py (ET_MAX_ISA), avx2 for its peers" in capsys.readouterr().out
    monkeypatch.setenv("ET_MAX_ISA", "amx")
    assert main(["bench", *map(str, command)]) == 0
    assert "instruction set: avx2, the highest of this machine" in capsys.readouterr().out


def test_an_engine_that_obeys_no_limit_is_left_out(folder, capsys, monkeypatch):
    monkeypatch.setattr(
        engines.Engine, "is_installed", property(lambda self: self.name in ("executorch_py", "executorch"))
    )
    monkeypatch.setattr(instruction_sets, "cpu_flags", lambda: OF_AVX2)
    told = bench(capsys, folder / "model.pte", "--isa", "sse4.1", "--runs", 3)
    assert [row["engine"] for row in told["rows"]] == ["executorch_py"]
    assert told["notes"] == ["not measured, because it does not obey --isa: executorch"]


@pytest.mark.parametrize(
    ("flags", "isa", "message"),
    [
        (OF_AVX2, "avx512", "this machine has no avx512, its highest instruction set is avx2"),
        (OF_AVX2 | {"amx_tile", "amx_int8"}, "amx", "this machine has no amx, its highest instruction set is avx2"),
        ({"asimd"}, "sse4.1", "no instruction set of x86 is known of this machine"),
    ],
)
def test_an_instruction_set_that_is_not_there(flags, isa, message, folder, capsys, monkeypatch):
    monkeypatch.setattr(instruction_sets, "cpu_flags", lambda: flags)
    assert main(["bench", str(folder / "model.pte"), "--isa", isa]) == 2
    assert message in capsys.readouterr().err


def test_processors_with_longer_vectors_may_have_no_avx_vnni(monkeypatch):
    with_avx512 = OF_AVX2 | {"avx512f", "avx512cd", "avx512dq", "avx512bw", "avx512vl"}
    for more, sets in ((set(), ["avx512"]), ({"avx_vnni"}, ["avxvnni", "avx512"])):
        monkeypatch.setattr(instruction_sets, "cpu_flags", lambda more=more: with_avx512 | more)
        assert instruction_sets.machine_isas() == ("sse4.1", "avx2", *sets)


def test_an_engine_that_fails_is_told(folder, capsys):
    assert main(["bench", str(folder / "model.pte"), "--method", "decode"]) == 2
    assert "decode" in capsys.readouterr().err
    (folder / "damaged.pte").write_bytes((folder / "model.pte").read_bytes()[:200])
    told = bench(
        capsys, folder / "model.pte", folder / "damaged.pte", "--engine", "executorch_py", "--runs", 2, status=2
    )
    assert told["rows"][0]["runs"] == 2 and "InvalidProgramError" in told["rows"][1]["error"]


def test_a_process_that_dies_is_an_error(folder, monkeypatch):
    with pytest.raises(EngineError), Running("executorch_py", str(folder / "model.pte"), "forward", [], 1):
        pass


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["model.onnx"], "name a .pte before"),
        (["model.pte", "none.pte"], "is not there"),
        (["model.pte", "x.txt"], "no engine"),
    ],
)
def test_what_bench_cannot_use(folder, capsys, files, message):
    (folder / "x.txt").write_text("")
    assert main(["bench", *(str(folder / file) for file in files)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_peers(engine, folder, capsys):
    if not ENGINES[engine].is_installed:
        pytest.skip(f"{engine} is not installed; .venv-interop has it after `make bench-setup`")
    pytest.importorskip("onnxscript", reason="torch writes ONNX with it")
    rows = bench(capsys, MODEL, "--engine", "executorch_py", "--engine", engine, "--runs", 5)["rows"]
    assert [row["engine"] for row in rows] == ["executorch_py", engine] and all("p50_ms" in row for row in rows)


def exported(capsys, tmp_path, *arguments, status=0):
    path = tmp_path / "out.pte"
    assert main(["export", *map(str, arguments), "-o", str(path), "--json"]) == status, capsys.readouterr().err
    return et.Runtime.get().load_program(path).load_method("forward") if status == 0 else capsys.readouterr().err


def test_export_of_a_saved_program(folder, capsys, tmp_path):
    model, inputs = two_blocks()
    method = exported(capsys, tmp_path, folder / "model.pt2", "--backend", "xnnpack")
    assert torch.allclose(method.execute(inputs)[0], model(*inputs), atol=1e-5)
    assert "a .pt2" in exported(capsys, tmp_path, folder / "model.pt2", "--dynamic", "x.0", status=2)
    (tmp_path / "damaged.pt2").write_bytes(b"nothing")
    assert "holds no exported program" in exported(capsys, tmp_path, tmp_path / "damaged.pt2", status=2)


def test_export_with_its_record(capsys, tmp_path):
    made, record = str(tmp_path / "made.pte"), str(tmp_path / "made.etrecord")
    assert main(["export", MODEL, "-o", made, "--etrecord", record]) == 0
    assert main(["profile", made, "--etrecord", record, "--runs", "2"]) == 0
    assert "tests/devtools/models.py:17" in capsys.readouterr().out


def test_export_with_a_preset(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "preset_samples.py").write_text(
        "import torch\n\ndef data():\n    torch.manual_seed(3)\n    return [(torch.randn(4, 16),) for _ in range(8)]\n"
    )
    model, inputs = two_blocks()
    for source in (MODEL, folder / "model.pt2"):
        for data in ([], ["--data", "preset_samples:data"]):
            method = exported(capsys, tmp_path, source, "--quantize", "static_int8", "--backend", "xnnpack", *data)
            error = (method.execute(inputs)[0] - model(*inputs)).abs().max()
            assert 0 < error < 0.1
    assert "static_int8" in exported(capsys, tmp_path, MODEL, "--quantize", "int7", status=2)
    assert "--quantize, which is missing" in exported(
        capsys, tmp_path, MODEL, "--data", "preset_samples:data", status=2
    )


def test_export_with_dynamic_sizes(capsys, tmp_path):
    method = exported(capsys, tmp_path, MODEL, "--dynamic", "x.0=batch:2..64")
    model, _ = two_blocks()
    x = torch.randn(64, 16)
    assert torch.allclose(method.execute([x])[0], model(x), atol=1e-5)
    with pytest.raises(et.InvalidArgumentError):
        method.execute([torch.randn(65, 16)])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("x0", "write INPUT.DIM"),
        ("y.0", "no tensor 'y'; it takes x"),
        ("x.2", "'x' has the shape (4, 16)"),
        ("x.0=b:2..", "write INPUT.DIM"),
    ],
)
def test_dynamic_sizes_that_are_none(option, message, capsys, tmp_path):
    assert message in exported(capsys, tmp_path, MODEL, "--dynamic", option, status=2)


def test_equal_names_are_equal_sizes(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair_models.py").write_text(
        "import torch\n\nclass Sum(torch.nn.Module):\n    def forward(self, a, b):\n        return a + b\n\n"
        "def make():\n    return Sum(), (torch.ones(4, 3), torch.ones(4, 3))\n"
    )
    method = exported(capsys, tmp_path, "pair_models:make", "--dynamic", "a.0=n:2..8", "--dynamic", "b.0=n")
    assert method.execute([torch.ones(8, 3)] * 2)[0].shape == (8, 3)
    with pytest.raises(et.InvalidArgumentError):
        method.execute([torch.ones(8, 3), torch.ones(7, 3)])


def test_names_that_are_no_maker(capsys, tmp_path, monkeypatch):
    """A module is callable and makes no model; a name that is nearly right is told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ready_models.py").write_text("import torch\n\nmodel = torch.nn.ReLU()\n")
    said = exported(capsys, tmp_path, "ready_models:model", status=2)
    assert "ready_models:model is of type ReLU, must be a function that returns (model, example_inputs)" in said
    assert "ready_models has no modle; did you mean model?" in exported(
        capsys, tmp_path, "ready_models:modle", status=2
    )


def test_backends_by_name(capsys, tmp_path):
    from executorch_py.cli.models import backend_names

    assert "there are " + ", ".join(backend_names()) in exported(capsys, tmp_path, MODEL, "--backend", "npu", status=2)
    assert "xnnpack" in backend_names()
