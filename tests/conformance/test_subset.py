"""A part of the databases with the other tests: the first sample of every few operators, modules and examples.

The choice follows from the names, so that it is the same everywhere and spreads over all kinds. The whole: ``make
conformance``.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tests.conformance.case import Outcome, Status
from tests.conformance.exceptions import EXPECTED, expected_failure
from tests.conformance.pool import run_items
from tests.conformance.report import is_expected, is_failure, unexpected
from tests.conformance.samples import Item, all_items

_TYPES = {"float32": 4, "bool": 25, "int64": 25, "bfloat16": 25, "-": 1}  # one entry in so many


def _is_chosen(item: Item) -> bool:
    share = _TYPES.get(item.dtype, 0) * (8 if item.group == "special" else 1)
    return share > 0 and zlib.crc32(item.name.encode()) % share == 0


CHOSEN = [Item(item.group, item.name, item.dtype, 1) for item in all_items() if _is_chosen(item)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    log: Path = tmp_path_factory.mktemp("conformance") / "workers.log"
    run_items(CHOSEN, 2, 60.0, 0, log, lambda outcome: found.setdefault(outcome.key, outcome))
    return found


@pytest.mark.parametrize("item", CHOSEN, ids=lambda item: item.key)
def test_as_eager(item: Item, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes.get(f"{item.key}/0")
    if outcome is None:
        pytest.skip("the database has no sample")
    if outcome.status in (Status.NOT_EXPORTABLE, Status.EAGER_REFUSES):
        pytest.skip(f"{outcome.status.value}: {outcome.detail}")
    known = expected_failure(outcome.key)
    if known is not None:
        assert is_failure(outcome), f"passes, but is expected to fail: {known.reason}"
        assert is_expected(outcome), (
            f"{outcome.status.value} ({outcome.detail}), expected is {known.status}: {known.reason}"
        )
        pytest.xfail(known.reason)
    assert outcome.status is Status.PASSED, outcome.detail


def test_the_subset_is_large_enough() -> None:
    assert len(CHOSEN) > 200


def test_every_exception_names_cases_and_has_a_reason() -> None:
    keys = [f"{item.key}/{index}" for item in all_items() for index in range(item.limit)]
    for entry in EXPECTED:
        assert len(entry.reason) > 15
        assert any(expected_failure(key) is entry for key in keys), entry.pattern


def test_an_expected_failure_that_ends_otherwise_is_none() -> None:
    refused = Outcome("op/to_sparse/float32/0", Status.REFUSED, "")
    crashed = Outcome("op/to_sparse/float32/0", Status.CRASHED, "")
    assert unexpected([refused, crashed]) == [crashed]
