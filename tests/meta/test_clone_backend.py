"""The commands of backends/README.md that clone the example backend leave nothing of the old name behind.

That such a clone builds and runs follows: the example builds and runs, and it is the same under another name.
"""

import re
import shutil
import subprocess

from repository import ROOT


def test_the_clone_names_nothing_of_the_example(tmp_path):
    page = (ROOT / "backends/README.md").read_text()
    (commands,) = re.findall(r"((?: {7}\S.*\n)+)", page)
    assert commands.count("npu") >= 3
    shutil.copytree(ROOT / "backends/example", tmp_path / "backends/example")
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True)
    clone = tmp_path / "backends/npu"
    names = {path.relative_to(clone) for path in clone.rglob("*") if path.suffix != ".pyc"}
    assert {path.relative_to(ROOT / "backends/example") for path in (ROOT / "backends/example").rglob("*.h")} <= names
    left = [path for path in clone.rglob("*.*") if path.is_file() and b"example" in path.read_bytes().lower()]
    assert [path for path in left if path.suffix != ".pyc"] == []
    assert "et_add_backend(NAME npu" in (clone / "CMakeLists.txt").read_text()
    for path in clone.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
