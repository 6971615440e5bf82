"""The workers of a comparison: one process for each engine, asked one at a time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.peers.engines import ENGINES

ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """An engine could not do what it was asked; the text is its reason."""


class Pool:
    """Starts a worker when its engine is first asked; ends all at the close of the `with` block.

    Args:
        engines: Names that may be asked.
        peer_python: Interpreter of the environment that has the peers.
    """

    def __init__(self, engines: list[str], peer_python: Path) -> None:
        self._engines = set(engines)
        self._peer_python = peer_python
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._unusable: dict[str, str] = {}
        self._logs: dict[str, Any] = {}
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.kill()
            worker.wait()
        self._open.close()

    def ask(self, engine: str, request: dict[str, Any]) -> dict[str, Any]:
        """Sends a request and waits for the answer.

        Raises:
            Failed: The engine cannot do it, or its package is not there.
        """
        assert engine in self._engines, engine
        if engine in self._unusable:
            raise Failed(self._unusable[engine])
        if engine not in self._workers:
            self._start(engine)
        worker = self._workers[engine]
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(request) + "\n")
        worker.stdin.flush()
        answer = self._answer(engine)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def keep_on(self, engine: str, cores: set[int]) -> None:
        """Lets all threads that an engine has so far, in its worker or below, run on these cores only."""
        processes = [self._workers[engine].pid]
        while processes:
            for thread in Path(f"/proc/{processes.pop()}/task").glob("*"):  # none where the process has ended
                with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # the thread has
                    os.sched_setaffinity(int(thread.name), cores)
                    processes += map(int, (thread / "children").read_text().split())

    def _start(self, engine: str) -> None:
        python = self._peer_python if ENGINES[engine].peer else Path(sys.executable)
        self._logs[engine] = self._open.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115 - ends with the pool
        self._workers[engine] = subprocess.Popen(
            [str(python), "-m", "benchmarks.peers.worker", engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._logs[engine],
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.environ.get("PYTHONPATH", "") if not ENGINES[engine].peer else ""},
        )
        try:
            self._answer(engine)
        except Failed as problem:
            self._unusable[engine] = str(problem)
            raise

    def _answer(self, engine: str) -> dict[str, Any]:
        stdout = self._workers[engine].stdout
        assert stdout is not None
        line = stdout.readline()
        if line:
            return json.loads(line)
        log = self._logs[engine]
        log.seek(0)
        last = log.read().strip().splitlines()[-1:] or ["no message"]
        self._unusable[engine] = f"the worker ended: {last[0]}"
        raise Failed(self._unusable[engine])
