"""The tables of operators and kernels, the page made of them, and what a program needs."""

import json
from pathlib import Path

import pytest

import executorch_py as et
from executorch_py.cli import main
from executorch_py.operators import kernels_of_operator, known_operators, operators_page, registered_kernels
from tests.python.runtime.programs import ADD, compile_text

ROOT = Path(__file__).resolve().parents[3]
MISSING = (
    "method @forward(%x: f32[2]) stage(lowered) {\n  %y = my::op.out(%x) : f32[2]\n"
    "  %z = aten::neg.out(%y) : f32[2]\n  return %z\n}"
)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(compile_text(ADD))
    return str(path)


def test_the_page_of_operators_is_current():
    libraries = {kernel.library for kernels in registered_kernels().values() for kernel in kernels}
    backends = {
        path.parent.name for path in (ROOT / "backends").glob("*/CMakeLists.txt") if "KERNELS" in path.read_text()
    }
    if not {"optimized", *backends} <= libraries:
        pytest.skip("the page is that of a build with the default backends and optimised kernels")
    assert (ROOT / "docs/reference/operators.md").read_text() == operators_page(), (
        "etpy ops --markdown > docs/reference/operators.md"
    )


def test_kernels_stand_in_the_order_in_which_they_are_tried():
    for kernels in registered_kernels().values():
        assert [k.priority for k in kernels] == sorted((k.priority for k in kernels), reverse=True)
    libraries = [kernel.library for kernel in kernels_of_operator("aten::add.out")]
    assert libraries[-1] == "portable" and "optimized" in libraries
    assert not kernels_of_operator("aten::add.out")[-1].may_step_aside


def test_operators_without_a_kernel_are_few_and_said_to_have_none():
    kernels = registered_kernels()
    without = {op.name for op in known_operators().values() if op.kernel not in kernels}
    assert len(without) < 10
    page = operators_page()
    for name in without:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert "| none |" in row


def test_all_operators(capsys):
    assert main(["ops"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("aten::relu.out ")]
    assert line.split()[1] == "real" and line.split()[-1] == "portable"
    assert main(["ops", "--json"]) == 0
    assert {"kernel": "aten::relu.out", "dtypes": "real", "implementations": "optimized portable"} in json.loads(
        capsys.readouterr().out
    )


def test_what_a_program_needs(program, capsys):
    assert main(["ops", program]) == 0
    text = capsys.readouterr().out
    assert "method forward: 2 operators, 2 calls" in text and "nothing is missing" in text
    assert main(["ops", program, "--json"]) == 0
    add = json.loads(capsys.readouterr().out)[0]
    assert (
        add["operator"] == "aten::add.out"
        and add["calls"] == 1
        and add["dtypes"] == ["float32"]
        and add["missing"] == ""
    )
    assert sum(add["kernels"].values()) == 1, "the kernel that its one call got"


def test_what_is_missing(tmp_path, capsys):
    (tmp_path / "missing.pte").write_bytes(compile_text(MISSING))
    assert main(["ops", str(tmp_path / "missing.pte")]) == 1
    text = capsys.readouterr().out
    assert "MISSING: no kernel is registered" in text and "missing: my::op.out" in text
    assert "aten::neg.out" in text and "portable" in text, "what would be tried for the others"


def test_a_backend_that_is_missing(tmp_path, capsys):
    from tests.python.runtime.programs import DELEGATE

    (tmp_path / "delegate.pte").write_bytes(compile_text(DELEGATE.replace("TestBackend", "AbsentBackend")))
    assert main(["ops", str(tmp_path / "delegate.pte")]) == 1
    assert "no backend of that name is registered" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("selection", "status", "text"),
    [
        ("aten::add.out f32\naten::mul.out", 0, "nothing is missing"),
        ("aten::add.out float32", 1, "not selected"),
        ("aten::add.out i64\naten::mul.out", 1, "selected without float32"),
    ],
)
def test_a_selected_build(program, tmp_path, capsys, selection, status, text):
    (tmp_path / "ops.txt").write_text(selection)
    assert main(["ops", program, "--select", str(tmp_path / "ops.txt")]) == status
    assert text in capsys.readouterr().out
    assert main(["ops", program, "--select", program]) == 0, "a selection made from the program itself"


def test_a_bad_selection_and_a_bad_program(program, tmp_path, capsys):
    (tmp_path / "ops.txt").write_text("aten::add.out f33")
    assert main(["ops", program, "--select", str(tmp_path / "ops.txt")]) == 2
    (tmp_path / "bad.pte").write_bytes(b"nothing")
    assert main(["ops", str(tmp_path / "bad.pte")]) == 2
    assert main(["ops", str(tmp_path / "absent.pte")]) == 2
    assert capsys.readouterr().err.count("etpy:") == 3


def test_an_exported_program(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    torch.export.save(torch.export.export(model, (torch.ones(1, 4),)), tmp_path / "model.pt2")
    assert main(["ops", str(tmp_path / "model.pt2")]) == 0
    assert "linear" in capsys.readouterr().out

    torch.library.define("ops_test::absent", "(Tensor x) -> Tensor")
    torch.library.impl("ops_test::absent", "CompositeExplicitAutograd", lambda x: x + 1)

    class Custom(torch.nn.Module):
        def forward(self, x):
            return torch.ops.ops_test.absent(x)

    torch.export.save(torch.export.export(Custom(), (torch.ones(1, 4),)), tmp_path / "custom.pt2")
    assert main(["ops", str(tmp_path / "custom.pt2")]) == 1
    assert "missing: ops_test::absent.out" in capsys.readouterr().out


def test_an_operator_that_torch_does_not_know(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    definition = (
        "import torch\nlibrary = torch.library.Library('ops_gone', 'DEF')\nlibrary.define('f(Tensor x) -> Tensor')\n"
        "library.impl('f', lambda x: x + 1, 'CompositeExplicitAutograd')\n"
    )
    (tmp_path / "gone_operators.py").write_text(definition)
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    exec(definition, scope)

    class Custom(torch.nn.Module):
        def forward(self, x):
            return torch.ops.ops_gone.f(x)

    torch.export.save(torch.export.export(Custom(), (torch.ones(1, 4),)), "gone.pt2")
    scope["library"]._destroy()
    assert main(["ops", "gone.pt2"]) == 2
    error = capsys.readouterr().err
    assert "ops_gone.f.default" in error and "--import" in error and "Traceback" not in error
    assert main(["ops", "gone.pt2", "--import", "gone_operators"]) == 1
    assert "missing: ops_gone::f.out" in capsys.readouterr().out
    assert main(["ops", "gone.pt2", "--import", "nowhere_operators"]) == 2


def test_archives_that_are_no_exported_program(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    torch.save({"weight": torch.ones(2)}, tmp_path / "state.pt")
    assert main(["ops", str(tmp_path / "state.pt")]) == 2
    assert "state.pt holds no exported program" in capsys.readouterr().err


def test_public_names():
    assert Path(et.cmake_prefix_path).name == "cmake"
    assert callable(et.verify_dialect) and callable(et.load_kernel_library)
