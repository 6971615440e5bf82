"""The frame of ``etpy``: what it says of mistakes, what it prints where, completion, exit codes."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from executorch_py import cli
from executorch_py.cli import main
from tests.python.runtime.programs import ADD, compile_text

COMMANDS = list(cli._parser()._subparsers._group_actions[0].choices)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(compile_text(ADD))
    return str(path)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["profle", "m.pte"], "profile"),
        (["profil", "m.pte"], "profile"),
        (["inpsect", "m.pte"], "inspect"),
        (["--verison"], "--version"),
        (["run", "m.pte", "--threds", "2"], "--threads"),
        (["run", "m.pte", "--threds=2"], "--threads"),
        (["strip", "m.pte", "--ouput", "x"], "--output"),
        (["export", "m:f", "-o", "x", "--quantise", "fp16"], "--quantize"),
        (["bench", "m.pte", "--round", "3", "--warmpu", "1"], "--warmup"),
    ],
)
def test_the_closest_name_is_told(given, meant, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(given)
    assert stopped.value.code == 2
    assert f"did you mean {meant} instead of" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["xyzzy"], ["run", "m.pte", "--qqqqq"], ["run"]])
def test_no_name_is_told_where_none_is_close(given, capsys):
    with pytest.raises(SystemExit):
        main(given)
    assert "did you mean" not in capsys.readouterr().err


def test_shortened_options_are_taken(program, capsys):
    assert main(["run", program, "--thr", "1", "--js"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0] == {"dtype": "float32", "shape": [2, 3]}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("completion",)])
def test_every_command_prints_json(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "--json" in capsys.readouterr().out


def test_json_is_of_the_standard(capsys, program):
    """Equal outputs have an infinite signal-to-noise ratio, which JSON has no word for."""
    assert main(["compare", program, program, "--runs", "1", "--json"]) == 0
    text = capsys.readouterr().out
    assert "Infinity" not in text and json.loads(text)["outputs"][0]["sqnr_db"] is None


def test_files_and_pipes_get_no_colours(program):
    done = subprocess.run(
        [sys.executable, "-m", "executorch_py.cli", "inspect", program], capture_output=True, text=True, check=True
    )
    assert "aten::add.out" in done.stdout and "\x1b" not in done.stdout + done.stderr


def on_a_terminal(*arguments, **environment):
    """What a command writes to a terminal, and its status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "executorch_py.cli", *arguments],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment},
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return written.decode(), process.wait()


def test_terminals_get_colours(program):
    pytest.importorskip("rich")
    text, status = on_a_terminal("inspect", program)
    assert status == 0 and re.search("\x1b\\[[\\d;]*maten::add.out\x1b", text)
    text, status = on_a_terminal("run", f"{program}.none")
    assert status == 2 and re.search("\x1b\\[[\\d;]*mAccessFailedError:\x1b", text)
    text, _ = on_a_terminal("inspect", program, NO_COLOR="1")
    assert "aten::add.out" in text and not re.search("\x1b\\[[\\d;]*3\\d", text)
    text, _ = on_a_terminal("inspect", program, "--json")
    assert json.loads(text)["methods"]["forward"]["instructions"] == 2, "JSON is data on a terminal, too"


def test_exit_codes(program, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exit_models.py").write_text(
        "import torch\n\ndef wrong():\n    return torch.nn.ReLU(), (torch.ones(2, 3), torch.ones(2, 3))\n\n"
        "def broken():\n    return 1 / 0\n\n"
        "def other():\n    return torch.nn.Bilinear(3, 3, 3), (torch.ones(2, 3), torch.ones(2, 3))\n"
    )
    assert main(["inspect", program]) == 0
    assert main(["inspect", "none.pte"]) == 2
    assert main(["export", "exit_models:broken", "-o", "x.pte"]) == 3
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told and "exit_models.py" in told and not (tmp_path / "x.pte").exists()
    assert main(["export", "exit_models:nowhere", "-o", "x.pte"]) == 2

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("executorch_py.cli.inspect._inspect", interrupted)
    assert main(["inspect", program]) == 130


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS) and "etrecord" in script and "debug" not in COMMANDS


def test_completion_in_bash(capsys, tmp_path):
    pytest.importorskip("shtab")
    main(["completion", "bash"])
    script = tmp_path / "etpy.bash"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "model.pte").write_bytes(b"")

    def completed(*words):
        typed = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
        command = f'source {script}; {typed}; _shtab_etpy; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=True)
        return done.stdout.split()

    assert completed("etpy", "pro") == ["profile"]
    assert completed("etpy", "run", "--thr") == ["--threads"]
    assert completed("etpy", "bench", "--engine", "onnx") == ["onnxruntime"]
    assert "model.pte" in completed("etpy", "inspect", "mod")


def test_completion_without_its_package(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "zsh"]) == 2
    assert "pip install shtab" in capsys.readouterr().err


def test_doctor(capsys):
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["checks"].values()) == {"pass"} and "one inference" in told["checks"]
    assert told["versions"]["numpy"][0].isdigit() and told["kernels"] > 100
    assert told["machine"]["threads of methods"].isdigit()
    assert main(["doctor"]) == 0
    assert "instruction sets" in capsys.readouterr().out


def test_doctor_tells_a_wrong_limit():
    """Nothing can be loaded then, but what is installed is told all the same."""
    command = [sys.executable, "-m", "executorch_py.cli", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ET_MAX_ISA": "avx3"})
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    message = "InvalidArgumentError: ET_MAX_ISA is 'avx3', must be sse4.1, avx2, avxvnni, avx512 or amx"
    assert told["checks"] == {"kernels and backends": message} and told["machine"]["ET_MAX_ISA"] == "avx3"


def test_doctor_tells_a_wrong_kernel(capsys, monkeypatch):
    wrong = cli.doctor._PROGRAM.replace("aten::add.out(%x, %y, 1)", "aten::mul.out(%x, %y)")
    monkeypatch.setattr("executorch_py.cli.doctor._PROGRAM", wrong)
    assert main(["doctor"]) == 1
    assert "FAIL [0, 1, 2, 3] doubled is [0.0, 1.0, 4.0, 9.0]" in capsys.readouterr().out
