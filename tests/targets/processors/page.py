"""docs/reference/targets.md: what passed where, and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

from .networks import NETWORKS
from .run import ABSENT, ATOL, ROOT, RTOL, Outcome
from .targets import SUITES, TARGETS, TESTS

PAGE = ROOT / "docs" / "reference" / "targets.md"
_NOT_RUN = ["not run"] * len(SUITES) + ["-"]

_NETWORKS = ", ".join(f"`{name}`" for name in NETWORKS)

_HEAD = f"""# Targets

Written by `make targets` (`python -m tests.targets.processors`): what runs on other processors than x86-64. Each is an
emulator's: QEMU in user mode, node for WebAssembly. **No real device has run any of it.**

- C++ tests: {", ".join(f"`{name}`" for name in TESTS)}. `aarch64-neon` has
  those of the vector kernels, WebAssembly all but the fakes of FreeRTOS and Zephyr. The number is that of tests. A test
  skips where a target has no such thing, and says which: threads, pages of the system, redirected output.
- Networks: {_NETWORKS}, lowered on x86-64 and run by `executor_runner` with one thread,
  on the portable kernels. `aarch64-neon` has the vector kernels, and those of XNNPACK's library. `wasm32-threads` runs
  with two threads, which share large loops.
  Integers are those of x86-64 bit for bit. A float may differ by {RTOL:g} of its value and {ATOL:g} beside it: each C
  library has its own last bits of `exp` and its kin.
- XNNPACK: the same networks, delegated.

[Cross builds](../how-to/targets.md) says how to build for each.

"""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]) + "\n"


def page(rows: Mapping[str, Sequence[str]]) -> str:
    """The page with these rows: target -> a cell for each suite, and the date."""
    kinds = _table(
        ["target", "processor", "toolchain file", "run by"],
        (
            [name, target.processor, f"`{target.build.toolchain}.cmake`", f"`{' '.join(target.emulator)}`"]
            for name, target in TARGETS.items()
        ),
    )
    results = _table(["target", *SUITES.values(), "on"], ([name, *_row(name, rows.get(name))] for name in TARGETS))
    return _HEAD + kinds + "\n## What passed\n\n" + results


def _row(name: str, measured: Sequence[str] | None) -> list[str]:
    """What was measured; of what is not to be had here, why."""
    *found, day = measured or _NOT_RUN
    absent = {suite: str(Outcome(ABSENT, reason)) for suite, reason in TARGETS[name].absent.items()}
    return [absent.get(suite, cell) for suite, cell in zip(SUITES, found, strict=True)] + [day]


def rows_of(text: str) -> dict[str, list[str]]:
    """The rows of a page, those of targets that are gone left out."""
    rows = {}
    for line in text.partition("## What passed")[2].splitlines():
        name, *cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if name in TARGETS and len(cells) == len(SUITES) + 1:
            rows[name] = cells
    return rows


def cells(outcomes: Mapping[str, Outcome], before: Sequence[str] | None) -> list[str]:
    """A row: what was run today; a suite that was not run keeps what it had."""
    kept = before or _NOT_RUN
    told = [str(outcomes[suite]) if suite in outcomes else old for suite, old in zip(SUITES, kept, strict=False)]
    return [re.sub(r"\s+", " ", cell).replace("|", "/") for cell in told] + [date.today().isoformat()]


def write(name: str, outcomes: Mapping[str, Outcome], path: Path = PAGE) -> None:
    """Brings one row of the page up to date."""
    rows = rows_of(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows[name] = cells(outcomes, rows.get(name))
    path.write_text(page(rows), encoding="utf-8")
