"""How far two outputs are apart, as numbers. numpy only; torch tensors are read when torch is there.

Example:
    >>> import numpy as np
    >>> result = compare(np.array([1.0, 2.0]), np.array([1.0, 2.5]), Tolerance(relative_to_max=0.1))
    >>> result.max_error, result.passed
    (0.5, False)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Comparison", "Tolerance", "compare", "to_numpy"]

# Largest accepted max|actual - expected| / max|expected| by dtype of the expected values; integers must be equal.
_DEFAULTS = {"torch.float64": 1e-4, "torch.float32": 1e-4, "torch.float16": 1e-2, "torch.bfloat16": 4e-2}


@dataclass(frozen=True)
class Tolerance:
    """What still passes.

    Attributes:
        relative_to_max: Largest ``max|actual - expected| / max|expected|``; ``None``: by dtype, 1e-4 for float32, 0 for
            integers.
        absolute: Error that always passes, for outputs near zero.
        min_sqnr_db: Smallest signal-to-noise ratio in dB, which alone decides when it is given: for quantised models.
    """

    relative_to_max: float | None = None
    absolute: float = 0.0
    min_sqnr_db: float | None = None


@dataclass(frozen=True)
class Comparison:
    """How one output compares with what was expected.

    Attributes:
        max_error: Largest absolute error.
        mean_error: Mean absolute error.
        relative_error: ``max_error`` divided by the largest absolute expected value.
        sqnr_db: Signal to quantisation noise ratio, ``10 log10(sum expected^2 / sum error^2)``; infinite when equal.
        cosine: Cosine of the angle between both, taken as vectors.
        passed: Whether the tolerance holds.
        note: Why it does not, when the numbers do not say it (another shape, NaN at other places).
    """

    max_error: float
    mean_error: float
    relative_error: float
    sqnr_db: float
    cosine: float
    passed: bool
    note: str = ""


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A tensor, array or number as an array; bfloat16 becomes float32, which holds every value of it."""
    if hasattr(value, "detach"):  # torch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return np.asarray(value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _dtype_name(value: Any) -> str:
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    return f"torch.{str(dtype).removeprefix('torch.')}"


def _failed(note: str) -> Comparison:
    return Comparison(math.inf, math.inf, math.inf, -math.inf, 0.0, False, note)


def compare(actual: Any, expected: Any, tolerance: Tolerance | None = None) -> Comparison:
    """Compares one output with what was expected.

    NaN and infinities must stand at the same places. None, bool, int and str are equal or not.

    Args:
        actual: Tensor, array, number, string or None.
        expected: The same kind of value.
        tolerance: What passes; the default depends on the dtype of ``expected``.
    """
    tolerance = tolerance or Tolerance()
    if actual is None or expected is None or isinstance(expected, (str, bool)):
        same = actual is None and expected is None if actual is None or expected is None else actual == expected
        return Comparison(0.0, 0.0, 0.0, math.inf, 1.0, True) if same else _failed(f"{actual!r}, expected {expected!r}")
    ours, theirs = to_numpy(actual), to_numpy(expected)
    if ours.shape != theirs.shape:
        return _failed(f"shape {ours.shape}, expected {theirs.shape}")
    if _dtype_name(actual) != _dtype_name(expected) and hasattr(actual, "dtype") and hasattr(expected, "dtype"):
        return _failed(f"dtype {_dtype_name(actual)}, expected {_dtype_name(expected)}")
    return _compare_arrays(ours, theirs, _limit(expected, tolerance), tolerance)


def _limit(expected: Any, tolerance: Tolerance) -> float:
    if tolerance.relative_to_max is not None:
        return tolerance.relative_to_max
    return 1e-4 if isinstance(expected, float) else _DEFAULTS.get(_dtype_name(expected), 0.0)


def _compare_arrays(
    ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], limit: float, tolerance: Tolerance
) -> Comparison:
    if theirs.dtype.kind in "iub" and ours.dtype.kind in "iub":
        equal = bool(np.array_equal(ours, theirs))
        if equal:
            return Comparison(0.0, 0.0, 0.0, math.inf, 1.0, True)
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(
        np.where(finite, 0.0, ours), np.where(finite, 0.0, theirs), equal_nan=True
    ) or not np.array_equal(np.isfinite(ours), finite):
        return _failed("NaN or infinity at other places")
    ours, theirs = ours[finite], theirs[finite]
    if theirs.size == 0:
        return Comparison(0.0, 0.0, 0.0, math.inf, 1.0, True)
    error = np.abs(ours - theirs)
    max_error = float(error.max())
    largest = float(np.abs(theirs).max())
    relative = max_error / largest if largest > 0 else (0.0 if max_error == 0 else math.inf)
    noise, signal = float(np.square(error).sum()), float(np.square(theirs).sum())
    sqnr = math.inf if noise == 0 else (-math.inf if signal == 0 else 10 * math.log10(signal / noise))
    norms = math.sqrt(signal) * float(np.linalg.norm(ours))
    cosine = float(np.dot(ours.ravel(), theirs.ravel())) / norms if norms > 0 else float(max_error == 0)
    if tolerance.min_sqnr_db is not None:
        passed = sqnr >= tolerance.min_sqnr_db
    else:
        passed = max_error <= tolerance.absolute or relative <= limit
    return Comparison(max_error, float(error.mean()), relative, sqnr, cosine, passed)
