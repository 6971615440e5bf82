"""A page of docs/how-to/ as a user works through it: every file that it shows is written, every command is run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import executorch_py as et
from executorch_py import _core

ROOT = Path(__file__).resolve().parents[3]
TREE = Path(_core.__file__).parent  # the package as a build tree has it
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def user_environment(scripts: Path) -> dict[str, str]:
    """Variables of a user who has installed the package: it is found, and its commands are."""
    scripts.mkdir()
    commands = {"etpy": "executorch_py.cli"} | {
        name: f"executorch_py.programs {name}" for name in ("executor_runner", "pte_dump", "et_opt")
    }
    for name, module in commands.items():
        (scripts / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        (scripts / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{scripts}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = os.pathsep.join([str(TREE.parent), os.environ.get("PYTHONPATH", "")])
    environment.setdefault(
        "CMAKE_GENERATOR", "Ninja" if shutil.which("ninja", path=environment["PATH"]) else "Unix Makefiles"
    )
    if compiler_cache := shutil.which("ccache"):
        environment.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", compiler_cache)
    return environment


def work_through(name: str, tmp_path: Path) -> tuple[Path, str]:
    """Writes the files of a page and runs its commands; gives the folder and what they printed."""
    assert Path(et.cmake_prefix_path).is_dir(), "build the target et_sdk"
    environment = user_environment(tmp_path / "scripts")
    folder = tmp_path / "project"
    folder.mkdir()
    blocks = BLOCK.findall((ROOT / "docs/how-to" / name).read_text())
    for language, file, _ in blocks:
        assert file or language == "sh", f"a block of {language} without the name of its file"
    for _, file, text in blocks:  # all files first: the text may show one after the command that takes it
        if file:
            (folder / file).write_text(text)
    output = ""
    for language, file, text in blocks:
        if language == "sh" and not file:
            result = subprocess.run(
                ["sh", "-ec", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=500
            )
            assert result.returncode == 0, f"{text}\n{result.stdout}{result.stderr}"
            output += result.stdout
    return folder, output
