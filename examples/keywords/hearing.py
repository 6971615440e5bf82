"""ear.h in Python: the device's own front end, voice activity and decisions, through ctypes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from application import BUILD, Network, front_end
from speech import WORDS

__all__ = ["BUILD", "HOP", "RATE", "RESULT", "Ear", "Network", "windows"]

RATE, HOP, FRAMES, BANDS = 16_000, 320, 49, 20
#: As main.cpp writes a hop.
RESULT = np.dtype(
    [("levels", np.int8, BANDS), ("voice", np.int8), ("word", np.int8), ("scores", np.int8, len(WORDS) + 1)]
)


def _library() -> ctypes.CDLL:
    library = front_end("keywords", [HERE / "ear.cpp"])
    library.ear_listen.restype = ctypes.c_bool
    library.ear_size.restype = ctypes.c_size_t
    return library


def _at(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def windows(clips: np.ndarray) -> np.ndarray:
    """The network's input for clips of a second: int16 [clips, 16000] to int8 [clips, 49, 20]."""
    clips = np.ascontiguousarray(clips, np.int16)
    result = np.empty((len(clips), FRAMES, BANDS), np.int8)
    _library().ear_windows(_at(clips), ctypes.c_size_t(len(clips)), _at(result))
    return result


@dataclass
class Ear:
    """Listens to a stream."""

    network: Network
    period: int = 5  # hops between two runs of the network

    def __post_init__(self) -> None:
        """Starts with silence."""
        self._library = _library()
        self._ear = ctypes.create_string_buffer(self._library.ear_size())
        self._library.ear_reset(self._ear)
        self._hops = 0

    def hear(self, hops: np.ndarray) -> Iterator[np.void]:
        """What main.cpp computes of each hop: int16 [hops, 320] to records of RESULT."""
        window = np.empty((FRAMES, BANDS), np.int8)
        for hop in np.ascontiguousarray(hops, np.int16):
            result = np.zeros((), RESULT)
            result["voice"] = self._library.ear_listen(self._ear, _at(hop))
            self._library.ear_window(self._ear, _at(window))
            result["levels"] = window[-1]
            result["word"] = -1
            self._hops += 1
            if self._hops % self.period == 0:
                scores = np.ascontiguousarray(self.network(window[None])[0])
                result["word"] = self._library.ear_decide(self._ear, _at(scores))
                result["scores"] = scores
            yield result[()]
