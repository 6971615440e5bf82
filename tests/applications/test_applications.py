"""Applications of examples/: each command ends with equal integers on every side and with the accuracy it tells."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import shutil
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_py.firmware import TARGETS
from executorch_py.firmware.build import missing_tools

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BUILD = EXAMPLES.parent / "build" / "examples"


def need(*targets: str) -> None:
    """Skips where a target's tools are not there."""
    missing = sorted({tool for target in targets for tool in missing_tools(TARGETS[target])})
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")


def need_speech() -> None:
    if not (shutil.which("espeak-ng") and shutil.which("flite") and Path("/usr/share/sounds/alsa").is_dir()):
        pytest.skip("espeak-ng, flite or alsa-utils is not installed (make applications-setup installs them)")


def run(name: str, *arguments: str) -> dict[str, Any]:
    """Runs an application's command; its figures, with every comparison equal."""
    command = [sys.executable, str(EXAMPLES / name / "run.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    figures = json.loads((BUILD / name / "figures.json").read_text())
    sides = [*figures.get("targets", {}).values(), *figures.get("linux", {}).values()]
    assert all(side["equal"] for side in sides), figures
    return figures


@pytest.mark.mcu
@pytest.mark.timeout(1800)
def test_vibration() -> None:
    need("cortex-m4", "host")
    figures = run("vibration", "--target", "cortex-m4")
    assert set(figures["targets"]) == {"cortex-m4"} and len(figures["linux"]) == 2
    for fault, least in (("outer race", 0.95), ("inner race", 0.92), ("ball", 0.95), ("looseness", 0.75)):
        assert figures[f"auc {fault}"] >= least, figures


@pytest.mark.mcu
@pytest.mark.timeout(1800)
def test_digits() -> None:
    need("cortex-m3", "cortex-m55")
    figures = run("digits", "--target", "cortex-m3", "--target", "cortex-m55")
    assert figures["right"] >= 0.96 and set(figures["targets"]) == {"cortex-m3", "cortex-m55"}, figures


@pytest.mark.mcu
@pytest.mark.timeout(1800)
def test_keywords() -> None:
    need("cortex-m55", "host")
    need_speech()
    figures = run("keywords")
    assert figures["voices"] >= 0.88 and figures["flite"] >= 0.75, figures
    found, spoken, false = (int(word) for word in figures["recordings"].split() if word.isdigit())
    assert (spoken, found >= 8, false <= 1) == (16, True, True), figures["recordings"]


@pytest.mark.timeout(1800)
def test_photographs() -> None:
    need("host")
    if importlib.util.find_spec("skimage") is None:
        pytest.skip("scikit-image is not installed (make applications-setup installs it)")
    figures = run("photographs")
    # 83.5 % of 400; four trainings on 2,000 to 8,000 patches gave 82.0 to 86.0.
    assert figures["right"] >= 0.8 and figures["pictures right"] >= 9, figures
    assert figures["bytes"] < 5_000_000


@pytest.fixture(scope="module")
def front_end(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """spectrum.cpp and the keywords' ear, warnings as errors."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    path = tmp_path_factory.mktemp("front_end") / "ear.so"
    shared = EXAMPLES / "application"
    sources = [shared / "spectrum.cpp", EXAMPLES / "keywords" / "ear.cpp"]
    flags = "-std=c++17 -O2 -shared -fPIC -Wall -Wextra -Werror -fsanitize=undefined -fno-sanitize-recover=all"
    subprocess.run(["g++", *flags.split(), f"-I{shared}", "-o", path, *sources], check=True)
    library = ctypes.CDLL(str(path))
    library.ear_size.restype = ctypes.c_size_t
    return library


def windows(library: ctypes.CDLL, clips: np.ndarray) -> np.ndarray:
    result = np.empty((len(clips), 49, 20), np.int8)
    library.ear_windows(
        ctypes.c_void_p(clips.ctypes.data), ctypes.c_size_t(len(clips)), ctypes.c_void_p(result.ctypes.data)
    )
    return result


def expected(clip: np.ndarray) -> np.ndarray:
    """The same levels by numpy's floats."""
    edges = [6, 12, 18, 25, 34, 43, 53, 64, 77, 91, 107, 124, 144, 166, 190, 217, 247, 281, 319, 361, 408, 461]
    bins = np.arange(513)
    rows = []
    for hop in range(1, 50):
        frame = clip[hop * 320 - 160 : hop * 320 + 320] * np.sin(np.pi * np.arange(480) / 480) ** 2
        power = np.abs(np.fft.rfft(frame, 1024)) ** 2 / 64
        bands = [np.interp(bins, edges[b : b + 3], [0, 1, 0]) @ power for b in range(20)]
        rows.append(np.clip(4 * np.log2(np.maximum(bands, 1)) - 128, -128, 127))
    return np.array(rows)


@pytest.mark.parametrize("level", [3, 300, 3000, 32767])
def test_levels_are_those_of_floats(front_end: ctypes.CDLL, level: int) -> None:
    """Within a step, but where rounding is heard: faint ones, and those 54 dB below the frame's loudest."""
    random = np.random.default_rng(level)
    times = np.arange(16000) / 16000
    tone = np.sin(2 * np.pi * (300 + 1500 * times) * times)
    noise = random.uniform(-1, 1, 16000)
    for signal in (tone, noise, np.sign(tone), 0.5 * tone + 0.5 * noise):
        clip = np.rint(level * signal).astype(np.int16)
        got, wanted = windows(front_end, clip[None])[0], expected(clip.astype(float))
        loud = (wanted > -64) & (wanted > wanted.max(1, keepdims=True) - 72)
        assert loud.any() or level == 3
        assert np.abs(got - wanted)[loud].max(initial=0) <= 1.0


def test_extremes_do_not_overflow(front_end: ctypes.CDLL) -> None:
    """The sanitizer ends the process if they do."""
    square = np.where(np.arange(16000) // 16 % 2, 32767, -32768)
    clips = [np.full(16000, 32767), np.full(16000, -32768), np.zeros(16000), square]
    levels = windows(front_end, np.array(clips, np.int16))
    assert (levels[2] == -128).all() and levels[3].max() > 25


def sound(path: Path, rate: int = 16000, channels: int = 1, width: int = 2, frames: int = 16000) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(bytes(channels * width * frames))
    return path


@pytest.mark.mcu
def test_the_sound_program_says_what_it_cannot_read(tmp_path: Path) -> None:
    need("host")
    program = BUILD / "keywords" / "host" / "build" / "application"
    if not program.exists():
        pytest.skip("examples/keywords was not run")
    (tmp_path / "text.wav").write_text("no sound at all")
    whole = sound(tmp_path / "whole.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:30])
    refused = {
        tmp_path / "missing.wav": "cannot open",
        tmp_path / "text.wav": "is no .wav file",
        tmp_path / "cut.wav": "ends before its samples",
        sound(tmp_path / "rate.wav", rate=44100): "1 channels of 16 bits at 44100 Hz",
        sound(tmp_path / "stereo.wav", channels=2): "2 channels",
        sound(tmp_path / "bytes.wav", width=1): "8 bits",
    }
    for path, words in refused.items():
        done = subprocess.run([program, path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and words in done.stderr, (path.name, done)
    for path in (sound(tmp_path / "high.wav", rate=48000, frames=48000), tmp_path / "whole.wav"):
        done = subprocess.run([program, path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.startswith("1.0 s of sound"), done
