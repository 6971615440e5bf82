#!/usr/bin/env python3
"""Set up what the build and the tests need of the machine: Debian packages and Python environments.

Not for third-party C++ sources, which ``tools/provision.py`` builds. Every step says what it does, and does nothing the
second time:

    tools/provision_system.py debian compiler tests      # installs what is missing as root, otherwise names it
    tools/provision_system.py venv .venv build torch     # groups of [dependency-groups] in pyproject.toml
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# set -> {program or file that shows it is there: Debian package}
DEBIAN: dict[str, dict[str, str]] = {
    "compiler": {"g++": "g++", "dpkg-deb": "dpkg", "xz": "xz-utils", "make": "make"},
    "tests": {"/usr/include/gtest/gtest.h": "libgtest-dev"},
    "docs": {"doxygen": "doxygen"},
    "browser": {"chromium": "chromium"},
    "bench": {"/usr/include/benchmark/benchmark.h": "libbenchmark-dev"},
    "fuzz": {
        "clang": "clang",
        "llvm-symbolizer": "llvm",
        "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux": "libclang-rt-14-dev",
    },
    "compilers": {
        "g++-11": "g++-11",
        "clang++-15": "clang-15",
        "clang++-16": "clang-16",
        "clang++-19": "clang-19",
    },
    "mcu": {
        "ccache": "ccache",  # projects of the tests share objects
        "arm-none-eabi-g++": "gcc-arm-none-eabi",
        "/usr/lib/arm-none-eabi/newlib/libc.a": "libnewlib-arm-none-eabi",
        "/usr/lib/arm-none-eabi/newlib/libstdc++.a": "libstdc++-arm-none-eabi-newlib",
        "qemu-system-arm": "qemu-system-arm",
        "clang++": "clang",
    },
    "speech": {"espeak-ng": "espeak-ng", "flite": "flite", "/usr/share/sounds/alsa": "alsa-utils"},
    "aarch64": {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64-static": "qemu-user-static"},
    "armhf": {"arm-linux-gnueabihf-g++": "g++-arm-linux-gnueabihf", "qemu-arm-static": "qemu-user-static"},
    "riscv64": {
        "riscv64-linux-gnu-g++": "g++-riscv64-linux-gnu",
        "qemu-riscv64-static": "qemu-user-static",
        "clang++": "clang",
    },
    "wasm": {"em++": "emscripten", "node": "nodejs"},
    "java": {"javac": "openjdk-17-jdk-headless"},
}


def say(message: str) -> None:
    print(f"[setup] {message}", flush=True)


def present(sign: str) -> bool:
    return os.path.exists(sign) if sign.startswith("/") else shutil.which(sign) is not None


def debian(sets: list[str]) -> None:
    """Installs the Debian packages that are missing from the named sets."""
    wanted = [package for name in sets for sign, package in DEBIAN[name].items() if not present(sign)]
    missing = list(dict.fromkeys(wanted))
    if "compiler" in sets and not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        missing.append(f"python{sys.version_info.major}.{sys.version_info.minor}-dev")
    if "compiler" in sets and not venv_works():
        missing.append("python3-venv")
    if not missing:
        return
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    if not shutil.which("apt-get"):
        sys.exit(f"setup: missing: {' '.join(missing)} (names of Debian packages); install their like on this system")
    if os.geteuid() != 0:
        sys.exit(f"setup: missing Debian packages; run: sudo {' '.join(command)}")
    say(f"installing Debian packages: {' '.join(missing)}")
    log = ROOT / "build" / "apt.log"
    log.parent.mkdir(exist_ok=True)
    with open(log, "w") as file:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for step in (["apt-get", "update", "-q"], command):
            if subprocess.run(step, stdout=file, stderr=subprocess.STDOUT, env=environment).returncode != 0:
                sys.exit(f"setup: '{' '.join(step)}' failed:\n{''.join(log.open().readlines()[-15:])}")


def venv_works() -> bool:
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return False
    return True


def read_groups() -> dict[str, list[str]]:
    """[dependency-groups] of pyproject.toml. Python 3.10 has no tomllib; pip carries one."""
    try:
        import tomllib
    except ImportError:
        from pip._vendor import tomli as tomllib  # type: ignore[no-redef]
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["dependency-groups"]


def environment(folder: Path, names: list[str]) -> None:
    """Makes a virtual environment and installs groups into it, those named *-no-deps without their dependencies."""
    groups = read_groups()
    python = folder / "bin" / "python"
    if not python.exists():
        say(f"creating {folder} with Python {sys.version.split()[0]}")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    for name in names:
        stamp = folder / f".installed-{name}"
        wanted = "\n".join(groups[name])
        if stamp.exists() and stamp.read_text() == wanted:
            continue
        say(f"installing into {folder}: {' '.join(groups[name])}")
        started = time.monotonic()
        options = ["--no-deps"] if name.endswith("-no-deps") else []
        # The pin of torch is repeated, so that no other package can exchange it for another build.
        pins = [] if options else groups["torch"][:1]
        if name in ("build", "lint", "tosa"):
            pins = []
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *options, *groups[name], *pins]
        subprocess.run(install, check=True)
        stamp.write_text(wanted)
        say(f"  {name}: {time.monotonic() - started:.0f} s")


def development_install(folder: Path, tree: Path) -> None:
    """Makes an environment see the package of a build tree, as an editable install does."""
    site = Path(next((folder / "lib").glob("python3*/site-packages")))
    (site / "executorch_py_dev.pth").write_text(f"{tree.resolve()}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Set up Debian packages and Python environments.")
    actions = parser.add_subparsers(dest="action", required=True)
    packages = actions.add_parser("debian")
    packages.add_argument("sets", nargs="+", choices=DEBIAN)
    venv = actions.add_parser("venv")
    venv.add_argument("folder", type=Path)
    venv.add_argument("groups", nargs="*")
    venv.add_argument("--tree", type=Path, help="build tree whose package the environment shall see")
    arguments = parser.parse_args()
    if arguments.action == "debian":
        debian(arguments.sets)
    else:
        environment(arguments.folder, arguments.groups)
        if arguments.tree:
            development_install(arguments.folder, arguments.tree)


if __name__ == "__main__":
    main()
