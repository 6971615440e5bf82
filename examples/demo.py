"""Two real models, end to end: export, lower, save, load, run in the C++ runtime, compare with eager PyTorch.

    python examples/demo.py [--threads N] [--output FOLDER]

`make demo` runs it after setting everything up. It prints the ranking of sentences by similarity and one table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import models
import torch
from tqdm import tqdm

import executorch_py as et


@dataclass
class Row:
    """What one model came to. Times in ms, sizes in bytes."""

    name: str
    max_error: float
    mean_error: float
    file_nbytes: int
    planned_nbytes: int
    lowering: float
    load: float
    first: float
    latency: float
    eager: float


@contextmanager
def stage(text: str):  # type: ignore[no-untyped-def]
    """Shows a running clock beside `text`, and leaves the time that it took."""
    bar = tqdm(total=1, desc=f"  {text}", bar_format="{desc:<34}{bar:20} {elapsed}", leave=True, file=sys.stdout)
    try:
        yield
        bar.update(1)
    finally:
        bar.close()


def median_ms(call: Callable[[], object], repeats: int = 20) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def run(
    name: str,
    model: torch.nn.Module,
    calls: Sequence[tuple[torch.Tensor, ...]],
    folder: Path,
    dynamic_shapes: object = None,
) -> tuple[Row, list[torch.Tensor]]:
    """Takes `model` the whole way and runs every call of `calls`; the first is the example that is exported."""
    print(name)
    with stage("torch.export"):
        exported = torch.export.export(model, calls[0], dynamic_shapes=dynamic_shapes)
    start = time.perf_counter()
    with stage("lower to .pte"):
        program = et.to_edge_transform_and_lower(exported).to_executorch()
    lowering = (time.perf_counter() - start) * 1e3
    path = folder / f"{name.lower().replace(' ', '_')}.pte"
    program.save(path)

    start = time.perf_counter()
    method = et.Runtime.get().load_program(path).load_method("forward")
    load = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    method.execute(calls[0])
    first = (time.perf_counter() - start) * 1e3

    outputs, errors = [], []
    with torch.inference_mode():
        for call in tqdm(calls, desc="  run and compare", leave=False, file=sys.stdout):
            ours, eager = method.execute(call)[0], model(*call)
            errors.append((ours - eager).abs())
            outputs.append(ours)
        row = Row(
            name=name,
            max_error=max(float(e.max()) for e in errors),
            mean_error=statistics.mean(float(e.mean()) for e in errors),
            file_nbytes=path.stat().st_size,
            planned_nbytes=sum(method.metadata.planned_buffer_sizes()),
            lowering=lowering,
            load=load,
            first=first,
            latency=median_ms(lambda: method.execute(calls[0])),
            eager=median_ms(lambda: model(*calls[0])),
        )
    return row, outputs


def print_table(rows: Sequence[Row]) -> None:
    print(
        f"\n{'model':<18}{'max error':>11}{'mean error':>12}{'.pte':>10}{'planned':>10}"
        f"{'lower':>10}{'load':>9}{'first':>9}{'latency':>10}{'eager':>9}"
    )
    for r in rows:
        print(
            f"{r.name:<18}{r.max_error:>11.1e}{r.mean_error:>12.1e}{r.file_nbytes / 2**20:>6.1f} MiB"
            f"{r.planned_nbytes / 2**20:>6.2f} MiB{r.lowering:>7.0f} ms{r.load:>6.1f} ms{r.first:>6.1f} ms"
            f"{r.latency:>7.2f} ms{r.eager:>6.1f} ms"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="threads of the runtime and of eager (0 = all cores)")
    parser.add_argument("--output", type=Path, help="folder for the .pte files (default: a temporary one)")
    options = parser.parse_args()
    if options.threads:
        et.set_num_threads(options.threads)
        torch.set_num_threads(options.threads)

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)

        with stage("load the sentence encoder"):
            encoder = models.SentenceEncoder().eval()
        calls = [models.tokenize(text) for text in (models.QUERY, *models.SENTENCES)]
        tokens = torch.export.Dim("tokens", min=2, max=128)
        encoder_row, embeddings = run("MiniLM-L6 encoder", encoder, calls, folder, ({1: tokens}, {1: tokens}))
        vision_row, _ = run("MobileNetV2", models.mobilenet_v2(), [(models.photograph(),)], folder)

        print(f"\nSentences by similarity to: {models.QUERY!r}")
        query, *others = embeddings
        scores = [float((query * other).sum()) for other in others]
        for score, text in sorted(zip(scores, models.SENTENCES), reverse=True):
            print(f"  {score:6.3f}  {text}")
        print_table([encoder_row, vision_row])
    return 0


if __name__ == "__main__":
    sys.exit(main())
