"""Options of all tests.

``pytest tests --smoke`` runs what tests/smoke.txt chooses.
"""

from pathlib import Path

import pytest

CHOSEN = Path(__file__).with_name("smoke.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--smoke", action="store_true", help="run only what tests/smoke.txt chooses")


def chosen(beginnings: list[str], names: list[str]) -> set[str]:
    """The names that begin with one of ``beginnings``. A beginning that fits none raises UsageError."""
    found = {beginning: {name for name in names if name.startswith(beginning)} for beginning in beginnings}
    if lost := [beginning for beginning, those in found.items() if not those]:
        raise pytest.UsageError(f"{CHOSEN.name} names tests that are not there: {', '.join(lost)}")
    return set().union(*found.values())


@pytest.hookimpl(trylast=True)  # behind -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--smoke"):
        return
    lines = CHOSEN.read_text(encoding="utf-8").splitlines()
    kept = chosen([line for line in lines if line and not line.startswith("#")], [item.nodeid for item in items])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]
