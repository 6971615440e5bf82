"""Watches an accelerometer: 16-bit samples of 12 kHz from a file or stdin. Needs what run.py wrote.

python examples/vibration/watch.py samples.raw
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from run import BUILD, Network, bearing, results_here


def main(path: str) -> int:
    """Prints a line for each window, and the time that one takes."""
    network = Network(BUILD / "vibration" / "model.pte")
    threshold = int(json.loads((BUILD / "vibration" / "figures.json").read_text())["threshold"])
    source = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
    count, took = 0, 0.0
    while len(window := source.read(2 * bearing.WINDOW)) == 2 * bearing.WINDOW:
        start = time.perf_counter()
        score = int(results_here(network, np.frombuffer(window, np.int16)[None])["score"][0])
        took += time.perf_counter() - start
        print(f"{count * bearing.WINDOW / bearing.RATE:8.2f} s  {score:8}{'  anomaly' if score > threshold else ''}")
        count += 1
    print(f"{count} windows, {1e6 * took / max(count, 1):.0f} us each")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
