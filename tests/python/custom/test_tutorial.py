"""docs/how-to/custom_operators.md from beginning to end: every file that it shows is written, every command is run."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import executorch_py as et
from tests.python.custom.page import work_through

EXPORTED = re.compile(r"^[0-9a-f]+ [TDBW] (\S+)$", re.MULTILINE)


def test_the_page(tmp_path):
    assert importlib.util.find_spec("torchvision") is not None, "install the group models of pyproject.toml"
    folder, output = work_through("custom_operators.md", tmp_path)
    assert "detection[input=f32 rois=f32] 1" in output, output
    assert "nothing is missing" in output
    assert output.count(" boxes") == 4, "three in Python, one in C++"
    assert "Error nms_out(KernelContext& context, const Tensor& dets" in output, "what promise.py prints"
    check_plugin(folder / "build/libdetection.so")


def check_plugin(path: Path) -> None:
    """A plug-in exports its entry alone, and holds no runtime of its own."""
    exported = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    assert EXPORTED.findall(exported) == ["et_plugin_entry"]
    everything = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=True).stdout
    for part in (
        "et::runtime::Method::",
        "et::runtime::Program::",
        "MethodLoader",
        "BackendRegistry",
        "WorkerPool::create",
    ):
        assert part not in everything, part


def test_a_forgotten_kernel_is_a_link_error(tmp_path):
    assert Path(et.cmake_prefix_path).is_dir(), "build the target et_sdk"
    (tmp_path / "ops.yaml").write_text('- schema: "my::f(Tensor x) -> Tensor"\n- schema: "my::g(Tensor x) -> Tensor"\n')
    (tmp_path / "f.cpp").write_text(
        '#include "my_ops/kernels.h"\nnamespace my_ops {\n'
        "Error f_out(KernelContext& context, const Tensor& x, Tensor& out) {\n"
        "  return resize_tensor(context, out, x.sizes());\n}\n}\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(my_ops LANGUAGES CXX)\n"
        "find_package(executorch_py 0.1 CONFIG REQUIRED)\n"
        "executorch_py_add_kernel_library(my_ops YAML ops.yaml SRCS f.cpp)\n"
    )
    cmake = shutil.which("cmake") or str(Path(sys.executable).parent / "cmake")
    configure = [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={et.cmake_prefix_path}"]
    subprocess.run([str(word) for word in configure], check=True, capture_output=True)
    result = subprocess.run([cmake, "--build", str(tmp_path / "build")], capture_output=True, text=True)
    assert result.returncode != 0 and "g_out" in result.stdout + result.stderr
