"""Names that several files can see mean one thing. To the linker two inline constants of one name in one namespace are
one, and it takes the value of either. A panel of 32 columns became one of 2048 wherever the compiler left the constant
in memory. So are
functions of two types of one name."""

import collections
import re

from repository import ROOT

FOLDERS = ("src/cpp", "backends")
CONSTANT = re.compile(r"inline constexpr [\w:<>, ]+? (\w+)(?:\[\w*\])? *[={]")
TYPE = re.compile(r"(?:struct|class|enum|enum class) (\w+)(?: final)?(?: : [^;{]*)? ?\{")


def test_names_of_a_namespace_are_defined_once() -> None:
    places: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for path in sorted(
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cpp")
    ):
        around: list[str] = []
        for line in path.read_text().splitlines():
            if opened := re.match(r"namespace ?([\w:]*) ?\{", line):
                around.append(opened[1])
            elif line.startswith("}  // namespace") and around:
                around.pop()
            elif (
                name := CONSTANT.match(line) or TYPE.match(line)
            ) and "" not in around:  # "": without a name, the file's own
                places["::".join(around), name[1]].append(path.name)
    assert len(places) > 300
    assert not {name: files for name, files in places.items() if len(set(files)) > 1}
