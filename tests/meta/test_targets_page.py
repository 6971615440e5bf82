"""docs/reference/targets.md has a row for each target, with an outcome for each suite; none says that it fails."""

import re

from tests.targets.processors import page
from tests.targets.processors.targets import SUITES, TARGETS


def test_each_target_has_a_row():
    text = page.PAGE.read_text(encoding="utf-8")
    rows = page.rows_of(text)
    assert list(rows) == list(TARGETS)
    assert text == page.page(rows), "run make targets: the page is not what the list of targets gives"
    for name, (*cells, day) in rows.items():
        assert re.fullmatch(r"20\d\d-\d\d-\d\d|-", day), name
        for suite, cell in zip(SUITES, cells, strict=True):
            told = re.fullmatch(r"pass \(\d+(, \d+ skipped)?\)|\*not available here\*: .+|not run", cell)
            assert told, f"{name}, {suite}: {cell}"
            reason = TARGETS[name].absent.get(suite)
            assert reason is None or cell == f"*not available here*: {reason}", f"{name}, {suite}"
