"""Builds the runtime for a target, runs it in the emulator, and compares with this machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from executorch_py.backends.xnnpack import XnnpackPartitioner

from .networks import KINDS, Case, write
from .targets import Build, Target

ROOT = Path(__file__).resolve().parents[3]
NETWORKS = ROOT / "build" / "targets" / "networks"
#: What the tests of damaged files begin with: files, and a list of operators. These are built, too.
SEEDS = [*(ROOT / "tests" / "fuzz" / "corpus" / "program_loader").glob("*.pte"), Path(__file__).with_name("seeds.txt")]

#: Floats may differ by so much, of the value and beside it: another C library has other last bits of exp and its kin.
RTOL, ATOL = 2e-5, 2e-6


class Failed(Exception):
    """A build or a run that did not end well; the message has what it said."""


@dataclass(frozen=True)
class Outcome:
    """What a suite gave on a target."""

    word: str  # pass, fail, or not available here
    told: str  # how many, or why

    def __str__(self) -> str:
        return f"*{self.word}*: {self.told}" if self.word == ABSENT else f"{self.word} ({self.told})"


PASS, FAIL, ABSENT = "pass", "fail", "not available here"


def call(command: Sequence[Any], seconds: int = 900, **options: Any) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"'{' '.join(words)}' ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def networks() -> dict[str, list[Case]]:
    """All networks, lowered: in float32 and in integers, each for the kernels and for XNNPACK."""
    cases = {kind: write(NETWORKS, kind) for kind in KINDS}
    delegated = {"xnnpack": "float32", "xnnpack_int8": "int8"}
    return cases | {suite: write(NETWORKS / suite, kind, [XnnpackPartitioner()]) for suite, kind in delegated.items()}


def build(
    what: Build, cases: dict[str, list[Case]], programs: Sequence[str], jobs: int = 2, delegates: bool = False
) -> Path:
    """Compiles programs of a target with the operators that the networks call. Returns the folder of programs.

    Raises:
        Failed: It does not compile.
    """
    backend = "xnnpack" if delegates or what.has_xnnpack else "example"
    tree = ROOT / "build" / "targets" / (what.tree or what.toolchain + "-xnnpack" * delegates)
    files = sorted([*SEEDS, *(case.file for of_kind in cases.values() for case in of_kind)])
    options = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "cmake" / "toolchains" / f"{what.toolchain}.cmake",
        "Python_EXECUTABLE": sys.executable,
        "ET_BUILD_PYTHON": "OFF",
        "ET_BUILD_TESTS": "ON",
        "ET_BACKENDS": backend,
        "ET_SELECT_OPS": ";".join(map(str, files)),
    }
    defined = [*(f"-D{name}={value}" for name, value in options.items()), *what.options]
    call(["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", "--log-level=WARNING", "-Wno-deprecated", *defined])
    call(["ninja", "-C", tree, f"-j{jobs}", "--quiet", *programs], seconds=7200)
    return tree / "bin"


def run_tests(target: Target, folder: Path) -> Outcome:
    """The C++ tests in the emulator. GoogleTest says how many ran, and which skipped for want of something."""
    passed = skipped = 0
    for name in target.build.tests:
        source = ROOT / "tests" / "cpp" / name.split("_")[0]
        program = folder / f"et_test_{name}{target.build.suffix}"
        text = call([*target.emulator, program, "--gtest_brief=1"], 3600, cwd=source)
        if not (ran := _number_of("PASSED", text)):
            raise Failed(f"et_test_{name} passed no test:\n{text[-3000:]}")
        passed += ran
        skipped += _number_of("SKIPPED", text)
    return Outcome(PASS, f"{passed}, {skipped} skipped" if skipped else str(passed))


def _number_of(word: str, text: str) -> int:
    """Of tests, as the last lines of a GoogleTest program say; 0 where they say nothing of such tests."""
    found = re.search(rf"^\[ +{word} +\] (\d+) tests?[.,]", text, re.MULTILINE)
    return int(found[1]) if found else 0


def run_network(target: Target, folder: Path, case: Case) -> list[np.ndarray[Any, Any]]:
    """The outputs of a network on the target.

    Raises:
        Failed: The runner ended with an error.
    """
    with tempfile.TemporaryDirectory() as out:
        inputs = [word for path in case.inputs for word in ("--input", path)]
        runner = folder / f"executor_runner{target.build.suffix}"
        options = [
            "--model",
            case.file,
            *inputs,
            "--runs",
            case.runs,
            "--threads",
            target.build.threads,
            "--output-dir",
            out,
        ]
        call([*target.emulator, runner, *options])
        return [np.load(Path(out) / f"output_{i}.npy") for i in range(len(case.outputs))]


def differences(target: Target, folder: Path, case: Case, exactly: bool) -> list[str]:
    """What is not as on this machine, in words; integers must be equal, floats as close as RTOL and ATOL say."""
    found = []
    for i, (path, value) in enumerate(zip(case.outputs, run_network(target, folder, case), strict=True)):
        expected = np.load(path)
        if (value.dtype, value.shape) != (expected.dtype, expected.shape):
            found.append(f"{case.name}: output {i} is {value.dtype}{value.shape}, not {expected.dtype}{expected.shape}")
        elif exactly or value.dtype.kind != "f":
            if value.tobytes() != expected.tobytes():
                found.append(f"{case.name}: output {i} is not equal: {int(np.sum(value != expected))} elements differ")
        elif not np.allclose(value, expected, RTOL, ATOL, equal_nan=True):
            most = np.max(np.abs(value.astype(np.float64) - expected))
            found.append(f"{case.name}: output {i} differs by {most:.3g}")
    return found


def run_networks(target: Target, folder: Path, cases: Sequence[Case], exactly: bool) -> Outcome:
    found = [line for case in cases for line in differences(target, folder, case, exactly)]
    return Outcome(FAIL, "; ".join(found)) if found else Outcome(PASS, str(len(cases)))
