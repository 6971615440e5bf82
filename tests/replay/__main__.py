"""Records what this tree makes of many models, and compares it with another tree.

    make replay                       the record of this tree, in build/replay/this
    make replay BASE=main             the same, and what differs from the commit `main`, which is built once for it
    make replay BASE=../other         a tree that is built, or the folder of a record
    make replay QUICK=1 BASE=...      a chosen small set

Exit code 1 when anything differs. Models, inputs and stages are those of this tree's tests/replay on both sides.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "build" / "replay"
#: What the cases and their stages follow from: a record of a commit is made anew when one of them changes.
_CASES = (
    "tests/replay/cases.py",
    "tests/replay/record.py",
    "tests/models/zoo.py",
    "tests/conformance/random_networks.py",
    "tests/conformance/random_graphs.py",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__.split("\n")[0])
    parser.add_argument("--base", help="a record's folder, a built tree, or a commit; nothing is compared without")
    parser.add_argument("--quick", action="store_true", help="a small set, under two minutes")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models whose name contains this")
    parser.add_argument("--out", type=Path, help="only write the record of the package that Python finds, here")
    parser.add_argument("--lines", type=int, default=12, help="lines of a difference that are shown")
    arguments = parser.parse_args()
    if arguments.out:
        from .record import record

        record(arguments.out, arguments.quick, arguments.only)
        return 0
    new = _recorded(ROOT, "this", arguments)
    if not arguments.base:
        print(f"recorded in {new}")
        return 0
    return _report(_base_record(arguments), new, arguments.lines)


def _report(base: Path, new: Path, lines: int) -> int:
    from .compare import cases_of, compare

    differences = compare(base, new, lines)
    print("\n".join([*differences, f"{len(differences)} of {len(cases_of(new))} cases differ from {base}"]))
    return 1 if differences else 0


def _base_record(arguments: argparse.Namespace) -> Path:
    given = Path(arguments.base)
    if (given / "index.json").exists():
        return given
    if (given / "build/dev/python").is_dir():
        return _recorded(given.resolve(), "base", arguments)
    commit = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{arguments.base}^{{commit}}"],
        cwd=ROOT, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    if not commit:
        sys.exit(f"--base {arguments.base}: no record (index.json), no built tree (build/dev/python) and no commit")
    cases = hashlib.sha256(b"".join((ROOT / path).read_bytes() for path in _CASES)).hexdigest()[:8]
    name = f"{commit[:12]}-{cases}{arguments.only and '-only'}"
    done = RECORDS / (name + "-quick" * arguments.quick)
    if (done / "complete").exists() and not arguments.only:
        return done
    return _recorded(_built(commit), name, arguments)


def _built(commit: str) -> Path:
    """The sources of a commit with their extension module, built once."""
    tree = RECORDS / "trees" / commit[:12]
    build = tree / "build/dev"
    if (build / "python/executorch_py/replay_built").exists():
        return tree
    tree.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
    subprocess.run(
        [
            "cmake",
            "-S",
            tree,
            "-B",
            build,
            "-G",
            "Ninja",
            f"-DPython_EXECUTABLE={sys.executable}",
            "--log-level=WARNING",
        ],
        check=True,
    )
    subprocess.run(["ninja", "-C", build, "--quiet", "_core"], check=True)
    (build / "python/executorch_py/replay_built").touch()
    return tree


def _recorded(tree: Path, name: str, arguments: argparse.Namespace) -> Path:
    """The record of a tree's package, made by a process of its own."""
    folder = RECORDS / (name + "-quick" * arguments.quick)
    options = ["--out", str(folder), "--only", arguments.only] + ["--quick"] * arguments.quick
    path = os.pathsep.join([str(tree / "build/dev/python"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    (folder / "complete").unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "tests.replay", *options], cwd=ROOT, env=environment, check=True)
    (folder / "complete").touch()
    return folder


if __name__ == "__main__":
    sys.exit(main())
