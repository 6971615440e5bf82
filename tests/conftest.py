"""Options of all tests.

``pytest tests --every 10`` runs a spread of a tenth: of each file the first test and every tenth behind it, at least one.
"""

from collections import defaultdict

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="run the first test of each file and every N-th behind it; all by default",
    )


@pytest.hookimpl(trylast=True)  # behind -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    step = config.getoption("--every")
    if step < 1:
        raise pytest.UsageError(f"--every is {step}, must be 1 or more")
    if step == 1:
        return
    seen: dict[object, int] = defaultdict(int)
    kept, left = [], []
    for item in items:
        (left if seen[item.path] % step else kept).append(item)
        seen[item.path] += 1
    config.hook.pytest_deselected(items=left)
    items[:] = kept
