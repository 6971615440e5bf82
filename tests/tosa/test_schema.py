"""The schema of payloads is the published one: names, numbers, order and types."""

import re
from pathlib import Path

import pytest

from tests.tosa.tools import ROOT, tosa_python

pytestmark = pytest.mark.tosa

OURS = ROOT / "backends/tosa/schema/tosa.fbs"


def declarations(path: Path) -> dict[str, list[str]]:
    """Members of each enum, union and table, in the file's order, without spaces."""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    found = re.findall(r"\b(?:enum|union|table)\s+(\w+)[^{]*\{([^}]*)\}", text)
    return {
        name: [re.sub(r"\s*=\s*0\b|\s", "", member) for member in re.split("[;,]", body) if member.strip()]
        for name, body in found
    }


def test_what_we_declare_begins_as_the_published_schema_does():
    published = Path(next((tosa_python().parent.parent / "lib").glob("python3*/site-packages"))) / "bin/tosa.fbs"
    ours, theirs = declarations(OURS), declarations(published)
    assert len(ours) > 80
    # Versions after 1.0 append to enums, to the union and to tables.
    assert {name: theirs[name][: len(members)] for name, members in ours.items()} == ours


def test_operators_have_the_numbers_of_their_attributes():
    ours = declarations(OURS)
    operators = [name.replace("_", "").lower() for name in ours["Op"][1:]]
    assert operators == [name.removesuffix("Attribute").lower() for name in ours["Attribute"]]


def test_version_and_identifier_are_the_published_ones():
    published = next((tosa_python().parent.parent / "lib").glob("python3*/site-packages/bin/tosa.fbs"))
    for line in ('file_identifier "TOSA";', "root_type TosaGraph;"):
        assert line in OURS.read_text() and line in published.read_text()
