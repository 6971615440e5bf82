"""Listens: a sound file, or a microphone's stream on stdin. Needs what run.py wrote.

python examples/keywords/listen.py sound.wav
arecord -q -f S16_LE -r 16000 -t raw | python examples/keywords/listen.py -
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hearing import BUILD, HOP, RATE, Ear, Network
from speech import WORDS, read


def hops(path: str) -> Iterator[np.ndarray]:
    """20 ms at a time."""
    if path == "-":
        source = sys.stdin.buffer
    else:
        source = io.BytesIO(np.clip(np.rint(read(Path(path)) * 32767), -32768, 32767).astype("<i2").tobytes())
    while len(hop := source.read(2 * HOP)) == 2 * HOP:
        yield np.frombuffer(hop, "<i2")


def main(path: str) -> int:
    """Prints when voice begins and ends and which words it hears, then how long a second of sound took."""
    ear = Ear(Network(BUILD / "keywords" / "model.pte"))
    voiced, now, took = 0, 0.0, 0.0
    for hop in hops(path):
        start = time.perf_counter()
        (result,) = ear.hear(hop[None])
        took += time.perf_counter() - start
        now += HOP / RATE
        if result["voice"] != voiced:
            print(f"{now:7.2f} s  voice {'begins' if result['voice'] else 'ends'}")
            voiced = result["voice"]
        if result["word"] >= 0:
            print(f"{now:7.2f} s  {WORDS[result['word']]}", flush=True)
    print(f"{now:.1f} s of sound, {1e3 * took / max(now, HOP / RATE):.2f} ms for each second")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
