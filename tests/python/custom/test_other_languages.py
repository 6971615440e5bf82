"""What other languages get: the symbols of libexecutorch.so, Java over JNI, the module map for Swift."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import executorch_py as et
from tests.python.custom.page import ROOT

LIBRARY = Path(et.c_library_path)
INCLUDE = LIBRARY.parent.parent / "include"
HEADER = (ROOT / "src/cpp/c_api/executorch.h").read_text()

MAIN = """
import executorch.Model;
import executorch.Model.Tensor;
import java.nio.ByteBuffer;
import java.util.Arrays;

public class Main {
  static void refused(String what, Runnable call) {
    try {
      call.run();
      System.out.println(what + ": taken");
    } catch (RuntimeException error) {
      System.out.println(what + ": " + error);
    }
  }

  public static void main(String[] given) {
    Model closed;
    try (Model model = new Model(given[0], "forward")) {
      closed = model;
      refused("shape", () -> model.run(Tensor.of(new float[6], 2, 3)));
      refused("dtype", () -> model.run(new Tensor(4, new long[] {1, 4}, ByteBuffer.allocateDirect(32))));
      refused("heap", () -> model.run(new Tensor(6, new long[] {1, 4}, ByteBuffer.allocate(16))));
      refused("number", () -> model.run(Tensor.of(new float[4], 1, 4), Tensor.of(new float[4], 1, 4)));
      for (int i = 0; i < 1000; i++) {
        Tensor[] outputs = model.run(Tensor.of(new float[] {1, 2, 3, i}, 1, 4));
        if (i == 4) {
          System.out.println(Arrays.toString(outputs[0].sizes()) + " " + Arrays.toString(outputs[0].floats()));
        }
      }
    }
    refused("closed", () -> closed.run(Tensor.of(new float[4], 1, 4)));
    refused("file", () -> new Model("nothing\\u1234.pte", "forward"));
    refused("method", () -> new Model(given[0], "backward"));
  }
}
"""


def run(*command: object, cwd: Path, **environment: str) -> str:
    words = [str(word) for word in command]
    result = subprocess.run(words, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, f"{' '.join(words)}\n{result.stdout}{result.stderr}"
    return result.stdout


def test_the_library_exports_the_header_and_nothing_else(tmp_path: Path) -> None:
    assert LIBRARY.exists(), "build the target et_sdk"
    table = run("nm", "--dynamic", "--defined-only", LIBRARY, cwd=tmp_path)
    declared = set(re.findall(r"^ET_C_API .*?\b(et_\w+)\(", HEADER, re.MULTILINE))
    assert len(declared) > 25
    assert {line.split()[-1] for line in table.splitlines()} == declared


def test_java_runs_a_model(tmp_path: Path) -> None:
    if (compiler := shutil.which("javac")) is None:
        pytest.skip("no javac (tools/provision_system.py debian java installs it)")
    home = Path(compiler).resolve().parents[1]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).eval()
    exported = torch.export.export(model, (torch.randn(1, 4),))
    et.to_edge_transform_and_lower(exported).to_executorch().save(tmp_path / "model.pte")
    (tmp_path / "Main.java").write_text(MAIN)
    sources = ROOT / "examples/java"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    includes = [f"-I{folder}" for folder in (INCLUDE, home / "include", home / "include/linux")]
    link = [f"-L{LIBRARY.parent}", "-lexecutorch", f"-Wl,-rpath,{LIBRARY.parent}", "-o", "libexecutorch_jni.so"]
    run("gcc", *flags, *includes, sources / "executorch_jni.c", *link, cwd=tmp_path)
    options = ["-Xlint:all", "-Werror", "-encoding", "UTF-8", "-d", "classes"]
    run(compiler, *options, sources / "executorch/Model.java", "Main.java", cwd=tmp_path)
    # -Xcheck:jni: a JVM that looks at each call of the shim
    java = [home / "bin/java", "-Xcheck:jni", f"-Djava.library.path={tmp_path}", "-cp", "classes"]
    text = run(*java, "Main", "model.pte", cwd=tmp_path)
    assert "WARNING" not in text and "FATAL" not in text, text
    told = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    wrong = "java.lang.IllegalArgumentException"
    for what, kind, part in (
        ("shape", wrong, "input 0"), ("dtype", wrong, "input 0"), ("heap", wrong, "direct ByteBuffer"),
        ("number", wrong, "there is no input 1"), ("closed", wrong, "the method is null"),
        ("file", "java.lang.IllegalStateException", "nothing"), ("method", wrong, "backward"),
    ):  # fmt: skip
        assert told[what].startswith(kind) and part in told[what], told[what]
    sizes, numbers = next(re.findall(r"\[(.*?)\]", line) for line in text.splitlines() if line.startswith("[1, 3] "))
    expected = model(torch.tensor([[1.0, 2, 3, 4]])).flatten()
    assert sizes == "1, 3"
    torch.testing.assert_close(torch.tensor([float(x) for x in numbers.split(",")]), expected)


def test_clang_imports_the_module(tmp_path: Path) -> None:
    if (compiler := shutil.which("clang")) is None:
        pytest.skip("no clang (tools/provision_system.py debian mcu installs it)")
    folder = INCLUDE / "executorch_py/c_api"
    (tmp_path / "use.m").write_text(
        "@import Executorch;\nint main(void) { et_tensor x = {ET_FLOAT, 0, 0, 0, 0}; return et_init() + x.rank; }\n"
    )
    modules = ["-fmodules", f"-fmodules-cache-path={tmp_path}", f"-fmodule-map-file={folder}/module.modulemap"]
    run(compiler, *modules, "-Wall", "-Werror", "-fsyntax-only", "use.m", cwd=tmp_path)
