"""Patches of ten real photographs, which scikit-learn and scikit-image carry.

A patch's class is the photograph that it is from. Training has patches of the left 65 % of each photograph, the test
has those of the right 30 %: no pixel is in both. A network that was trained on ImageNet cannot be had here.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 48
NAMES = ("china", "flower", "astronaut", "chelsea", "coffee", "rocket", "motorcycle", "retina", "ihc", "hubble")
_FILES = {name: f"skimage/data/{file}" for name, file in (
    ("astronaut", "astronaut.png"), ("chelsea", "chelsea.png"), ("coffee", "coffee.png"), ("rocket", "rocket.jpg"),
    ("motorcycle", "motorcycle_left.png"), ("retina", "retina.jpg"), ("ihc", "ihc.png"),
    ("hubble", "hubble_deep_field.jpg"),
)} | {name: f"sklearn/datasets/images/{name}.jpg" for name in ("china", "flower")}  # fmt: skip


def photograph(name: str) -> np.ndarray:
    """Half as wide and high as it ships: uint8 [height, width, 3]."""
    package, file = _FILES[name].split("/", 1)
    spec = importlib.util.find_spec(package)  # not imported: only its files are read
    if spec is None or spec.origin is None:
        sys.exit(f"photographs: the Python package {package} is not installed (make applications-setup installs it)")
    with Image.open(Path(spec.origin).parent / file) as image:
        image = image.convert("RGB")
        return np.asarray(image.resize((image.width // 2, image.height // 2), Image.Resampling.BOX))


def parts(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The left 65 % and the right 30 %."""
    pixels = photograph(name)
    width = pixels.shape[1]
    return pixels[:, : int(0.65 * width)], pixels[:, width - int(0.3 * width) :]


def patches(test: bool, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` patches of each photograph as the network takes them: int8 [patches, 3, 48, 48]; and their classes."""
    random = np.random.default_rng(seed)
    made = []
    for name in NAMES:
        pixels = parts(name)[int(test)]
        for _ in range(count):
            top, left = (int(random.integers(0, size - SIDE + 1)) for size in pixels.shape[:2])
            made.append(values(pixels[top : top + SIDE, left : left + SIDE]))
    return np.stack(made), np.repeat(np.arange(len(NAMES)), count)


def values(patch: np.ndarray) -> np.ndarray:
    """uint8 [48, 48, 3] to int8 [3, 48, 48]."""
    return (patch.astype(np.int16) - 128).astype(np.int8).transpose(2, 0, 1)


def grid(pixels: np.ndarray) -> np.ndarray:
    """The patches that cover a picture side by side: int8 [patches, 3, 48, 48]."""
    height, width = pixels.shape[:2]
    if height < SIDE or width < SIDE:
        raise ValueError(f"the picture has {width} x {height} pixels, must have {SIDE} x {SIDE} at least")
    corners = [(y, x) for y in range(0, height - SIDE + 1, SIDE) for x in range(0, width - SIDE + 1, SIDE)]
    return np.stack([values(pixels[y : y + SIDE, x : x + SIDE]) for y, x in corners])
