"""docs/how-to/using_cpp.md from beginning to end, and what a user's project may have beside the package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import executorch_py as et
from executorch_py import programs
from tests.python.custom.page import BLOCK, ROOT, TREE, user_environment, work_through

PAGE = (ROOT / "docs/how-to/using_cpp.md").read_text()


def test_the_page(tmp_path):
    _, output = work_through("using_cpp.md", tmp_path)
    assert "output 0: torch.float32 (" in output, "executor_runner prints outputs"
    assert "XnnpackBackend" in output, "pte_dump names the delegate"
    said = "input 0 of method 'forward' of 'model.pte' is torch.float32 (1 to 32, 8), torch.float32 (2, 9) was given"
    assert said in output and said in PAGE
    program = next(text for _, name, text in BLOCK.findall(PAGE) if name == "first.cpp")
    assert len([line for line in program.splitlines() if line.strip()]) <= 12


def build(tmp_path: Path, source: str, target: str = "extension") -> Path:
    """A project of one file on the package; gives the program."""
    (tmp_path / "main.cpp").write_text(source)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(main LANGUAGES CXX)\n"
        "find_package(executorch_py CONFIG REQUIRED)\n"
        "add_executable(main main.cpp)\ntarget_include_directories(main PRIVATE .)\n"
        "target_compile_options(main PRIVATE -Wall -Wextra -Werror)\n"
        f"target_link_libraries(main PRIVATE executorch_py::{target})\n"
    )
    environment = user_environment(tmp_path / "scripts")
    cmake = shutil.which("cmake") or str(Path(sys.executable).parent / "cmake")
    configure = [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={et.cmake_prefix_path}"]
    for command in (configure, [cmake, "--build", tmp_path / "build"]):
        result = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    return tmp_path / "build" / "main"


def test_every_header_compiles_beside_namesakes(tmp_path):
    """All installed headers in one file, in a project that has a base/log.h, a runtime/ and a threads/ of its own."""
    root = Path(et.cmake_prefix_path).parents[1] / "include"
    headers = sorted(path.relative_to(root).as_posix() for path in (root / "executorch_py").rglob("*.h"))
    assert len(headers) > 100
    for name in ("base/log.h", "runtime/tensor.h", "threads/thread_pool.h", "extension/evalue.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("#error a namesake of the user's\n")
    for_torch = ("aten_util/",)
    includes = [name for name in headers if not any(part in name for part in for_torch)]
    build(tmp_path, "".join(f"#include <{name}>\n" for name in includes) + "int main() {}\n")


def test_published_target_names_link(tmp_path):
    source = (
        '#include <executorch_py/extension/module/module.h>\nint main() { executorch::extension::Module m("x"); }\n'
    )
    build(tmp_path, source, "extension_module")


def test_includes_without_the_prefix_are_found_last(tmp_path):
    source = (
        '#include "runtime/host/module.h"\n#include "builtin/builtin.h"\nint main() { et::runtime::HostOptions o; }\n'
    )
    build(tmp_path, source)


def test_a_first_program_speaks(tmp_path):
    """Nothing is set, and the reason of an error is on stderr."""
    program = build(
        tmp_path,
        "#include <executorch_py/extension/module/module.h>\n"
        'int main() { return executorch::extension::Module("missing.pte").forward().ok() ? 0 : 3; }\n',
    )
    result = subprocess.run([program], capture_output=True, text=True)
    assert result.returncode == 3
    assert re.search(r"missing\.pte.*No such file", result.stderr), result.stderr


@pytest.mark.parametrize("name", programs.NAMES)
def test_programs_run_as_commands(name, tmp_path):
    environment = user_environment(tmp_path / "scripts")
    result = subprocess.run([tmp_path / "scripts" / name], env=environment, capture_output=True, text=True)
    assert result.returncode not in (0, 127) and name in result.stdout + result.stderr, result
    assert Path(programs.path(name)).is_relative_to(TREE)


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="there are executor_runner, pte_dump, et_opt"):
        programs.path("runner")
    result = subprocess.run([sys.executable, "-m", "executorch_py.programs"], capture_output=True, text=True)
    assert result.returncode == 1 and "executor_runner" in result.stderr
