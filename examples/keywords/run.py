"""Keyword spotting on a microcontroller: six words in a stream of audio, from samples to words in whole numbers.

    python examples/keywords/run.py [--target cortex-m55]

Training hears synthesised speech only (speech.py). The test has voices of the synthesisers that training did not hear,
and Debian's recordings of a person. Trains, quantizes and writes firmware. Runs front end, network and decisions there,
and holds every integer against this machine's.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import speech
from application import (
    BUILD,
    UNIT,
    Network,
    Program,
    block,
    cached,
    keep,
    lower,
    on_linux,
    percent,
    say,
    seed,
    train,
)
from hearing import HOP, RATE, RESULT, Ear, windows
from speech import WORDS


def network() -> torch.nn.Module:
    """Depthwise separable convolutions over 49 frames and 20 bands: 9,000 weights."""
    first = [torch.nn.Conv2d(1, 24, (7, 5), stride=2, padding=(3, 2)), torch.nn.BatchNorm2d(24), torch.nn.ReLU()]
    ends = [torch.nn.AvgPool2d((13, 5)), torch.nn.Flatten(), torch.nn.Dropout(0.2), torch.nn.Linear(56, len(WORDS) + 1)]
    return torch.nn.Sequential(*first, *block(24, 40, 2), *block(40, 56), *block(56, 56), *ends)


def resampled(x: torch.Tensor, dim: int, at: torch.Tensor) -> torch.Tensor:
    """``x`` [n, 1, frames, bands] at places ``at`` [n, size] of a dimension, on the line between two neighbours."""
    shape = [len(x), 1, 1, 1]
    shape[dim] = x.shape[dim]
    at = at.clamp(0, x.shape[dim] - 1).reshape(shape).expand_as(x)
    low = at.floor().clamp(max=x.shape[dim] - 2)
    before, after = (x.gather(dim, place.long()) for place in (low, low + 1))
    return torch.lerp(before, after, at - low)


def varied(x: torch.Tensor) -> torch.Tensor:
    """The same speech at 0.75 to 1.35 of its speed, from other throats (bands moved by up to 1.5) and at other volumes,
    now and then with a band or a stretch of time masked.
    """
    speed, throat = 0.75 + 0.6 * torch.rand(len(x), 1), 3 * torch.rand(len(x), 1) - 1.5
    x = resampled(x, 2, (torch.arange(49) - 24) * speed + 24)
    x = resampled(x, 3, torch.arange(20) + throat)
    x = x + torch.randint(-12, 13, (len(x), 1, 1, 1)) * UNIT
    frame, band = int(torch.randint(-20, 45, ())), int(torch.randint(-10, 19, ()))
    x[:, :, max(frame, 0) : max(frame + 4, 0)] = -2.0
    x[:, :, :, max(band, 0) : max(band + 2, 0)] = -2.0
    return x.clamp(-4, 4)


def make(epochs: int = 60) -> tuple[Network, dict[str, np.ndarray]]:
    """Trains and lowers; the network with all clips."""
    if lacking := speech.missing():
        sys.exit(f"keywords: {', '.join(lacking)} is not installed (make applications-setup installs it)")
    seed()
    data = cached("keywords-1", speech.make)
    inputs = windows(data["train_clips"])
    x = torch.from_numpy(inputs[:, None].astype(np.float32)) * UNIT
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.05)
    model = train(network(), x, torch.from_numpy(data["train_words"]), loss, epochs, rate=6e-3, augment=varied)
    return lower("keywords", model, inputs[:: len(inputs) // 200], (1, 1, 49, 20)), data


def heard(results: np.ndarray) -> list[tuple[float, str]]:
    """Seconds and words."""
    return [((i + 1) * HOP / RATE, WORDS[r["word"]]) for i, r in enumerate(results) if r["word"] >= 0]


def found(results: np.ndarray, parts: list[tuple[float, float, tuple[str, ...]]]) -> str:
    """How many words of each recording were heard in their order, and how many that nobody said."""
    right, false, spoken = 0, 0, 0
    for begin, end, words in parts:
        spoken += len(words)
        left = list(words)
        for _, word in [event for event in heard(results) if begin <= event[0] - 0.1 < end]:
            if word in left:
                left = left[left.index(word) + 1 :]
                right += 1
            else:
                false += 1
    voice = np.mean([results["voice"][int(b * 50) : int(e * 50)].max() > 0 for b, e, words in parts if words])
    return f"{right} of {spoken} spoken words found, {false} false; voice in {percent(voice)} of the spoken files"


def heard_on_linux(hops: np.ndarray, results: np.ndarray) -> dict[str, Any]:
    """The Linux programs on the same stream: whether they hear the words of `results`, and what they say last."""
    path = BUILD / "keywords" / "stream.raw"
    path.write_bytes(hops.tobytes())
    wanted = [(round(t, 2), word) for t, word in heard(results)]
    programs: dict[str, list[object]] = {"Python": [sys.executable, HERE / "listen.py"]}
    if program := Program.build("keywords", "host", [HERE / "linux.cpp", HERE / "ear.cpp"]):
        programs[f"C++, static, {program.path.stat().st_size:,} bytes"] = [program.path]

    def equal(lines: list[str]) -> bool:
        words = [line.split() for line in lines if "voice" not in line]
        return [(float(one[0]), one[2]) for one in words] == wanted

    commands = {name: ["sh", "-c", f"exec {shlex.join(map(str, one))} - < {path}"] for name, one in programs.items()}
    return on_linux("words and their times", commands, equal)


def main(arguments: list[str] | None = None) -> int:
    """Everything; 0 when the target's integers are this machine's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", help="of etpy firmware; may be repeated (default: cortex-m55)")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--clips", type=int, default=60, help="test clips that the target runs")
    options = parser.parse_args(arguments)

    network, data = make(options.epochs)
    figures: dict[str, Any] = {"targets": {}}
    for name, what in (("voices", "voices of espeak-ng that training did not hear"), ("flite", "flite's rms and slt")):
        scores, words = network(windows(data[f"{name}_clips"])), data[f"{name}_words"]
        figures[name] = (scores.argmax(1) == words).mean()
        say(f"int8, this machine, {len(words)} clips of {what}: {percent(figures[name])} right")
    stream, parts = speech.recordings()
    hops = stream[: len(stream) // HOP * HOP].reshape(-1, HOP)
    heard_here = np.array(list(Ear(network).hear(hops)))
    figures["recordings"] = found(heard_here, parts)
    say(f"int8, this machine, {len(stream) / RATE:.0f} s of recordings of a person: {figures['recordings']}")

    chosen = np.random.default_rng(0).permutation(len(data["voices_words"]))[: options.clips]
    clips, words = data["voices_clips"][chosen], data["voices_words"][chosen]
    clips_here = np.array(list(Ear(network, 50).hear(clips.reshape(-1, HOP))))
    for target in options.target or ["cortex-m55"]:
        program = Program.build("keywords", target, [HERE / "main.cpp", HERE / "ear.cpp"])
        if program is None:
            continue
        there, said = [], []
        for period, samples in ((50, clips), (5, hops)):
            written, text = program.run(np.int16(period).tobytes() + samples.tobytes())
            there.append(np.frombuffer(written, RESULT))
            said.append(text)
        equal = np.array_equal(there[0], clips_here) and np.array_equal(there[1], heard_here)
        figures["targets"][target] = {"equal": equal, "said": said}
        right = (there[0]["scores"][49::50].argmax(1) == words).mean()
        say(f"int8, {program}: levels, voice, scores and words {'equal bit for bit' if equal else 'DIFFER'}\n"
            f"  {len(words)} clips: {percent(right)} right; {said[0]}\n"
            f"  recordings: {found(there[1], parts)}; {said[1]}\n{program.report}")  # fmt: skip
    figures["linux"] = heard_on_linux(hops, heard_here)
    keep("keywords", figures)
    parts = [*figures["targets"].values(), *figures["linux"].values()]
    return 0 if all(one["equal"] for one in parts) else 1


if __name__ == "__main__":
    sys.exit(main())
