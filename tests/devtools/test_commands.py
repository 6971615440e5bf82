"""``etpy profile``, ``trace``, ``plan``, ``compare`` and ``bundle``."""

import json
import sys

import pytest
import torch

import executorch_py as et
from executorch_py.cli import main
from tests.devtools.dumps import executions
from tests.devtools.models import two_blocks

MODEL = "tests.devtools.models:two_blocks"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    model, inputs = two_blocks()
    program = et.to_edge(torch.export.export(model, inputs)).to_executorch()
    program.save(folder / "model.pte")
    record = program.get_etrecord()
    record.save(folder / "model.etrecord")
    (folder / "run.etdp").write_bytes(executions(record.instructions["forward"], [[9000] + 7 * [100]] * 2).data)
    return folder


def run(capsys, *arguments, status=0):
    assert main([str(one) for one in arguments]) == status, capsys.readouterr().err
    return capsys.readouterr().out


def test_profile(files, capsys, tmp_path):
    text = run(
        capsys, "profile", files / "model.pte", "--etrecord", files / "model.etrecord", "--runs", 4, "--unit", "us"
    )
    assert "models.py:17" in text and "4 runs" in text and "us" in text.splitlines()[0]
    assert "linear" in run(capsys, "profile", files / "model.pte", "--runs", 2)
    assert "native_call_linear.out" in run(capsys, "profile", files / "model.pte", "--by", "event", "--runs", 2)
    told = json.loads(
        run(capsys, "profile", files / "run.etdp", "--etrecord", files / "model.etrecord", "--json", "--by", "module")
    )
    assert told["by_module"][0]["module"] == "" and any(row["module"] == "first.lin" for row in told["by_module"])
    run(capsys, "profile", files / "run.etdp", "--tsv", tmp_path / "run.tsv")
    assert "native_call_linear.out" in (tmp_path / "run.tsv").read_text()
    roof = run(capsys, "profile", files / "run.etdp", "--etrecord", files / "model.etrecord", "--roofline")
    assert "GMAC/s" in roof and "of the roof" in roof


def test_profile_of_files_that_do_not_fit(files, capsys):
    assert main(["profile", str(files / "run.etdp"), "--input", "x.npy"]) == 2
    assert "is an ETDump of runs before" in capsys.readouterr().err
    assert main(["profile", str(files / "run.etdp"), "--etrecord", str(files / "run.etdp")]) == 2
    assert "is no ETRecord" in capsys.readouterr().err
    half = files / "half.etrecord"
    half.write_bytes((files / "model.etrecord").read_bytes()[:3000])
    assert main(["profile", str(files / "run.etdp"), "--etrecord", str(half)]) == 2
    assert f"{half} is cut off or damaged" in capsys.readouterr().err
    assert main(["profile", str(files / "nowhere.pte")]) == 2
    capsys.readouterr()
    for asked in (["--roofline"], ["--by", "line"]):
        assert main(["profile", str(files / "model.pte"), *asked]) == 2
        assert f"{' '.join(asked)} needs --etrecord FILE" in capsys.readouterr().err


def test_trace(files, capsys, tmp_path):
    assert "ui.perfetto.dev" in run(capsys, "trace", files / "model.pte", "-o", tmp_path / "trace.json", "--runs", 3)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [one for one in events if one["ph"] == "X"]
    kernels = [one for one in spans if one["name"] == "native_call_linear.out"]
    assert len(kernels) == 2 * 3 and all(one["dur"] >= 0 and one["ts"] >= 0 for one in spans)
    assert {one["args"]["name"] for one in events if one["ph"] == "M"} >= {"framework", "instructions"}


def test_plan(capsys, tmp_path):
    text = run(capsys, "plan", MODEL, "--trace", tmp_path / "plan.json", "--try-options")
    assert "models.py:17" in text and "alloc_graph_input=False" in text
    assert json.loads((tmp_path / "plan.json").read_text())["traceEvents"]
    told = json.loads(run(capsys, "plan", MODEL, "--json"))
    assert told["arenas"][0]["tensors"][0]["size_bytes"] == 256
    assert main(["plan", MODEL, "--method", "decode"]) == 2
    assert "there are forward" in capsys.readouterr().err


def test_compare(files, capsys):
    assert "aten::linear.out" in run(capsys, "compare", files / "model.pte", files / "model.pte", "--runs", 2)
    told = json.loads(run(capsys, "compare", files / "model.pte", files / "model.pte", "--no-run", "--json"))
    assert told["operators"]["aten::sin.out"] == [2, 2] and told["outputs"] == []
    run(capsys, "compare", files / "model.pte", files / "model.pte", "--min-sqnr", "20")


def test_compare_of_programs_with_other_inputs(files, capsys, tmp_path):
    other = tmp_path / "other.pte"
    et.to_edge(torch.export.export(torch.nn.Identity(), (torch.ones(2, dtype=torch.int64),))).to_executorch().save(
        other
    )
    assert main(["compare", str(files / "model.pte"), str(other)]) == 2
    told = capsys.readouterr().err
    assert f"{other}: input 0" in told and "compared on the same inputs" in told


def test_bundle(files, capsys, tmp_path):
    path = tmp_path / "model.bpte"
    assert "forward: 1 test case;" in run(capsys, "bundle", files / "model.pte", MODEL, "-o", path)
    assert "all pass" in run(capsys, "bundle", path)
    data = path.read_bytes()
    wrong = data.replace(b"aten::cos", b"aten::tan")
    assert wrong != data
    path.write_bytes(wrong)
    assert "FAIL" in run(capsys, "bundle", path, status=1)
    assert main(["bundle", str(files / "model.pte"), MODEL]) == 2
    assert "-o model.bpte" in capsys.readouterr().err
    assert main(["bundle", str(files / "model.pte")]) == 2
    assert "a program without test cases" in capsys.readouterr().err


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in ("profile", "trace", "plan", "compare", "bundle")) and sys.argv
