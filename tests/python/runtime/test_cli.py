"""The command line: each command once as it should be, and its errors."""

import json
import subprocess
import sys

import numpy as np
import pytest

from executorch_py.cli import main
from tests.python.runtime.programs import ADD, DYNAMIC, compile_text, identity


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(compile_text(ADD))
    return str(path)


def test_run(program, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.full((2, 3), 2, np.float32))
    np.save(tmp_path / "y.npy", np.full((2, 3), 5, np.float32))
    command = ["run", program, "--input", str(tmp_path / "x.npy"), "--input", str(tmp_path / "y.npy")]
    assert main([*command, "--output", str(tmp_path / "out"), "--runs", "3", "--print"]) == 0
    assert (np.load(tmp_path / "out/output_0.npy") == 7).all() and (np.load(tmp_path / "out/output_1.npy") == 10).all()
    text = capsys.readouterr().out
    assert "output 0: float32 (2, 3)" in text and "median of 2 further runs" in text
    assert main(["run", program]) == 0, "inputs are generated"


def test_inspect(program, tmp_path, capsys):
    assert main(["inspect", program, "--json"]) == 0
    method = json.loads(capsys.readouterr().out)["methods"]["forward"]
    assert method["operators"] == ["aten::add.out", "aten::mul.out"] and method["instructions"] == 2
    assert method["inputs"][0] | {"kind": "Tensor", "dtype": "Float", "sizes": [2, 3]} == method["inputs"][0]
    dynamic = tmp_path / "dynamic.pte"
    dynamic.write_bytes(compile_text(DYNAMIC))
    assert main(["inspect", str(dynamic)]) == 0
    assert "TensorInfo('x', Float[s0: 2..1000, 3])" in capsys.readouterr().out


def test_export_and_validate(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_models.py").write_text(
        "import torch\n\ndef make():\n    return torch.nn.Linear(4, 2), (torch.ones(3, 4),)\n\n"
        "def other():\n    return torch.nn.Linear(4, 2), (torch.ones(3, 4),)\n\n"
        "torch.manual_seed(0)\nmodel = torch.nn.Linear(4, 2)\n\ndef same():\n    return model, (torch.ones(3, 4),)\n"
    )
    assert main(["export", "cli_models:same", "-o", "linear.pte"]) == 0
    assert main(["validate", "linear.pte", "cli_models:same"]) == 0
    assert "pass" in capsys.readouterr().out
    assert main(["validate", "linear.pte", "cli_models:other"]) == 1
    assert "FAIL" in capsys.readouterr().out
    assert main(["validate", "linear.pte", "cli_models"]) == 2
    assert "write package.module:name" in capsys.readouterr().err


def test_quantization(tmp_path, capsys, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchao")
    from executorch_py import quantizer

    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_samples.py").write_text(
        "import torch\n\ntorch.manual_seed(0)\nsamples = [(torch.randn(3, 8),) for _ in range(4)]\n\n"
        "def data():\n    return samples\n"
    )
    torch.manual_seed(1)
    example = (torch.randn(3, 8),)
    exported = torch.export.export(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval(), example)
    torch.export.save(exported, "float.pt2")
    torch.export.save(quantizer.quantize(exported, example, "static_int8", [example] * 4), "int8.pt2")
    command = ["quantization", "float.pt2", "int8.pt2", "--data", "cli_samples:data"]
    assert main([*command, "--html", "page.html", "--min-sqnr", "10"]) == 0
    assert "linear" in capsys.readouterr().out and "<html" in (tmp_path / "page.html").read_text()
    assert main([*command, "--json", "--min-sqnr", "200"]) == 1
    assert json.loads(capsys.readouterr().out)["layers"]
    assert main(["quantization", "none.pt2", "int8.pt2", "--data", "cli_samples:data"]) == 2


def test_errors(tmp_path, capsys):
    (tmp_path / "bad.pte").write_bytes(b"nothing")
    assert main(["run", str(tmp_path / "bad.pte")]) == 2
    assert "InvalidProgramError" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "{folder}/damaged.npy"], "damaged.npy cannot be read as a .npy file"),
        (["--input", "{folder}/objects.npy"], "objects.npy cannot be read as a .npy file"),
        (["--input", "{folder}/x.npz"], "x.npz cannot be read as a .npy file: the magic string is not correct"),
        (["--input", "{folder}/x.npy"] * 3, "3 inputs were given, method 'forward' takes 2"),
        (["--output", "{folder}/x.npy"], "x.npy"),
    ],
)
def test_what_run_cannot_use(options, message, program, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.savez(tmp_path / "x.npz", np.ones((2, 3), np.float32))
    np.save(tmp_path / "objects.npy", np.ones((2, 3), object))
    (tmp_path / "damaged.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-4])
    assert main(["run", program, *(option.format(folder=tmp_path) for option in options)]) == 2
    assert message in capsys.readouterr().err


def test_what_export_cannot_use(tmp_path, capsys, monkeypatch):
    (tmp_path / "odd_factory.py").write_text(
        "model = 3\n\ndef make():\n    import torch\n    return torch.nn.ReLU(), (torch.ones(2),)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["export", "odd_factory:model", "-o", str(tmp_path / "a.pte")]) == 2
    assert "odd_factory:model is of type int, must be a function" in capsys.readouterr().err
    assert main(["export", "odd_factory:make", "-o", str(tmp_path / "none" / "a.pte")]) == 2
    assert f"cannot write {tmp_path / 'none' / 'a.pte'}: " in capsys.readouterr().err


def test_the_number_of_runs_is_positive(program, capsys):
    with pytest.raises(SystemExit):
        main(["run", program, "--runs", "0"])
    assert "--runs: 0 is less than 1" in capsys.readouterr().err


def test_bfloat16_of_a_file(tmp_path, capsys):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    (tmp_path / "model.pte").write_bytes(compile_text(identity("bf16")))
    np.save(tmp_path / "x.npy", np.full((2, 3), 1.5, ml_dtypes.bfloat16))
    assert main(["run", str(tmp_path / "model.pte"), "--input", str(tmp_path / "x.npy"), "--print"]) == 0
    assert "[1.5 1.5 1.5]" in capsys.readouterr().out


def test_a_file_that_is_no_program_has_no_requirements(tmp_path, capsys):
    (tmp_path / "model.pt2").write_bytes(b"abc")
    assert main(["ops", str(tmp_path / "model.pt2")]) == 2
    assert "neither a .pte nor an exported program" in capsys.readouterr().err


def test_nobody_has_to_read_to_the_end():
    command = f"set -o pipefail; {sys.executable} -m executorch_py.cli ops | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
