"""Of which photograph is a picture? The sum of the scores of its patches decides. Needs what run.py wrote.

python examples/photographs/classify.py picture.png
"""

from __future__ import annotations

import sys
import time

import numpy as np
from PIL import Image
from run import BUILD, NAMES, Network, photographs


def main(path: str) -> int:
    """Prints the photographs with their scores, the likeliest first, and the time that a patch takes."""
    network = Network(BUILD / "photographs" / "linux.pte")
    with Image.open(path) as image:
        patches = photographs.grid(np.asarray(image.convert("RGB")))
    start = time.perf_counter()
    sums = network(patches).astype(int).sum(0)
    took = 1e6 * (time.perf_counter() - start) / len(patches)
    for number in np.argsort(-sums):
        print(f"{NAMES[number]:<12}{sums[number]:8}")
    print(f"{len(patches)} patches, {took:.0f} us each")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
