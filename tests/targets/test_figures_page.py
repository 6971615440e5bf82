"""docs/reference/microcontroller_figures.md: it has every row, says what its rows say, and is of today."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from benchmarks.microcontrollers import NETWORKS, PAGE, PEERS, TARGETS, Row, measured, page, rows_of
from executorch_py.firmware import TARGETS as BOARDS
from executorch_py.firmware.build import missing_tools

#: What is compared of a row: text and constants wander between each other from compiler to compiler.
FIGURES = {
    "model": lambda row: row.model,
    "flash": lambda row: row.flash,
    "trusting": lambda row: row.trusting,
    "bss": lambda row: row.bss,
    "arena": lambda row: row.arena,
    "stack": lambda row: row.stack,
    "instructions": lambda row: row.millions,
}
#: How far a figure may be from the page's: a page is not written again for every change of a few bytes.
STALE = 0.02


def test_every_network_stands_on_the_page_on_every_target() -> None:
    rows = rows_of(PAGE.read_text(encoding="utf-8"))
    assert [(row.network, row.target) for row in rows] == list(product(NETWORKS, TARGETS))


def test_the_page_is_what_its_rows_and_the_peers_make() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(rows_of(text)), "make mcu-table writes the page"
    assert {network for network, _ in PEERS} == {"ds_cnn", "autoencoder"}


def check_what_was_asked_for(row: Row) -> None:
    """What the issue asks of DS-CNN."""
    if (row.network, row.target) == ("ds_cnn", "cortex-m55"):
        assert row.flash <= 36_000
        assert row.stack <= 1_126  # 1.1 KiB
        assert row.ram <= 20_000
    if (row.network, row.target) == ("ds_cnn", "cortex-m3"):
        assert row.trusting <= 29_000
        assert row.flash <= 33_200  # with the verifier, too; docs/lab/worklist.md says what holds it


def test_no_image_takes_more_than_what_the_issue_asks_for() -> None:
    rows = {(row.network, row.target): row for row in rows_of(PAGE.read_text(encoding="utf-8"))}
    for row in rows.values():
        check_what_was_asked_for(row)
    for (network, name), of_targets in PEERS.items():
        for target, (_, _, millions) in zip(TARGETS, of_targets, strict=True):
            assert rows[network, target].millions <= millions, (name, target)


@pytest.mark.mcu
@pytest.mark.parametrize(("network", "target"), list(product(NETWORKS, TARGETS)))
def test_the_page_is_of_today(network: str, target: str, tmp_path: Path) -> None:
    if missing := missing_tools(BOARDS[target]):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    told = next(
        row for row in rows_of(PAGE.read_text(encoding="utf-8")) if (row.network, row.target) == (network, target)
    )
    found = measured(network, target, tmp_path)
    check_what_was_asked_for(found)
    for name, figure in FIGURES.items():
        old, new = figure(told), figure(found)
        assert abs(new - old) <= STALE * old, f"{name}: {old} on the page, {new} today; make mcu-table"
