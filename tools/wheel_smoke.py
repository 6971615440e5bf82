#!/usr/bin/env python3
"""Build the wheel and try it where a user would: a new environment with numpy and nothing else.

    tools/wheel_smoke.py [--keep DIR] [--tree build/dev]

With --tree the wheel is packed from a build tree that is already there; otherwise everything is compiled, as for a
user.

The models are exported by the environment that runs this script (it has torch). The clean one loads and runs the files,
with a plug-in and in an application that tests/meta/wheel_plugin builds on the CMake package in the wheel.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from packages import manylinux

ROOT = Path(__file__).resolve().parent.parent
SMOKE = ROOT / "tests" / "meta" / "wheel_smoke.py"


def run(*command: object, **options: object) -> None:
    subprocess.run([str(word) for word in command], check=True, **options)  # type: ignore[call-overload]


def check_contents(wheel: Path) -> None:
    """A wheel has the package, its types, its libraries, headers and CMake package; of sources those for firmware."""
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "executorch_py/__init__.py",
        "executorch_py/py.typed",
        "executorch_py/_core.pyi",
        "executorch_py/_element_types.py",
        "executorch_py/_operator_rows.py",
        "executorch_py/codegen/kernel_library.py",
        "executorch_py/include/executorch_py/runtime/kernel_types.h",
        "executorch_py/include/executorch_py/extension/module/module.h",
        "executorch_py/bin/executor_runner",
        "executorch_py/bin/pte_dump",
        "executorch_py/bin/et_opt",
        "executorch_py/lib/libet_runtime.a",
        "executorch_py/lib/libexecutorch.so",
        "executorch_py/include/executorch_py/c_api/module.modulemap",
        "executorch_py/share/cmake/executorch_py/executorch_pyConfig.cmake",
        "executorch_py/share/source/cpp/kernels/cortex_m/quantized_linear.cpp",
        "executorch_py/share/source/cpp/kernels/prim/prim_table.inc",
        "executorch_py/share/source/generated/schema/program_generated.h",
        "executorch_py/share/source/third_party/flatbuffers/flatbuffers.h",
    ):
        if wanted not in names:
            sys.exit(f"wheel: {wanted} is missing")
    if not any(name.startswith("executorch_py/_core.") and name.endswith(".so") for name in names):
        sys.exit("wheel: the extension module is missing")
    places = (
        "executorch_py/include/",
        "executorch_py/share/cmake/",
        "executorch_py/share/source/",
        "executorch_py/firmware/template/",
        "executorch_py/native/template/",
    )
    strays = [
        name
        for name in names
        if name.endswith((".cpp", ".h", ".fbs", ".txt")) and "dist-info" not in name and not name.startswith(places)
    ]
    if strays:
        sys.exit(f"wheel: contains what it should not: {', '.join(strays[:5])}")


def build_plugin(python: Path, folder: Path, environment: dict[str, str]) -> Path:
    """Builds tests/meta/wheel_plugin as a user of the wheel would; gives the build folder."""
    ask = "import executorch_py; print(executorch_py.cmake_prefix_path)"
    prefix = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True, env=environment).stdout
    build = folder / "plugin"
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}") or "cmake"
    prefix_path, executable = f"-DCMAKE_PREFIX_PATH={prefix.strip()}", f"-DPython3_EXECUTABLE={python}"
    run(
        cmake,
        "-S",
        SMOKE.parent / "wheel_plugin",
        "-B",
        build,
        prefix_path,
        executable,
        "--log-level=WARNING",
        env=environment,
    )
    run(cmake, "--build", build, env=environment)
    return build


def settings_of(tree: Path) -> list[str]:
    """Options of pip that pack a wheel from an existing build tree, configured as it is."""
    cache = (tree / "CMakeCache.txt").read_text()
    options = re.findall(
        r"^(ET_(?:BUILD_\w+|WERROR|BACKENDS|SIZE_BUILD|STRIP_MESSAGES)):\w+=(.*)$", cache, re.MULTILINE
    )
    settings = [f"build-dir={tree}", *(f"cmake.define.{name}={value}" for name, value in options)]
    return [f"--config-settings={setting}" for setting in settings]  # pip 23.0 of Debian has no -C


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the wheel and try it in a clean environment.")
    parser.add_argument("--keep", type=Path, default=ROOT / "dist", help="folder that the wheel is left in")
    parser.add_argument("--tree", type=Path, help="build tree to pack from")
    arguments = parser.parse_args()
    settings = settings_of(arguments.tree) if arguments.tree else []
    with tempfile.TemporaryDirectory(prefix="executorch_py-wheel-") as temporary:
        folder = Path(temporary)
        print("[wheel] building", flush=True)
        run(
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-qq",
            "--no-build-isolation",
            "--no-deps",
            *settings,
            "-w",
            folder,
            ROOT,
        )
        (wheel,) = folder.glob("*.whl")
        check_contents(wheel)
        wheel = manylinux(wheel)
        run(sys.executable, SMOKE, "export", folder)
        print(f"[wheel] {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB: trying it with numpy alone", flush=True)
        run(sys.executable, "-m", "venv", folder / "clean")
        python = folder / "clean" / "bin" / "python"
        run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", wheel)
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        run(python, SMOKE, "run", folder, cwd=folder, env=environment)
        for command in ("executor_runner --model", "pte_dump"):
            run(python.parent / command.split()[0], *command.split()[1:], "smoke.pte", cwd=folder, env=environment,
                stdout=subprocess.DEVNULL)  # fmt: skip
        print("[wheel] building a plug-in and an application on it", flush=True)
        build = build_plugin(python, folder, environment)
        run(python, SMOKE, "plugin", folder, build / "libsmoke.so", cwd=folder, env=environment)
        run(build / "application", folder / "custom.pte", env=environment)
        arguments.keep.mkdir(exist_ok=True)
        shutil.copy2(wheel, arguments.keep)
    print(f"[wheel] {arguments.keep / wheel.name}: ok", flush=True)


if __name__ == "__main__":
    main()
