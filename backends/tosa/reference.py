"""Runs a TOSA payload with Arm's reference model.

For tests and for checking what a payload means. The runtime has an interpreter of its own, which gives the same
integers.

>>> outputs = run(payload, [np.zeros((1, 8), np.int8)])  # doctest: +SKIP
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .environment import run_worker, tools_python


class ReferenceError(RuntimeError):
    """The reference model refuses a payload or its inputs; the message is the model's."""


def run(payload: bytes, inputs: Sequence[np.ndarray], python: str | Path | None = None) -> list[np.ndarray]:
    """The outputs of ``payload`` for ``inputs``, as the reference model at level 8K computes them.

    Args:
        payload: A TOSA 1.0 FlatBuffer, as a delegate of this backend has it.
        inputs: In the payload's order.
        python: A Python that has tosa-tools; see ``environment.tools_python``.

    Raises:
        ToolsMissing: There is no environment with the reference model.
        ReferenceError: The model refuses the payload, or finds its outputs unpredictable.
    """
    interpreter = tools_python("tosa_reference_model", python)
    with tempfile.TemporaryDirectory() as folder:
        graph, given, made = (Path(folder) / name for name in ("graph.tosa", "in.npz", "out.npz"))
        graph.write_bytes(payload)
        np.savez(given, *inputs)
        done = run_worker(interpreter, "reference_worker.py", [graph, given, made])
        if done.returncode != 0:
            raise ReferenceError(f"the TOSA reference model refuses the payload:\n{done.stderr.strip()[-2000:]}")
        with np.load(made) as arrays:
            return [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
