"""Cases that are known to fail, each with its reason. An entry whose case passes is an error: delete it then."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Expected:
    """A family of cases that fails.

    Attributes:
        pattern: Of case keys, with shell wildcards: "op/linalg.eig/*".
        reason: Why, and why that is right for now.
    """

    pattern: str
    reason: str


EXPECTED: tuple[Expected, ...] = ()


def expected_failure(key: str) -> Expected | None:
    """The entry that a case belongs to."""
    return next((entry for entry in EXPECTED if fnmatchcase(key, entry.pattern)), None)
