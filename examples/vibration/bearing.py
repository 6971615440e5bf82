"""Vibration of a bearing with planted faults, synthesised: no recording.

A shaft turns at 25 to 35 Hz under a changing load. Rolling elements that pass a fault strike the housing, which rings;
how often follows from the geometry (9 balls, pitch 39 mm, ball 7.9 mm).
"""

from __future__ import annotations

import numpy as np

RATE = 12_000
WINDOW = 4096
#: Strikes for each turn of the shaft.
FAULTS = {"outer race": 3.59, "inner race": 5.41, "ball": 4.71, "looseness": 1.0}


def _ringing(times: np.ndarray, strikes: np.ndarray, strengths: np.ndarray, frequency: float) -> np.ndarray:
    """Decaying oscillations that begin at the strikes."""
    since = times[None] - strikes[:, None]
    rings = np.where(since >= 0, np.exp(-np.clip(since, 0, 1) * 900) * np.sin(2 * np.pi * frequency * since), 0)
    return (strengths[:, None] * rings).sum(0)


def window(random: np.random.Generator, fault: str | None) -> np.ndarray:
    """One window as an accelerometer of 16 bits gives it, 1 g = 2048: int16 [WINDOW]."""
    times = np.arange(WINDOW) / RATE
    speed, load = random.uniform(25, 35), random.uniform(0.6, 1.4)
    signal = sum(
        load * level * np.sin(2 * np.pi * speed * order * times + random.uniform(0, 6.3))
        for order, level in ((1, 0.08), (2, 0.04), (3, 0.02), (21, 0.05), (42, 0.02))  # shaft and gear mesh
    )
    noise = random.normal(0, 0.06 * load, WINDOW)
    signal = signal + noise + 0.5 * np.convolve(noise, np.hanning(9), "same")  # the housing damps high tones
    if fault is not None:
        period = 1 / (FAULTS[fault] * speed)
        strikes = np.arange(random.uniform(-period, 0), WINDOW / RATE, period)
        strikes += random.normal(0, 0.01 * period, len(strikes))  # balls slip
        strengths = np.full(len(strikes), random.uniform(0.06, 0.5) * load)
        if fault == "inner race":  # it turns through the loaded zone
            strengths *= 0.5 + 0.5 * np.cos(2 * np.pi * speed * strikes)
        if fault == "looseness":  # knocks of the housing itself
            strengths *= random.uniform(1.0, 4.0, len(strikes))
        tone = {"looseness": 900.0}.get(fault, 3300.0) * random.uniform(0.95, 1.05)
        signal = signal + _ringing(times, strikes, strengths, tone)
    return np.clip(np.rint(signal * 2048), -32768, 32767).astype(np.int16)


def windows(seed: int, count: int, fault: str | None = None) -> np.ndarray:
    """Windows of a seed: int16 [count, WINDOW]."""
    random = np.random.default_rng(seed)
    return np.stack([window(random, fault) for _ in range(count)])
