"""executorch_py beside its peers: the same models, inputs, threads and run, every ratio printed.

    python -m benchmarks.peers --peer-python PYTHON [--models NAME ...] [--all] [--engines NAME ...]
                               [--precisions fp32 int8 dynamic] [--isa [avx2 ...]] [--threads 1 2]
                               [--rounds 7] [--out FOLDER]

For each model, precision and number of threads all engines load in processes of their own, then take turns in blocks of
about `--block` milliseconds. A figure is the median over the rounds, the spread half the distance between the
quartiles. A ratio is ours with default options / best peer, the median of the rounds' ratios; up to 1.03 counts as
level. With one thread all engines of a round run on one core, and cores take turns: a neighbour may slow one down.
`placed` is the default's time over the better of it and nothing delegated. --isa measures ours and the peers that obey
a limit, once for each set; without a name for each below the machine's highest one.
`--clock processor` counts what all threads of a process took: for one thread, where others use the machine.
Prepared files are kept in `--out` and made anew with --again. Also measured, in the same processes: load, first
inference, the peak of memory beyond the imported package, bytes of the file. Between the rounds: what the registers of
the machine can do (peak.c), of which each time is a share (`of peak`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import torch

from benchmarks.peers import report
from benchmarks.peers.engines import ENGINES, LIMITED, quiet
from benchmarks.peers.models import CHOSEN, MODELS
from benchmarks.peers.peak import Peak, macs_of
from benchmarks.peers.pool import Failed, Pool
from benchmarks.peers.report import Figure
from executorch_py.cli.instruction_sets import ISAS, check_isa, environment, isa_settings, older_isas

#: One start that takes longer is no contender's, and needs no median.
SLOW_START_MS = 1500.0


def export(name: str, folder: Path, again: bool) -> None:
    """Writes NAME.pt2, NAME.inputs.pt and NAME.expected.pt."""
    if (folder / f"{name}.expected.pt").exists() and not again:
        return
    model = MODELS[name]()
    torch.export.save(torch.export.export(model.module, model.inputs), folder / f"{name}.pt2")
    (folder / f"{name}.macs").unlink(missing_ok=True)
    torch.save(list(model.inputs), folder / f"{name}.inputs.pt")
    with torch.inference_mode():
        outputs = torch.utils._pytree.tree_leaves(model.module(*model.inputs))
    torch.save(outputs, folder / f"{name}.expected.pt")


def prepared(pool: Pool, engine: str, name: str, precision: str, folder: Path, again: bool) -> Path:
    """The engine's file of the model, made where it is not there. Raises Failed."""
    kind = ENGINES[engine]
    if precision not in kind.precisions:
        raise Failed(f"no {precision}")
    exported = folder / f"{name}.pt2"
    if kind.suffix == ".pt2":
        return exported
    out = folder / f"{name}.{precision}.{engine}" / f"{name}{kind.suffix}"
    reason = out.parent / "failed.txt"
    if reason.exists() and not again:
        raise Failed(reason.read_text())
    if not out.exists() or again:
        out.parent.mkdir(exist_ok=True)
        reason.unlink(missing_ok=True)
        try:
            request = {"do": "prepare", "exported": str(exported), "inputs": str(folder / f"{name}.inputs.pt")}
            pool.ask(engine, {**request, "precision": precision, "out": str(out)})
        except Failed as problem:
            reason.write_text(str(problem))
            raise
    return out


def measure(
    pool: Pool, name: str, precision: str, threads: int, peak: Peak, options: argparse.Namespace
) -> list[Figure]:
    """All engines on one model, taking turns."""
    figures = []
    for engine in options.engines:
        try:
            file = prepared(pool, engine, name, precision, options.out, options.again and threads == options.threads[0])
            request = {"do": "load", "file": str(file), "threads": threads, "clock": options.clock}
            request["inputs"] = str(options.out / f"{name}.inputs.pt")
            request["expected"] = str(options.out / f"{name}.expected.pt")
            starts = [answer := pool.ask(engine, request)]
            while len(starts) < options.starts and answer["load_ms"] + answer["first_ms"] < SLOW_START_MS:
                pool.ask(engine, {"do": "unload"})  # a process each; the last one stays for the calls
                starts.append(answer := pool.ask(engine, {**request, "settle": False}))
        except Failed as problem:
            figures.append(Figure(name, precision, threads, engine, reason=str(problem)))
            continue
        size = sum(path.stat().st_size for path in file.parent.glob(f"{name}*") if path.suffix in (file.suffix, ".bin"))
        figures.append(
            Figure(
                name,
                precision,
                threads,
                engine,
                _median(starts, "load_ms"),
                _median(starts, "first_ms"),
                answer["error"],
                size,
            )
        )
    running = [figure for figure in figures if not figure.reason]
    rates = []
    cores = sorted(os.sched_getaffinity(0))
    for turn in range(options.rounds):
        for figure in running if threads == 1 else ():
            pool.keep_on(figure.engine, {cores[turn // 2 % len(cores)]})
        rates.append(peak.rate(precision, threads))
        for figure in running if turn % 2 == 0 else reversed(running):
            # Pools wait actively for a moment after a call; they must not take a core from the next engine.
            time.sleep(0.03)
            figure.times.append(pool.ask(figure.engine, {"do": "block", "ms": options.block})["ms"])
    for figure in running:
        pool.keep_on(figure.engine, set(cores))
        figure.macs, figure.peak_rate = macs_of(name, options.out), statistics.median(rates)
        figure.peak_bytes = pool.ask(figure.engine, {"do": "unload"})["peak_bytes"]
    return figures


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", type=Path, required=True, help="python of the environment with the peers")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), metavar="NAME", help="default: a third")
    parser.add_argument("--all", action="store_true", help="all models")
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), metavar="NAME")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "int8", "dynamic"), default=["fp32", "int8"])
    parser.add_argument("--isa", nargs="*", choices=ISAS, help="highest instruction sets; default: older ones")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--starts", type=int, default=3, help="processes that load the model; the median counts")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall", help="wall: of the machine")
    parser.add_argument("--block", type=float, default=60.0, help="milliseconds of a block")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of prepared files and results")
    parser.add_argument("--again", action="store_true", help="prepare all files anew")
    options = parser.parse_args(arguments)
    options.models = options.models or list(MODELS if options.all else CHOSEN)
    sets: list[str | None] = [None]
    if options.isa is not None:
        sets = list(dict.fromkeys(options.isa or older_isas()))
        options.engines = [engine for engine in options.engines if engine in LIMITED]
    for isa in filter(None, sets):
        check_isa(isa)
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    quiet()
    figures = {}
    for isa in sets:
        with environment(isa_settings(isa)):
            figures[isa or "all"] = _measure_models(Peak(options.out, isa), f"-{isa}" if isa else "", options)
    if len(figures) > 1:
        print(report.by_isa(figures))
    return 0


def _measure_models(peak: Peak, ending: str, options: argparse.Namespace) -> list[Figure]:
    """All models; prints each row, writes figures and plot under names with the ending."""
    figures: list[Figure] = []
    with Pool(options.engines, options.peer_python) as pool:
        for name in options.models:
            _progress(f"{name}: export")
            export(name, options.out, options.again)
            for precision in options.precisions:
                for threads in options.threads:
                    _progress(f"{name}, {precision}, {threads} thread(s)")
                    rows = measure(pool, name, precision, threads, peak, options)
                    figures += rows
                    _progress("")
                    print(report.row_text(rows), flush=True)
    print(report.summary(figures))
    table, plot = options.out / f"peers{ending}.json", options.out / f"peers{ending}.png"
    report.write_json(figures, table)
    report.write_plot(figures, plot)
    print(f"figures: {table}, plot: {plot}", flush=True)
    return figures


def _median(starts: list[dict[str, float]], key: str) -> float:
    return statistics.median(start[key] for start in starts)


def _progress(text: str) -> None:
    print("\r" + text.ljust(70) + ("" if text else "\r"), end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
