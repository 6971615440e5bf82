"""WRAP_TO_ATEN: kernels for the runtime as operators of PyTorch, in a library that eager mode loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import executorch_py as et

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

SOURCE = """
#include <executorch_py/extension/aten_util/make_aten_functor_from_et_functor.h>
#include <executorch_py/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <torch/library.h>

using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

/// Written in the published way.
Tensor& scale_out(KernelRuntimeContext& context, const Tensor& x, double by, Tensor& out) {
  ET_KERNEL_CHECK(context, executorch::runtime::resize_tensor(out, x.sizes()) == Error::Ok, InvalidArgument, out);
  ET_KERNEL_CHECK_MSG(context, x.scalar_type() == executorch::aten::ScalarType::Float, NotSupported, out,
                            "float32 only");
  for (int64_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = static_cast<float>(by) * x.const_data_ptr<float>()[i];
  }
  return out;
}

/// Written as ours: the elements at `indices`, plus a bias where there is one. The size follows from the list.
Error pick_out(et::runtime::KernelContext& context, const Tensor& x, et::runtime::IntArrayRef indices,
               const std::optional<Tensor>& bias, et::runtime::Scalar factor, Tensor& out) {
  const int64_t sizes[] = {static_cast<int64_t>(indices.size())};
  ET_RETURN_IF_ERROR(et::runtime::resize_tensor(context, out, sizes));
  for (size_t i = 0; i < indices.size(); ++i) {
    ET_CHECK_OR_RETURN(indices[i] >= 0 && indices[i] < x.numel(), InvalidArgument, "no element %d",
                       static_cast<int>(indices[i]));
    out.mutable_data_ptr<float>()[i] = factor.to<float>() * x.const_data_ptr<float>()[indices[i]] +
                                       (bias ? bias->const_data_ptr<float>()[0] : 0.0f);
  }
  return Error::Ok;
}

at::Tensor scale(const at::Tensor& x, double by) {
  at::Tensor out = at::empty_like(x);
  return WRAP_TO_ATEN(scale_out, 2)(x, by, out);
}

TORCH_LIBRARY(wrapped, m) {
  m.def("scale(Tensor x, float by) -> Tensor", scale);
  m.def("scale.out(Tensor x, float by, *, Tensor(a!) out) -> Tensor(a!)", WRAP_TO_ATEN(scale_out, 2));
  m.def("pick.out(Tensor x, int[] indices, Tensor? bias, Scalar factor, *, Tensor(a!) out) -> Tensor(a!)",
        WRAP_TO_ATEN(pick_out, 4));
}
"""

BUILD = """
cmake_minimum_required(VERSION 3.24)
project(wrapped LANGUAGES CXX)
find_package(executorch_py CONFIG REQUIRED)
add_library(wrapped MODULE wrapped.cpp)
target_compile_features(wrapped PRIVATE cxx_std_20)
target_include_directories(wrapped SYSTEM PRIVATE ${TORCH}/include)
target_link_libraries(wrapped PRIVATE executorch_py::extension ${TORCH}/lib/libtorch_cpu.so ${TORCH}/lib/libc10.so)
"""


@pytest.fixture(scope="module")
def operators(tmp_path_factory):
    """torch.ops.wrapped, of a library that is built here."""
    folder = tmp_path_factory.mktemp("wrapped")
    (folder / "wrapped.cpp").write_text(SOURCE)
    (folder / "CMakeLists.txt").write_text(BUILD)
    cmake = shutil.which("cmake") or str(Path(sys.executable).parent / "cmake")
    configure = [cmake, "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={et.cmake_prefix_path}"]
    configure += [f"-DTORCH={Path(torch.__file__).parent}"]
    environment = dict(os.environ)
    if shutil.which("ccache"):
        environment.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
    for command in (configure, [cmake, "--build", folder / "build"]):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    torch.ops.load_library(folder / "build/libwrapped.so")
    return torch.ops.wrapped


@pytest.mark.parametrize("layout", ["contiguous", "channels last", "transposed", "strided", "empty", "scalar"])
def test_a_published_kernel_runs_in_eager_mode(operators, layout):
    x = torch.randn(2, 3, 4, 5)
    x = {
        "contiguous": x,
        "channels last": x.to(memory_format=torch.channels_last),
        "transposed": x.permute(3, 1, 0, 2),
        "strided": x[:, :, ::2],
        "empty": x[:0],
        "scalar": x.sum(),
    }[layout]
    out = torch.empty_like(x)
    assert operators.scale.out(x, 2.5, out=out) is out
    torch.testing.assert_close(out, 2.5 * x)
    torch.testing.assert_close(operators.scale(x, 2.5), 2.5 * x)
    torch.testing.assert_close(operators.scale.out(x, 2.5, out=x.clone()), 2.5 * x)


def test_lists_options_and_sizes_that_the_kernel_gives(operators):
    x = torch.arange(5.0)
    out = torch.empty(0)
    operators.pick.out(x, [4, 0, 4], torch.tensor([10.0]), 2, out=out)
    torch.testing.assert_close(out, torch.tensor([18.0, 10.0, 18.0]))
    operators.pick.out(x, [1], None, 0.5, out=out)
    torch.testing.assert_close(out, torch.tensor([0.5]))
    strided = torch.zeros(6)[::2]
    operators.pick.out(x, [1, 2, 3], None, True, out=strided)
    torch.testing.assert_close(strided, torch.tensor([1.0, 2.0, 3.0]))


def test_an_error_of_the_kernel_is_an_exception(operators):
    with pytest.raises(RuntimeError, match="the kernel failed: InvalidArgument"):
        operators.pick.out(torch.arange(2.0), [7], None, 1, out=torch.empty(0))
    with pytest.raises(RuntimeError, match="the kernel failed: NotSupported"):
        operators.scale.out(torch.ones(2, dtype=torch.float64), 1.0, out=torch.ones(2, dtype=torch.float64))
