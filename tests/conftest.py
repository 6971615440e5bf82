"""Options of all tests.

``pytest tests --smoke`` runs what tests/smoke.txt chooses, ``pytest tests --parts`` a part of the files of
tests/sweeps.txt.
"""

import gc
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

CHOSEN = Path(__file__).with_name("smoke.txt")
SWEEPS = Path(__file__).with_name("sweeps.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--smoke", action="store_true", help="run only what tests/smoke.txt chooses")
    parser.addoption("--parts", action="store_true", help="run every N-th case of the files in tests/sweeps.txt")


def rows(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def chosen(beginnings: list[str], names: list[str]) -> set[str]:
    """The names that begin with one of ``beginnings``. A beginning that fits none raises UsageError."""
    found = {beginning: {name for name in names if name.startswith(beginning)} for beginning in beginnings}
    if lost := [beginning for beginning, those in found.items() if not those]:
        raise pytest.UsageError(f"{CHOSEN.name} names tests that are not there: {', '.join(lost)}")
    return set().union(*found.values())


def parts(steps: dict[str, str], names: list[str]) -> set[str]:
    """The names; of each function of ``steps`` (or of a file of it) the first and every N-th case, of 0 none.

    A line of one case (``file::function[case]``), or of all whose first parameters are the same
    (``file::function[first-``), wins over its function's.
    """
    if lost := [file for file in steps if not (SWEEPS.parent.parent / file.split("::")[0]).exists()]:
        raise pytest.UsageError(f"{SWEEPS.name} names files that are not there: {', '.join(lost)}")
    seen: dict[str, int] = defaultdict(int)
    kept = set()
    for name in names:
        function = name.split("[")[0]
        alike = (name[: at + 1] for at in range(len(name) - 1, len(function), -1) if name[at] == "-")
        lines = (name, *alike, function, name.split("::")[0])
        step = int(next((steps[line] for line in lines if line in steps), "1"))
        if step and seen[function] % step == 0:
            kept.add(name)
        seen[function] += 1
    return kept


@pytest.hookimpl(trylast=True)  # behind -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = [item.nodeid for item in items]
    if config.getoption("--smoke"):
        kept = chosen(rows(CHOSEN), names)
    elif config.getoption("--parts"):
        kept = parts(dict(row.split() for row in rows(SWEEPS)), names)
    else:
        return
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


@pytest.fixture(scope="session", autouse=True)
def shared_objects() -> Iterator[None]:
    """Firmware projects of a session share objects by ccache, where it is installed.

    The runtime's sources are copied into each project, and are the same for the same target and features: 40 s of
    processor for the first, 7 s for the next.
    """
    ccache = shutil.which("ccache")
    with pytest.MonkeyPatch.context() as patch:
        if ccache is not None:
            patch.setenv("CMAKE_C_COMPILER_LAUNCHER", ccache)
            patch.setenv("CMAKE_CXX_COMPILER_LAUNCHER", ccache)
            patch.setenv("CCACHE_BASEDIR", tempfile.gettempdir())
            patch.setenv("CCACHE_NOHASHDIR", "1")
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Behind each file the collector forgets what lives on (caches of torch): it took 7 s a collection at the end."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
