"""Operators that C++ registers with PyTorch (TORCH_LIBRARY), functional and in place, with shapes from C++, too."""

import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import executorch_py as et  # noqa: E402

SOURCE = """
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace {
at::Tensor affine(const at::Tensor& x, double a, double b) { return x.mul(a).add(b); }
at::Tensor affine_meta(const at::Tensor& x, double, double) { return at::empty_like(x); }
void shift(at::Tensor x, double by) { x.add_(by); }
void shift_meta(at::Tensor, double) {}
}  // namespace

TORCH_LIBRARY(test_cpp, library) {
  library.def("affine(Tensor x, float a, float b=0.0) -> Tensor");
  library.def("shift_(Tensor(a!) x, float by) -> ()");
}
TORCH_LIBRARY_IMPL(test_cpp, CPU, library) {
  library.impl("affine", &affine);
  library.impl("shift_", &shift);
}
TORCH_LIBRARY_IMPL(test_cpp, Meta, library) {
  library.impl("affine", &affine_meta);
  library.impl("shift_", &shift_meta);
}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("custom_ops")
def test_torch_library(tmp_path):
    (tmp_path / "operators.cpp").write_text(SOURCE)
    home = Path(torch.__file__).parent
    library = tmp_path / "liboperators.so"
    command = ["c++", "-std=c++20", "-O0", "-shared", "-fPIC", tmp_path / "operators.cpp", "-o", library,
               f"-I{home}/include", f"-I{home}/include/torch/csrc/api/include", f"-L{home}/lib", "-ltorch_cpu", "-lc10",
               f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]  # fmt: skip
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    torch.ops.load_library(library)

    class Model(torch.nn.Module):
        def forward(self, x):
            y = torch.ops.test_cpp.affine(x, 2.0, b=1.0)
            torch.ops.test_cpp.shift_(y, 0.5)
            return torch.ops.test_cpp.affine(y, 3.0)

    x = torch.randn(3, 4)
    program = et.to_edge_transform_and_lower(torch.export.export(Model(), (x,))).to_executorch()
    module = et.load(program.buffer)
    torch.testing.assert_close(module(x), Model()(x))
    assert {"test_cpp::affine.out", "test_cpp::shift_"} <= set(module.program.metadata("forward").operators())
