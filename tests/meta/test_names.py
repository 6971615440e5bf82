"""Names that several files can see mean one thing. Two inline constants of one name in one namespace are one to the linker, which
takes the value of either: a panel of 32 columns became one of 2048 wherever the compiler left the constant in memory."""

import collections
import re

from repository import ROOT


def test_inline_constants_are_named_once() -> None:
    places: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for path in sorted([*ROOT.glob("src/cpp/**/*.h"), *ROOT.glob("src/cpp/**/*.cpp"), *ROOT.glob("backends/**/*.h"),
                        *ROOT.glob("backends/**/*.cpp")]):  # fmt: skip
        namespace = ""
        for line in path.read_text().splitlines():
            if opened := re.match(r"namespace ([\w:]*)", line):
                namespace = opened[1] if opened[1].startswith("et") else f"{namespace}::{opened[1]}"
            elif constant := re.match(r"inline constexpr [\w:<>, ]+? (\w+)(\[\w*\])? *[={]", line):
                places[namespace, constant[1]].append(path.name)
    assert len(places) > 50
    assert not {name: files for name, files in places.items() if len(files) > 1}
