"""What a run came to: a summary for the terminal, a table in Markdown, everything in JSON.

``results.json`` keeps the last outcome of every case, so that a run of a few cases (``--only``, ``--failed``) brings
the table up to date instead of replacing it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from .case import FINE, Outcome, Status
from .exceptions import EXPECTED, expected_failure
from .samples import OPERATOR_SAMPLES

#: So many of the operator database's first float32 samples are exported by torch, and this part of them must be right.
REACH, RIGHT = 664, 0.99


class Results:
    """Outcomes by case."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cases: dict[str, Outcome] = {}

    def load(self) -> None:
        """Reads what earlier runs left, if there is anything."""
        if self.path.is_file():
            for entry in json.loads(self.path.read_text(encoding="utf-8")):
                outcome = Outcome(entry["key"], Status(entry["status"]), entry["detail"], entry["seconds"])
                self.cases[outcome.key] = outcome

    def save(self) -> None:
        """Writes results.json and, beside it, table.md."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        entries = [{**asdict(o), "seconds": round(o.seconds, 3)} for o in self.cases.values()]
        self.path.write_text(json.dumps(entries, indent=0), encoding="utf-8")
        self.path.with_name("table.md").write_text(table(self.cases.values()), encoding="utf-8")

    def add(self, outcome: Outcome) -> None:
        self.cases[outcome.key] = outcome

    def forget(self, item: str) -> None:
        """Drops an item's cases: they are about to run again, and may be fewer now."""
        for key in [key for key in self.cases if key.rsplit("/", 1)[0] == item]:
            del self.cases[key]


def is_failure(outcome: Outcome) -> bool:
    return outcome.status not in FINE


def unexpected(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Failures that nobody expects, or not of that kind."""
    return [o for o in outcomes if is_failure(o) and not is_expected(o)]


def is_expected(outcome: Outcome) -> bool:
    """True for a failure that exceptions.py lists, and that ended as it says there."""
    entry = expected_failure(outcome.key)
    return entry is not None and outcome.status.value == entry.status


def stale(outcomes: Iterable[Outcome]) -> list[str]:
    """Sentences about expected failures that do not fail any more."""
    passing = [o.key for o in outcomes if o.status is Status.PASSED]
    found = []
    for key in passing:
        entry = expected_failure(key)
        if entry is not None:
            found.append(f"{key} passes, but is expected to fail ({entry.pattern}: {entry.reason})")
    return found


def first_samples(outcomes: Mapping[str, Outcome]) -> tuple[int, int, int, int]:
    """Of the first float32 samples: all, those that reach us because torch exports them, accepted by the compiler,
    right.
    """
    firsts = [o for key, o in outcomes.items() if key.startswith("op/") and key.endswith("/float32/0")]
    exported = [o for o in firsts if o.status not in (Status.EAGER_REFUSES, Status.NOT_EXPORTABLE)]
    accepted = [o for o in exported if o.status not in (Status.REFUSED, Status.BROKEN)]
    return len(firsts), len(exported), len(accepted), sum(o.status is Status.PASSED for o in accepted)


def summary(outcomes: Mapping[str, Outcome]) -> str:
    """Some lines: counts by database and element type, and the first samples."""
    rows = [["", "passed", "failed", "of them expected", "not exportable by torch", "eager refuses"]]
    groups: dict[str, list[Outcome]] = {}
    for key, outcome in outcomes.items():
        group, rest = key.split("/", 1)
        dtype = rest.rsplit("/", 2)[1]
        groups.setdefault("examples" if group == "example" else f"{group}s, {dtype}", []).append(outcome)
    for name, members in [*groups.items(), ("all", list(outcomes.values()))]:
        counts = Counter(o.status for o in members)
        failed = [o for o in members if is_failure(o)]
        expected = sum(expected_failure(o.key) is not None for o in failed)
        rows.append([name, *map(str, (counts[Status.PASSED], len(failed), expected, counts[Status.NOT_EXPORTABLE],
                                      counts[Status.EAGER_REFUSES]))])  # fmt: skip
    lines = _aligned(rows)
    firsts, exported, accepted, right = first_samples(outcomes)
    if firsts:
        lines.append(
            f"first float32 samples: {firsts}, torch exports {exported}, {accepted} compile, {right} are right"
        )
    return "\n".join(lines)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))
        )
        for row in rows
    ]


def table(outcomes: Iterable[Outcome]) -> str:
    """The Markdown page."""
    outcomes = list(outcomes)
    by_case = {o.key: o for o in outcomes}
    parts = ["# Conformance with PyTorch's databases", "", "```", summary(by_case), "```"]
    failures = [o for o in outcomes if is_failure(o)]
    if EXPECTED:
        parts += ["", "## Expected failures", "", "| cases | reason |", "|---|---|"]
        parts += [f"| `{entry.pattern}` | {entry.reason} |" for entry in EXPECTED]
    parts += ["", "## Failures", "", "| case | how | what |", "|---|---|---|"]
    parts += [f"| `{o.key}` | {o.status.value} | {_cell(o.detail)} |" for o in failures]
    parts += ["", "## Not exportable by torch", "", "| case | why |", "|---|---|"]
    parts += [f"| `{o.key}` | {_cell(o.detail)} |" for o in outcomes if o.status is Status.NOT_EXPORTABLE]
    dtypes = [*OPERATOR_SAMPLES]
    parts += ["", "## Operators", "", "Passed, failed (✗) and not exportable by torch (○), by element type.", ""]
    parts += [f"| operator | {' | '.join(dtypes)} |", "|---" * (1 + len(dtypes)) + "|"]
    entries: dict[str, dict[str, Counter]] = {}
    for o in outcomes:
        group, rest = o.key.split("/", 1)
        if group == "op":
            name, dtype, _ = rest.rsplit("/", 2)
            entries.setdefault(name, {}).setdefault(dtype, Counter())[_mark(o)] += 1
    for name, by_dtype in entries.items():
        parts.append(f"| {name} | {' | '.join(_counts(by_dtype.get(dtype)) for dtype in dtypes)} |")
    return "\n".join(parts) + "\n"


def _mark(outcome: Outcome) -> str:
    if is_failure(outcome):
        return "✗"
    return {Status.PASSED: "", Status.NOT_EXPORTABLE: "○"}.get(outcome.status, "eager")


def _counts(counts: Counter | None) -> str:
    if counts is None:
        return ""
    return " ".join(f"{counts[mark]}{mark}" for mark in ("", "✗", "○") if counts[mark])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")[:300]
