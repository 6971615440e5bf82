"""Published tables of kernels: read, selected from, and built into a library that Python loads."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import executorch_py as et  # noqa: E402
from executorch_py.codegen import kernel_library, published_library  # noqa: E402
from executorch_py.codegen.ops_yaml import TableError  # noqa: E402
from executorch_py.codegen.published_yaml import is_published, read_entries, read_published  # noqa: E402
from executorch_py.codegen.select_ops import read_selection  # noqa: E402
from tests.python.custom.test_tutorial import check_plugin  # noqa: E402

FUNCTIONS = """# kernels of an application
- op: add.out
  kernels:
    - arg_meta: null
      kernel_name: torch::executor::add_out

- op: gelu.out
  type_alias:
    T0: [Float]
  dim_order_alias:
    D0: [[0, 1, 2, 3]]
  kernels:
    - arg_meta:
        self: [T0 , D0]
        out: [T0, D0]
      kernel_name: twice::gelu_out
- func: twice::scale.out(Tensor x, float by=2.0, *, Tensor(a!) out) -> Tensor(a!)
  variants: function
  kernels:
    - arg_meta: null
      kernel_name: twice::scale_out
    - {alias}
"""


def table(tmp_path, text, name="functions.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def plain(text=FUNCTIONS):
    return text.replace("    - {alias}\n", "")


def test_kernels_of_a_table(tmp_path):
    kernels = read_published(table(tmp_path, plain()))
    told = [(k.schema.name, k.function, k.specialisation and k.specialisation.text) for k in kernels]
    assert told == [
        ("aten::add.out", "torch::executor::native::add_out", None),
        ("aten::gelu.out", "twice::native::gelu_out", "self=f32/contiguous out=f32/contiguous"),
        ("twice::scale.out", "twice::native::scale_out", None),
    ]
    assert [a.name for a in kernels[0].schema.arguments] == ["self", "other", "alpha", "out"]


def test_each_choice_of_types_and_orders_is_a_kernel(tmp_path):
    text = """- op: mul.out
  type_alias:
    T0: [Float, Long]
    T1: [Double]
  dim_order_alias:
    D0: [[0, 1, 2, 3], [0, 2, 3, 1]]
  kernels:
    - arg_meta:
        self: [T0, D0]
        other: [T1, D0]
      kernel_name: my::mul_some
    - arg_meta: null
      kernel_name: my::mul_all
"""
    kernels = read_published(table(tmp_path, text))
    assert [k.specialisation and k.specialisation.text for k in kernels] == [
        None,
        "self=f32/contiguous other=f64/contiguous",
        "self=f32/channels_last other=f64/channels_last",
        "self=i64/contiguous other=f64/contiguous",
        "self=i64/channels_last other=f64/channels_last",
    ]


def test_a_table_selects_operators(tmp_path):
    selection = read_selection(table(tmp_path, plain()))
    assert selection.has("aten::add.out") and selection.dtypes("aten::add.out") is None
    assert selection.dtypes("aten::gelu.out") == {"f32"}
    assert selection.has("twice::scale.out") and not selection.has("aten::mul.out")


FUNCTIONAL = """
- func: twice::scale(Tensor x, float by=2.0) -> Tensor
- op: add.Tensor
  kernels:
    - arg_meta: null
      kernel_name: mine::add_out
- func: twice::shift.Scalar(Tensor x, Scalar by) -> Tensor
  kernels:
    - arg_meta: null
      kernel_name: mine::shift_scalar_out
- func: twice::both(Tensor x) -> (Tensor, Tensor)
  kernels:
    - arg_meta: null
      kernel_name: mine::both_out
- func: twice::scale.out(Tensor x, float by=2.0, *, Tensor(a!) out) -> Tensor(a!)
  type_alias:
    T0: [Float]
  dim_order_alias:
    D0: [[0, 1]]
  kernels:
    - arg_meta:
        x: [T0, D0]
        out: [T0, D0]
      kernel_name: mine::scale_out
"""


def test_a_functional_entry_stands_for_its_out_variant(tmp_path):
    """Its kernels have the out arguments; without kernels it is for export alone."""
    kernels = read_published(table(tmp_path, FUNCTIONAL))
    told = {k.schema.name: [a.name for a in k.schema.arguments if a.is_out] for k in kernels}
    assert told == {
        "aten::add.out": ["out"],
        "twice::shift.Scalar_out": ["out"],
        "twice::both.out": ["out0", "out1"],
        "twice::scale.out": ["out"],
    }
    header = published_library.kernels_header(kernels, "")
    assert (
        "Tensor& shift_scalar_out(KernelRuntimeContext& context, const Tensor& x, const Scalar& by, Tensor& out);"
        in header
    )
    with pytest.raises(TableError, match="has an entry already"):
        read_published(table(tmp_path, FUNCTIONAL.replace("op: add.Tensor", "op: add.out") + FUNCTIONAL[1:]))


@pytest.mark.parametrize("swap", [False, True])
def test_functional_entries_select_what_programs_call(tmp_path, swap):
    entries = ("\n" + FUNCTIONAL.strip()).split("\n- ")[1:]
    text = "".join(f"- {one}\n" for one in (reversed(entries) if swap else entries))
    selection = read_selection(table(tmp_path, text))
    assert selection.dtypes("twice::scale.out") == {"f32"} and selection.dtypes("aten::add.out") is None
    assert all(selection.has(name) for name in ("aten::add.out", "twice::shift.Scalar_out", "twice::both.out"))
    assert not selection.has("aten::add.Tensor")


def test_lists_of_operators_take_functional_names(tmp_path):
    named = read_selection(table(tmp_path, "aten::add.Tensor f32\naten::mm\ntwice::scale.out\n", "ops.txt"))
    own = read_selection(table(tmp_path, "- op: aten::add.Tensor\n  dtypes: [f32]\n- op: aten::mm.out\n", "own.yaml"))
    for selection in (named, own):
        assert selection.dtypes("aten::add.out") == {"f32"} and selection.has("aten::mm.out")
    assert named.has("twice::scale.out")


def test_the_first_of_two_tables_wins(tmp_path):
    fast = "- op: add.out\n  kernels:\n    - arg_meta: null\n      kernel_name: fast::add_out\n"
    kernels = published_library.merged(
        read_published(table(tmp_path, fast, "fast.yaml")), read_published(table(tmp_path, plain()))
    )
    assert [k.function for k in kernels if k.schema.name == "aten::add.out"] == ["fast::native::add_out"]
    assert len(kernels) == 3


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("add.out", "nothing.out", "no operator of ops.yaml"),
        ("op: add.out", "op: gelu.out", "has an entry already"),
        ("arg_meta: null", "arg_meta: some", "null or the types"),
        ("kernel_name: torch", "kernel: torch", "kernel_name"),
        ("torch::executor::add_out", "add_out", "in a namespace"),
        ("[Float]", "[Real]", "must list types of torch"),
        ("T0: [Float]", "T1: [Float]", "type_alias T0"),
        ("[[0, 1, 2, 3]]", "[[3, 2, 1, 0]]", "neither row-major"),
        ("self: [T0 , D0]", "this: [T0, D0]", "tensor of the schema"),
        ("self: [T0 , D0]", "self: [T0", "must end on its line"),
        ("    T0: [Float]", "\tT0: [Float]", "a tab"),
        ("  variants: function", "  colour: red", "unknown key colour"),
        ("*, Tensor(a!) out) -> Tensor(a!)", "int more) -> Tensor", "has none"),
        (
            "  kernels:\n    - arg_meta: null\n      kernel_name: torch",
            "  kernels: none\n  x: y",
            "must|expected|unknown",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, words):
    assert old in plain()
    with pytest.raises(TableError, match=words):
        read_published(table(tmp_path, plain().replace(old, new, 1)))


def test_as_a_full_yaml_parser_reads_it():
    yaml = pytest.importorskip("yaml")

    def without_lines(value):
        return [{key: one for key, one in entry.items() if key != "line"} for entry in value]

    def texts(value):
        if isinstance(value, dict):
            return {key: texts(one) for key, one in value.items()}
        return [texts(one) for one in value] if isinstance(value, list) else value if value is None else str(value)

    assert without_lines(read_entries(plain())) == texts(yaml.safe_load(plain()))


def test_our_own_tables_are_not_taken_for_published_ones():
    root = Path(__file__).parents[3]
    assert not is_published((root / "src/cpp/ops/ops.yaml").read_text())
    assert not is_published("- op: aten::add.out\n  dtypes: [f32]\n")


KERNELS = """
#include "twice/kernels.h"
namespace twice {
namespace native {
Tensor& scale_out(KernelRuntimeContext& context, const Tensor& x, double by, Tensor& out) {
  ET_KERNEL_CHECK(context, resize_tensor(out, x.sizes()) == Error::Ok, InvalidArgument, out);
  ET_KERNEL_CHECK(context, x.scalar_type() == ScalarType::Float, NotSupported, out);
  for (int64_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[i] * static_cast<float>(by);
  }
  return out;
}
Tensor& scale_long_out(KernelRuntimeContext& context, const Tensor& x, double by, Tensor& out) {
  ET_KERNEL_CHECK(context, resize_tensor(out, x.sizes()) == Error::Ok, InvalidArgument, out);
  for (int64_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<int64_t>()[i] = x.const_data_ptr<int64_t>()[i] * static_cast<int64_t>(by) + 1;
  }
  return out;
}
}  // namespace native
}  // namespace twice
"""

TWICE = """- func: twice::scale.out(Tensor x, float by=2.0, *, Tensor(a!) out) -> Tensor(a!)
  type_alias:
    T0: [Long]
  dim_order_alias:
    D0: [[0, 1]]
  kernels:
    - arg_meta: null
      kernel_name: twice::scale_out
    - arg_meta:
        x: [T0, D0]
        out: [T0, D0]
      kernel_name: twice::scale_long_out
"""


@pytest.mark.slow
def test_a_library_from_a_published_table(tmp_path):
    assert Path(et.cmake_prefix_path).is_dir(), "build the target et_sdk"
    table(tmp_path, TWICE, "custom_ops.yaml")
    functional = TWICE.replace("twice::scale", "other::scale").replace("scale.out(", "scale(")
    functional = functional.replace(", *, Tensor(a!) out) -> Tensor(a!)", ") -> Tensor")
    table(tmp_path, functional, "fallback.yaml")
    (tmp_path / "kernels.cpp").write_text(KERNELS + KERNELS[KERNELS.index("namespace") :].replace("twice", "other"))
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(twice LANGUAGES CXX)\n"
        "find_package(executorch_py 0.1 CONFIG REQUIRED)\n"
        "executorch_py_add_kernel_library(twice YAML custom_ops.yaml SRCS kernels.cpp FALLBACK_YAML fallback.yaml)\n"
    )
    cmake = shutil.which("cmake") or str(Path(sys.executable).parent / "cmake")
    configure = [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={et.cmake_prefix_path}"]
    for command in (configure, [cmake, "--build", tmp_path / "build"]):
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr

    check_plugin(tmp_path / "build" / "libtwice.so")
    library = torch.library.Library("twice", "FRAGMENT")
    library.define("scale(Tensor x, float by=2.0) -> Tensor")
    library.impl(
        "scale", lambda x, by=2.0: (x * by).to(x.dtype) + (x.dtype == torch.int64), "CompositeExplicitAutograd"
    )

    class Model(torch.nn.Module):
        def forward(self, x, n):
            return torch.ops.twice.scale(x, 3.0) + 1, torch.ops.twice.scale(n)

    inputs = (torch.randn(2, 3), torch.arange(6).reshape(2, 3))
    et.load_kernel_library(tmp_path / "build" / "libtwice.so")
    program = et.to_edge_transform_and_lower(torch.export.export(Model(), inputs)).to_executorch()
    for got, want in zip(et.load(program.buffer)(*inputs), Model()(*inputs), strict=True):
        torch.testing.assert_close(got, want)


def test_the_generator_by_command(tmp_path):
    table(tmp_path, TWICE, "custom_ops.yaml")
    command = [
        sys.executable,
        kernel_library.__file__,
        "--name",
        "twice",
        "--ops",
        tmp_path / "custom_ops.yaml",
        "--out",
        tmp_path,
    ]
    subprocess.run(command, check=True)
    header = (tmp_path / "twice/kernels.h").read_text()
    assert "Tensor& scale_out(KernelRuntimeContext& context, const Tensor& x, double by, Tensor& out);" in header
    assert (
        'make_kernel<kRun<&twice::native::scale_out>>("twice::scale.out"'
        in (tmp_path / "twice/register.cpp").read_text()
    )
