"""The interpreter compiles for a Cortex-M55, small and without a heap. It has not run on silicon."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from executorch_py import _core
from tests.tosa.tools import ROOT

pytestmark = pytest.mark.mcu

FLAGS = "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard -Os -std=c++17 -fno-exceptions -fno-rtti -Wall -Wextra -Werror -c"
HEAP = re.compile(r"\bU (malloc|calloc|realloc|_Znw\w*|_Zna\w*|__cxa_throw|_ZSt\w*throw\w*)")


def test_the_interpreter_is_fit_for_firmware(tmp_path: Path) -> None:
    if not shutil.which("arm-none-eabi-g++"):
        pytest.skip("no bare-metal Arm compiler (make mcu-setup installs one)")
    build = Path(_core.__file__).parents[2]
    include = [
        f"-I{ROOT / 'src/cpp'}",
        f"-I{build / 'generated'}",
        f"-I{ROOT}",
        "-isystem",
        build / "third_party/flatbuffers",
    ]
    sources = sorted((ROOT / "backends/tosa/runtime").glob("*.cpp"))
    command = ["arm-none-eabi-g++", *FLAGS.split(), "-DET_STRIP_MESSAGES=1", *include, *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    objects = sorted(tmp_path.glob("*.o"))
    assert len(objects) == len(sources)
    listed = subprocess.run(["arm-none-eabi-nm", "-u", *objects], capture_output=True, text=True, check=True).stdout
    assert not HEAP.findall(listed)
    sizes = subprocess.run(["arm-none-eabi-size", "-t", *objects], capture_output=True, text=True, check=True).stdout
    assert int(sizes.splitlines()[-1].split()[0]) < 90_000, sizes
