"""Worker processes that run items, each case within a time limit; a crash or a hang costs the case alone.

Workers are forked from a process that has imported everything, so that a new one is there at once. A worker tells the
parent before and after each case. When it dies or the time is over, the case that had begun is named, and another
worker goes on behind it. Workers are replaced now and then, because torch's caches grow with every export.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from .case import Outcome, Status, run_item
from .samples import Item

_ITEMS_A_WORKER = 120
_FORK = multiprocessing.get_context("fork")


@dataclass
class _Worker:
    process: multiprocessing.process.BaseProcess
    pipe: Connection
    item: Item | None = None
    case: str = ""  # the case that has begun
    since: float = 0.0
    items: int = 0


def run_items(
    items: Iterable[Item], jobs: int, limit_s: float, seed: int, log: Path, report: Callable[[Outcome], None]
) -> None:
    """Runs items in ``jobs`` processes and reports each case's outcome as it comes.

    Args:
        items: What to run.
        jobs: Number of workers.
        limit_s: Seconds a case may take.
        seed: Of all samples.
        log: File for what the workers print.
        report: Called in this process.
    """
    _Pool(items, jobs, limit_s, seed, log, report).run()


class _Pool:
    def __init__(
        self, items: Iterable[Item], jobs: int, limit_s: float, seed: int, log: Path, report: Callable[[Outcome], None]
    ) -> None:
        self._items: Iterator[Item] = iter(items)
        self._limit_s, self._seed, self._log, self._report = limit_s, seed, log, report
        self._workers = [self._start() for _ in range(jobs)]

    def run(self) -> None:
        for worker in self._workers:
            self._next(worker)
        try:
            while busy := [worker for worker in self._workers if worker.item is not None]:
                deadline = min(worker.since + self._limit_s for worker in busy)
                ready = wait([worker.pipe for worker in busy], timeout=max(0.0, deadline - time.monotonic()))
                for worker in busy:
                    if worker.pipe in ready:
                        self._receive(worker)
                    elif time.monotonic() > worker.since + self._limit_s:
                        self._lost(worker, Status.HANGS, f"not done after {self._limit_s:.0f} s")
        finally:
            for worker in self._workers:
                self._stop(worker)

    def _receive(self, worker: _Worker) -> None:
        try:
            message = worker.pipe.recv()
        except EOFError:
            worker.process.join()
            code = worker.process.exitcode or 0
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            self._lost(worker, Status.CRASHED, how)
            return
        worker.since = time.monotonic()
        if message is None:
            self._next(worker)
        elif isinstance(message, str):
            worker.case = message
        else:
            self._report(message)

    def _next(self, worker: _Worker) -> None:
        worker.item = next(self._items, None)
        if worker.item is None:
            return
        if worker.items >= _ITEMS_A_WORKER:
            self._replace(worker)
        self._send(worker, 0)

    def _send(self, worker: _Worker, start: int) -> None:
        worker.items += 1
        worker.case, worker.since = "", time.monotonic()
        worker.pipe.send((worker.item, start))

    def _lost(self, worker: _Worker, status: Status, detail: str) -> None:
        """The case that had begun is lost; a new worker goes on with the next one."""
        item, case = worker.item, worker.case
        assert item is not None
        self._replace(worker)
        self._report(Outcome(case or f"{item.key}/0", status, detail, time.monotonic() - worker.since))
        done = int(case.rsplit("/", 1)[1]) + 1 if case else item.limit
        if done < item.limit:
            self._send(worker, done)
        else:
            self._next(worker)

    def _start(self) -> _Worker:
        ours, theirs = _FORK.Pipe()
        process = _FORK.Process(target=_work, args=(theirs, ours, self._seed, self._log), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _replace(self, worker: _Worker) -> None:
        self._stop(worker)
        new = self._start()
        worker.process, worker.pipe, worker.items = new.process, new.pipe, 0

    def _stop(self, worker: _Worker) -> None:
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()


def _work(pipe: Connection, other_end: Connection, seed: int, log: Path) -> None:
    """A worker's life: items in, messages out, until the parent goes."""
    other_end.close()
    torch.set_num_threads(1)
    with log.open("ab", buffering=0) as stream:
        os.dup2(stream.fileno(), sys.stdout.fileno())
        os.dup2(stream.fileno(), sys.stderr.fileno())
    while True:
        try:
            item, start = pipe.recv()
        except (EOFError, OSError):
            return
        for key, outcome in run_item(item, seed, start):
            pipe.send(key if outcome is None else outcome)
        pipe.send(None)
