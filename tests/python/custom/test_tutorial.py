"""docs/how-to/custom_operators.md from beginning to end: every file that it shows is written, every command is run."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import executorch_py as et
from executorch_py import _core

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/how-to/custom_operators.md"
TREE = Path(_core.__file__).parent  # the package as a build tree has it
EXPORTED = re.compile(r"^[0-9a-f]+ [TDBW] (\S+)$", re.MULTILINE)


def test_the_page(tmp_path):
    assert Path(et.cmake_prefix_path).is_dir(), "build the target et_sdk"
    assert importlib.util.find_spec("torchvision") is not None, "install the group models of pyproject.toml"
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "etpy").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m executorch_py.cli "$@"\n')
    (scripts / "etpy").chmod(0o755)
    environment = {**os.environ, "PATH": f"{scripts}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = os.pathsep.join([str(TREE.parent), os.environ.get("PYTHONPATH", "")])
    environment.setdefault(
        "CMAKE_GENERATOR", "Ninja" if shutil.which("ninja", path=environment["PATH"]) else "Unix Makefiles"
    )
    if compiler_cache := shutil.which("ccache"):
        environment.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", compiler_cache)
    folder = tmp_path / "detection"
    folder.mkdir()
    output = ""
    blocks = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for language, name, _ in blocks:
        assert name or language == "sh", f"a block of {language} without the name of its file"
    for _, name, text in blocks:  # all files first: the text shows detect.cpp before it explains it
        if name:
            (folder / name).write_text(text)
    for language, name, text in blocks:
        if language == "sh" and not name:
            result = subprocess.run(
                ["sh", "-ec", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=500
            )
            assert result.returncode == 0, f"{text}\n{result.stdout}{result.stderr}"
            output += result.stdout
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
