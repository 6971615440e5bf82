"""The environment of Arm's tools: tosa-tools and ethos-u-vela pin numpy and flatbuffers, so they run as a subprocess.

It is, in this order: what the caller names, ``ET_TOSA_PYTHON``, this Python where it has the tools.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

#: Exit statuses of the workers: an option that the tool has not, another version of a tool than is known.
BAD_OPTION, BAD_VERSION = 3, 4
INSTALL = "python3 -m venv tosa && tosa/bin/pip install tosa-tools==2026.8.0 ethos-u-vela==5.2.0"


class ToolsMissing(RuntimeError):
    """No environment has the tools, or it has others; the message says how to make one."""


def tools_python(module: str, python: str | Path | None = None) -> Path:
    """A Python that has ``module`` ("tosa_reference_model", "ethosu").

    Raises:
        ToolsMissing: There is none.
    """
    named = python or os.environ.get("ET_TOSA_PYTHON")
    if named:
        if not Path(named).exists():
            raise ToolsMissing(f"{named} does not exist; make it with: {INSTALL}")
        return Path(named)
    if importlib.util.find_spec(module):
        return Path(sys.executable)
    raise ToolsMissing(
        f"{module} is not installed here. It is in the extra 'tosa', which wants an environment of its own: {INSTALL}; "
        "then name its Python: ET_TOSA_PYTHON=tosa/bin/python"
    )


def run_worker(python: Path, worker: str, arguments: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """Runs a script of this folder in the tools' environment.

    Raises:
        ToolsMissing: ``python`` has none of the tools, or another version; or it does not run.
    """
    command = [python, Path(__file__).with_name(worker), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError as error:
        raise ToolsMissing(f"{python} does not run ({error.strerror}); make it with: {INSTALL}") from None
    if done.returncode == BAD_VERSION:
        raise ToolsMissing(f"{python}: {done.stderr.strip()}; make its environment with: {INSTALL}")
    return done
