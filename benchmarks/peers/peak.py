"""What share of the machine's peak a time is: multiply-accumulates of a model over those that registers can do in that
time.

>>> peak = Peak(Path("build/bench"))  # doctest: +SKIP
>>> peak.rate("fp32", threads=1)  # multiply-accumulates a second, measured now  # doctest: +SKIP
5.8e+10
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from pathlib import Path

import torch

from executorch_py.graphs.macs import count_macs

_SOURCE = Path(__file__).with_name("peak.c")
_FLAGS = {
    None: ["-march=native"],
    "sse4.1": ["-msse4.1"],
    "avx2": ["-mavx2", "-mfma"],
    "avxvnni": ["-mavx2", "-mfma", "-mavxvnni"],
    "avx512": ["-march=native", "-mno-amx-int8"],
    "amx": ["-march=native"],
}
_SECONDS = 0.03  # of each kind of number


class Peak:
    """Builds peak.c for this processor, and runs it.

    Args:
        folder: Where the program goes.
        isa: The highest instruction set; None: all of this processor.
    """

    def __init__(self, folder: Path, isa: str | None = None) -> None:
        self._program = folder / "peak"
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise RuntimeError("no C compiler to build benchmarks/peers/peak.c with")
        subprocess.run([compiler, "-O3", *_FLAGS[isa], "-pthread", str(_SOURCE), "-o", str(self._program)], check=True)

    def rate(self, precision: str, threads: int) -> float:
        """Multiply-accumulates a second of all threads together, measured now; NaN where the processor has none of the
        kind.
        """
        command = [str(self._program), str(_SECONDS), str(threads)]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return answer["fp32" if precision == "fp32" else "int8"] or math.nan


def macs_of(name: str, folder: Path) -> int:
    """Multiply-accumulates of one call of a model that was exported to the folder."""
    known = folder / f"{name}.macs"
    if not known.exists():
        program = torch.export.load(folder / f"{name}.pt2")
        inputs = torch.load(folder / f"{name}.inputs.pt")
        known.write_text(str(count_macs(program, tuple(inputs)).total))
    return int(known.read_text())
