"""Runs the steps of the tutorials, in one environment or the other.

    python tutorial_steps.py executorch          # in the environment of the published package
    python tutorial_steps.py executorch_py       # in ours
    python tutorial_steps.py executorch_py NAME … # some steps only

Prints a line a step, "ok NAME" or "FAIL NAME: what was raised".
"""

from __future__ import annotations

import sys
import warnings

import torch
from steps import STEPS, shared


def main(root: str, names: list[str]) -> None:
    """Runs the steps that are named, or all."""
    warnings.filterwarnings("ignore")
    shared.root = root
    for name in names or STEPS:
        try:
            torch.manual_seed(0)
            STEPS[name]()
            print(f"ok {name}", flush=True)
        except Exception as error:
            print(
                f"FAIL {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True
            )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
