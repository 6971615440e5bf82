"""Words that are spoken: synthesised by espeak-ng and flite, and the recordings of Debian's alsa-utils.

The recordings (a woman says "front center", "rear left", …; /usr/share/sounds/alsa) are never trained on.
`tools/provision_system.py debian speech` installs all three.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import wave
from concurrent.futures import ThreadPoolExecutor
from math import gcd
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

RATE = 16_000
WORDS = ("front", "left", "right", "rear", "center", "side")
OTHER = len(WORDS)
#: Words that mean nothing to the application, some of them close to those that do.
OTHERS = (
    "yes", "no", "up", "down", "stop", "go", "on", "off", "house", "water", "music", "seven", "nine", "wonder", "light",
    "frost", "lift", "write down", "near", "enter", "wide", "hello", "red", "window", "paper", "green", "sorry",
    "dinner", "letter", "fear", "signal", "sight", "friend", "less", "riot",
)  # fmt: skip
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-us-nyc")
TRAINING_VOICES = (
    "m1", "m2", "m3", "m4", "m5", "m7", "m8", "f1", "f2", "f3", "f5", "Alex", "Alicia", "Andy", "Annie", "Lee", "Mario",
    "Michael", "adam", "anika", "aunty", "belinda", "benjamin", "boris", "david", "ed", "edward", "max", "pablo",
    "paul", "rob", "robert", "steph", "travis", "victor", "zac",
)  # fmt: skip
HELD_OUT_VOICES = ("m6", "f4", "Andrea", "linda", "Denis", "marcelo", "sandro", "miguel")
RECORDINGS = Path("/usr/share/sounds/alsa")


def missing() -> list[str]:
    """What is not installed."""
    tools = [tool for tool in ("espeak-ng", "flite") if shutil.which(tool) is None]
    return tools + ([] if RECORDINGS.is_dir() else ["alsa-utils"])


def read(path: Path) -> np.ndarray:
    """A file of 16-bit PCM, one channel, at 16 kHz: float64 [samples], 1 for full scale."""
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels()).mean(1)
        rate = file.getframerate()
    common = gcd(rate, RATE)
    return resample_poly(samples / 32768, RATE // common, rate // common)


def _trimmed(samples: np.ndarray) -> np.ndarray:
    """Without the silence at its ends."""
    loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
    return samples[loud[0] : loud[-1] + 1].astype(np.float32)


def _speak(command: list[str]) -> np.ndarray:
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run([*command, file.name], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return _trimmed(read(Path(file.name)))


def _espeak(random: np.random.Generator, word: str, voices: tuple[str, ...]) -> list[str]:
    voice = f"{random.choice(ACCENTS)}+{random.choice(voices)}"
    return ["espeak-ng", "-v", voice, "-s", str(random.integers(110, 210)), "-p", str(random.integers(20, 80)),
            word, "-w"]  # fmt: skip


def _flite(random: np.random.Generator, word: str, voices: tuple[str, ...]) -> list[str]:
    stretch = f"duration_stretch={random.uniform(0.8, 1.4):.2f}"
    return ["flite", "-voice", str(random.choice(voices)), "--setf", stretch, "-t", word, "-o"]


def utterances(seed: int, each: int, others: int, espeak: tuple[str, ...], flite: tuple[str, ...], share: float):
    """Words by the given voices, `each` times each, `others` of the rest; `share` of them by flite."""
    random = np.random.default_rng(seed)
    said = [w for w in range(len(WORDS)) for _ in range(each)] + [OTHER] * others
    texts = [WORDS[w] if w != OTHER else str(random.choice(OTHERS)) for w in said]
    commands = [(_flite(random, text, flite) if random.random() < share else _espeak(random, text, espeak))
                for text in texts]  # fmt: skip
    with ThreadPoolExecutor(4) as pool:
        return said, list(pool.map(_speak, commands))


def _noise(random: np.random.Generator) -> np.ndarray:
    """A second of noise between white and brown, with an edge of hum."""
    spectrum = random.normal(size=RATE // 2 + 1) + 1j * random.normal(size=RATE // 2 + 1)
    noise = np.fft.irfft(spectrum / np.maximum(np.arange(RATE // 2 + 1), 30) ** random.uniform(0, 1))
    return noise / noise.std() + random.uniform(0, 0.5) * np.sin(np.arange(RATE) * 2 * np.pi * 50 / RATE)


def _put(clip: np.ndarray, samples: np.ndarray, at: int) -> None:
    first, last = max(at, 0), min(at + len(samples), len(clip))
    if first < last:
        clip[first:last] += samples[first - at : last - at]


def clips(
    seed: int, said: list[int], spoken: list[np.ndarray], copies: int, quiet: int
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of a stream, int16 [clips, 16000], and their words: each utterance `copies` times, `quiet` without one.

    A word stands near the middle; another one's end or beginning may be at the edges. Loudness and noise vary.
    """
    random = np.random.default_rng(seed)
    made, words = [], []
    for index in [i for i in range(len(said)) for _ in range(copies)] + [-1] * quiet:
        clip = np.zeros(RATE)
        start, end = RATE // 2, RATE // 2
        if index >= 0:
            word = spoken[index] / np.abs(spoken[index]).max()
            start = int(random.uniform(0.4, 0.68) * RATE) - len(word) // 2
            end = start + len(word)
            _put(clip, word, start)
        for side in (0, 1):
            if random.random() < 0.4:
                other = spoken[random.integers(len(spoken))]
                gap = int(random.uniform(0.04, 0.2) * RATE) + (0 if index >= 0 else RATE // 4)
                level = random.uniform(0.5, 1.2) / np.abs(other).max()
                _put(clip, level * other, end + gap if side else start - gap - len(other))
        loudness = 10 ** random.uniform(-1.6, -0.1)
        ratio = 10 ** -random.uniform(0.4, 2.5)  # of noise to speech: -8 to -50 dB
        clip = loudness * (clip + 0.2 * ratio * _noise(random))
        made.append(np.clip(np.rint(clip * 32767), -32768, 32767).astype(np.int16))
        words.append(said[index] if index >= 0 else OTHER)
    return np.stack(made), np.array(words)


def make() -> dict[str, np.ndarray]:
    """All clips: to train on (kal and awb of flite among them), and two sets of voices that training does not hear."""
    train = clips(1, *utterances(1, 150, 500, TRAINING_VOICES, ("kal", "awb"), 0.2), copies=2, quiet=300)
    voices = clips(2, *utterances(2, 20, 60, HELD_OUT_VOICES, ("rms",), 0.0), copies=1, quiet=20)
    flite = clips(3, *utterances(3, 10, 30, HELD_OUT_VOICES, ("rms", "slt"), 1.0), copies=1, quiet=10)
    sets = {"train": train, "voices": voices, "flite": flite}
    return {f"{name}_{part}": value for name, pair in sets.items() for part, value in zip(("clips", "words"), pair)}


def recordings() -> tuple[np.ndarray, list[tuple[float, float, tuple[str, ...]]]]:
    """The recordings one after the other: int16 [samples], and of each one begin, end and words; noise has none."""
    stream, parts = [np.zeros(RATE // 2)], []
    for path in sorted(RECORDINGS.glob("*.wav")):
        samples = np.concatenate([read(path), np.zeros(RATE // 2)])
        begin = sum(map(len, stream)) / RATE
        words = tuple(word for word in path.stem.lower().split("_") if word in WORDS)
        parts.append((begin, begin + len(samples) / RATE, words))
        stream.append(samples)
    return np.clip(np.rint(np.concatenate(stream) * 32767), -32768, 32767).astype(np.int16), parts
