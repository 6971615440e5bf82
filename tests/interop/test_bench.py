"""``etpy bench`` in the environment of the published package: it runs the same file, beside ours."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

import executorch_py as et
from tests.devtools.models import two_blocks

ROOT = Path(__file__).resolve().parents[2]
PEER = Path(os.environ.get("ET_PEER_PYTHON", ROOT / ".venv-interop/bin/python"))


@pytest.mark.interop
def test_the_published_package_beside_ours(tmp_path):
    if not PEER.exists():
        pytest.skip("no environment with executorch==1.5.1 (make interop sets one up)")
    model, inputs = two_blocks()
    et.to_edge_transform_and_lower(torch.export.export(model, inputs)).to_executorch().save(tmp_path / "model.pte")
    package = Path(et._core.__file__).parent.parent  # where the extension lies, for the other interpreter
    command = [PEER, "-m", "executorch_py.cli", "bench", tmp_path / "model.pte", "--runs", "5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["engine"] for row in rows] == ["executorch_py", "executorch"]
    assert all(row["p50_ms"] > 0 and row["runs"] == 5 for row in rows)
