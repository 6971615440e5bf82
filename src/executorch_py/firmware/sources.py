"""The sources of a firmware project: what its files include, and no more.

A header brings the source file beside it, so that what is linked follows from what is included. The runtime's own files
define classes across files and come whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


class SourceTree:
    """The roots in which an ``#include`` is looked up, first one first."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots = tuple(roots)

    def find(self, name: str) -> Path | None:
        """The file behind an include, or None: a header of the C or C++ library."""
        return next((root / name for root in self._roots if (root / name).is_file()), None)

    def closure(self, first: Iterable[str], without: frozenset[str] = frozenset()) -> dict[str, Path]:
        """All files that `first` need, by their name below a root. `without`: names that are left out."""
        found: dict[str, Path] = {}
        waiting = list(first)
        while waiting:
            name = waiting.pop()
            path = self.find(name)
            if name in found or name in without or path is None:
                continue
            found[name] = path
            for included in _INCLUDE.findall(path.read_text(encoding="utf-8")):
                if self.find(included) is None and self.find(f"{Path(name).parent}/{included}"):
                    included = f"{Path(name).parent}/{included}"  # beside the file, as FlatBuffers does
                waiting.append(included)
                source = str(Path(included).with_suffix(".cpp"))
                if included.endswith(".h"):
                    waiting.append(source)
        return found
