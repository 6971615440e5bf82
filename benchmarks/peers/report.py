"""What the comparison prints and writes: rows while it runs, the summary, a JSON file and a plot."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.peers.engines import DEFAULT, ENGINES, OURS

LEVEL = 1.03


@dataclass
class Figure:
    """One engine on one model; times in milliseconds, sizes in bytes. `reason` says why there are no figures.

    `macs`: multiply-accumulates of a call as the model is written; `peak_rate`: how many a second the registers of the
    machine did while this row was measured.
    """

    model: str
    precision: str
    threads: int
    engine: str
    load_ms: float = math.nan
    first_ms: float = math.nan
    error: float = math.nan
    file_bytes: int = 0
    peak_bytes: int = 0
    times: list[float] = field(default_factory=list)
    reason: str = ""
    macs: int = 0
    peak_rate: float = math.nan

    @property
    def ms(self) -> float:
        return statistics.median(self.times) if self.times else math.nan

    def over(self, other: Figure) -> float:
        """This time over another engine's, the median of all rounds: cores differ, and neighbours come and go."""
        pairs = zip(self.times, other.times, strict=False)
        return statistics.median(mine / its for mine, its in pairs) if self.times and other.times else math.nan

    @property
    def spread(self) -> float:
        if len(self.times) < 2:
            return math.nan
        low, _, high = statistics.quantiles(self.times, n=4)
        return (high - low) / 2

    @property
    def of_peak(self) -> float:
        """Share of the machine's peak.

        Winograd's filters need fewer multiplications than the model has; more than 1 can be.
        """
        return self.macs / (self.ms * 1e-3) / self.peak_rate

    @property
    def start_ms(self) -> float:
        """Load plus first inference."""
        return self.load_ms + self.first_ms


def best(figures: list[Figure], ours: bool, key: str = "ms") -> Figure | None:
    """The peer with the smallest value; or ours with default options, nothing delegated where that was not measured."""
    running = [f for f in figures if not f.reason and (f.engine in OURS) == ours]
    if ours:
        return max(running, key=lambda f: f.engine == DEFAULT, default=None)
    return min(running, key=lambda f: getattr(f, key), default=None)


def placement(figures: list[Figure]) -> float:
    """The time of the default over the better of it and nothing delegated; NaN where one is missing."""
    ours = {f.engine: f for f in figures if not f.reason and f.engine in OURS}
    return max(ours[DEFAULT].over(f) for f in ours.values()) if len(ours) == len(OURS) else math.nan


def ratio(figures: list[Figure], key: str = "ms") -> float:
    """Ours / best peer of one row, by time or by another attribute; NaN where one side is missing.

    Ours is what a user gets who writes no options; the peer is each column's own best.
    """
    mine, theirs = best(figures, True), best(figures, False, key)
    if mine is None or theirs is None or not getattr(theirs, key):
        return math.nan
    if key == "ms":
        return mine.over(theirs)
    return getattr(mine, key) / getattr(theirs, key)


def _mark(value: float) -> str:
    return "" if math.isnan(value) or value <= LEVEL else "  above"


def row_text(figures: list[Figure]) -> str:
    """One model with one precision and number of threads: a line for each engine, then the ratio."""
    head = figures[0]
    lines = [
        f"{head.model}, {head.precision}, {head.threads} thread(s)",
        f"    {'engine':14}{'ms':>10}{'spread':>9}{'load':>9}{'first':>9}{'peak MiB':>10}{'file MiB':>10}"
        f"{'of peak':>9}{'error':>10}",
    ]
    for f in figures:
        if f.reason:
            lines.append(f"    {f.engine:14}{f.reason[:90]}")
            continue
        lines.append(
            f"    {f.engine:14}{f.ms:10.4f}{f.spread:9.4f}{f.load_ms:9.2f}{f.first_ms:9.2f}"
            f"{f.peak_bytes / 2**20:10.1f}{f.file_bytes / 2**20:10.2f}{f.of_peak:9.1%}{f.error:10.1e}"
        )
    value = ratio(figures)
    theirs = best(figures, False)
    if not math.isnan(value) and theirs:
        lines.append(f"    ours / {theirs.engine}: {value:.3f}{_mark(value)}")
    return "\n".join(lines)


def grouped(figures: list[Figure]) -> dict[tuple[str, str, int], list[Figure]]:
    rows: dict[tuple[str, str, int], list[Figure]] = defaultdict(list)
    for figure in figures:
        rows[figure.model, figure.precision, figure.threads].append(figure)
    return rows


def geometric_mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.exp(statistics.fmean(map(math.log, known))) if known else math.nan


def summary(figures: list[Figure]) -> str:
    """Every ratio by row, and the geometric means: time, load plus first inference, peak memory, file."""
    rows = grouped(figures)
    keys = {"ms": "call", "start_ms": "start", "peak_bytes": "peak", "file_bytes": "file"}
    titles = "".join(f"{title:>9}" for title in keys.values())
    lines = ["", f"{'ours / best peer':38}{titles}  of peak  placed   best peer"]
    for (model, precision, threads), row in rows.items():
        ratios = {key: ratio(row, key) for key in keys}
        mine, theirs = best(row, True), best(row, False)
        share = f"{mine.of_peak:9.1%}" if mine else " " * 9
        label = f"{model}, {precision}, {threads} thr."
        peer = theirs.engine if theirs else "-"
        lines.append(
            f"{label:38}{''.join(f'{value:9.3f}' for value in ratios.values())}{share}{placement(row):8.3f}   {peer}"
            f"{_mark(ratios['ms'])}"
        )
    means = {key: geometric_mean([ratio(row, key) for row in rows.values()]) for key in keys}
    lines.append(f"{'geometric mean':38}{''.join(f'{value:9.3f}' for value in means.values())}")
    above = [ratio(row) for row in rows.values() if ratio(row) > LEVEL]
    lines.append(f"{len(above)} of {len(rows)} rows above the best peer (more than {LEVEL})")
    for engine in ENGINES:
        mine = [(best(row, True), next((f for f in row if f.engine == engine), None)) for row in rows.values()]
        values = [a.over(b) for a, b in mine if a and b and not b.reason]
        if values and engine not in OURS:
            lines.append(f"    beside {engine:12} {geometric_mean(values):.3f} over {len(values)} rows")
    return "\n".join(lines)


def by_isa(figures: dict[str, list[Figure]]) -> str:
    """Instruction set -> figures, as one table: ours in milliseconds, and over the fastest peer held to the set."""
    sets = {isa: grouped(of_set) for isa, of_set in figures.items()}
    labels = {key: f"{key[0]}, {key[1]}, {key[2]} thr." for rows in sets.values() for key in rows}
    lines = ["", f"{'ours, ms and over the best peer':38}" + "".join(f"{isa:>10}{'x peer':>8}" for isa in sets)]
    for key, label in labels.items():
        cells = ""
        for rows in sets.values():
            mine = best(rows.get(key, []), True)
            cells += f"{mine.ms if mine else math.nan:10.4g}{ratio(rows.get(key, [])):8.2f}"
        lines.append(f"{label:38}{cells}")
    means = [geometric_mean([ratio(row) for row in rows.values()]) for rows in sets.values()]
    lines.append(f"{'geometric mean':38}" + "".join(f"{'':10}{mean:8.2f}" for mean in means))
    return "\n".join(lines)


def write_json(figures: list[Figure], path: Path) -> None:
    rows = [
        {**asdict(figure), "ms": figure.ms, "spread": figure.spread, "of_peak": figure.of_peak} for figure in figures
    ]
    text = json.dumps(rows, indent=1, allow_nan=True)
    path.write_text(text.replace("NaN", "null") + "\n")


def write_plot(figures: list[Figure], path: Path) -> None:
    """Bars of every engine's time over the best peer's, a panel for each precision and number of threads."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = grouped(figures)
    panels = sorted({(precision, threads) for _, precision, threads in rows})
    engines = [engine for engine in ENGINES if any(f.engine == engine and not f.reason for f in figures)]
    figure, axes = plt.subplots(len(panels), 1, figsize=(12, 3.2 * len(panels)), squeeze=False, constrained_layout=True)
    for axis, (precision, threads) in zip(axes[:, 0], panels, strict=True):
        chosen = {model: row for (model, p, t), row in rows.items() if (p, t) == (precision, threads)}
        width = 0.8 / max(len(engines), 1)
        for place, engine in enumerate(engines):
            heights = []
            for row in chosen.values():
                reference = best(row, False)
                own = next((f for f in row if f.engine == engine and not f.reason), None)
                heights.append(own.over(reference) if own and reference else math.nan)
            offsets = [index + place * width for index in range(len(chosen))]
            axis.bar(offsets, heights, width, label=engine)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_ylim(0, 3)
        axis.set_ylabel("time / best peer")
        axis.set_xticks([index + 0.4 for index in range(len(chosen))], list(chosen), rotation=20, ha="right")
        axis.set_title(f"{precision}, {threads} thread(s); lower is faster")
    axes[0, 0].legend(ncol=len(engines), fontsize="small")
    figure.savefig(path, dpi=110)
