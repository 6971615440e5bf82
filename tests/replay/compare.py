"""Compares two records: each case that differs, its first stage that differs, and the lines there."""

from __future__ import annotations

import difflib
import gzip
import json
from pathlib import Path

_MOST_LINES = 12


def cases_of(record: Path) -> dict[str, list[list[str]]]:
    """Case -> its stages with their hashes, in order."""
    cases: dict[str, list[list[str]]] = json.loads((record / "index.json").read_text())
    return cases


def compare(base: Path, new: Path, lines: int = _MOST_LINES) -> list[str]:
    """A paragraph for each case that differs; none where the records are equal."""
    before, after = cases_of(base), cases_of(new)
    out: list[str] = []
    for case in sorted({*before, *after}):
        if case not in before or case not in after:
            out.append(f"{case}: only in {new if case in after else base}")
        elif before[case] != after[case]:
            out.append(f"{case}: {_summary(before[case], after[case])}")
            out[-1] += "".join(f"\n    {line}" for line in _diff(base, new, before[case], after[case], lines))
    return out


def _first(before: list[list[str]], after: list[list[str]]) -> int:
    """The position of the first stage that differs."""
    return next((i for i, (a, b) in enumerate(zip(before, after)) if a != b), min(len(before), len(after)))


def _summary(before: list[list[str]], after: list[list[str]]) -> str:
    at = _first(before, after)
    names = [stages[at][0] if at < len(stages) else "nothing" for stages in (before, after)]
    first = names[0] if names[0] == names[1] else f"{names[0]} became {names[1]}"
    ends = {name: dict(after).get(name) == dict(before).get(name) for name in ("final", "pte", "outputs")}
    return f"differs from {first}; " + ", ".join(
        f"{name} {'same' if same else 'differs'}" for name, same in ends.items()
    )


def _diff(base: Path, new: Path, before: list[list[str]], after: list[list[str]], most: int) -> list[str]:
    """The lines that differ in the first stage that differs; none where it is bytes."""
    at = _first(before, after)
    if at >= min(len(before), len(after)):
        return []
    old, text = _text(base, before[at][1]), _text(new, after[at][1])
    if old is None or text is None:
        return []
    found = difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm="", n=0)
    lines = [line[:200] for line in found if not line.startswith(("---", "+++", "@@"))]
    return lines[:most] + [f"and {len(lines) - most} more lines"] * (len(lines) > most)


def _text(folder: Path, digest: str) -> str | None:
    path = folder / "texts" / f"{digest}.gz"
    return gzip.decompress(path.read_bytes()).decode() if path.exists() else None
