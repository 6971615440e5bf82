"""How the repository reads: lengths of sentences in documentation and comments, and of lines in every source file.

A sentence has at most 35 words, also in a cell of a table, and half of a page's sentences have at most 18. Pages of
``docs/lab`` are notes of measurements and are left out, and so are code blocks and ``docs/reference/operators.md``,
which is generated.
"""

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from repository import ROOT, text_of, tracked_files

MOST_WORDS = 35
MEDIAN_WORDS = 18
COLUMNS = 120
MOST_TERMS = 40
MOST_CHANGES = 120

_CODE = re.compile(r"```.*?(?:```|\Z)|^ {4}\S[^\n]*$", re.DOTALL | re.MULTILINE)
#: A paragraph ends at an empty line, before an item or a row, and before a label as headers of C++ have them.
_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*#|]|\d+\.)\s)|\n(?=\s*[A-Z][\w ]{2,14}:\s)|:\n")
#: A row of a table or of a listing: columns are apart by several spaces.
_ROW = re.compile(r"^.*\S {2,}\S.*$|^>>> .*$", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])\s+")
_CELL_ENDS = re.compile(r"(?<!\\)\|")
#: Where comments begin, of each kind of source.
MARKS = {
    ".h": "///?",
    ".cpp": "///?",
    ".c": "///?",
    ".py": "#:?",
    ".cmake": "#",
    "CMakeLists.txt": "#",
    "Makefile": "#",
}
#: Words of our own making, and what to write instead. A file that is not whole is cut off.
COINED = {
    r"ask(?:s|ed|ing)?": "reads, calls, looks up, tries, needs, requires",
    r"doors?": "caller, exception boundary, lazy package",
    r"cuts?(?! off)": "partition, part, split",
}
#: Pages that a tool writes, whose lists are as long as they are.
GENERATED = {"docs/reference/operators.md", "docs/reference/targets.md"}
#: The text of a recipe names the build that the cache keeps: a change here compiles every vector kernel again.
CACHED = {"cmake/third_party/hwy/CMakeLists.txt"}


def mark_of(path: Path) -> str | None:
    return MARKS.get(path.suffix) or MARKS.get(path.name)


def sentences(text: str) -> Iterator[str]:
    for paragraph in _BREAK.split(text):
        if not paragraph.lstrip().startswith("|"):
            yield from (sentence for sentence in _END.split(" ".join(paragraph.split())) if sentence)


def cells(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("|"):
            yield from (cell.strip() for cell in _CELL_ENDS.split(line))


def pages() -> dict[str, str]:
    """The text of each page for readers, without code."""
    names = {path.relative_to(ROOT).as_posix(): path for path in tracked_files() if path.suffix == ".md"}
    left_out = ("docs/lab/", "docs/reference/operators.md")
    return {name: _CODE.sub("", text_of(path)) for name, path in names.items() if not name.startswith(left_out)}


def hangs(run: list[str]) -> bool:
    """Whether an indented line goes on with a labelled paragraph (Requires, Ensures, …) instead of showing code."""
    return bool(run) and re.match(r"[A-Z][\w ]{2,14}:\s{2,}\S|[-*] | {4,}\S", run[-1]) is not None and run[-1] != ""


def runs_of_comments(text: str, mark: str) -> Iterator[str]:
    """Comment lines that stand together, without their mark."""
    run: list[str] = []
    for line in [*text.splitlines(), ""]:
        if comment := re.match(rf"\s*{mark} ?(.*)$", line):
            run.append("" if re.match(r" {2,}\S|.*=>", comment[1]) and not hangs(run) else comment[1])
        elif run:
            yield "\n".join(run)
            run = []


def comments(path: Path) -> Iterator[str]:
    """Comments and docstrings of a source file."""
    text = text_of(path)
    yield from runs_of_comments(text, mark_of(path))
    if path.suffix != ".py":
        return
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and (docstring := ast.get_docstring(node)):
            yield _ROW.sub("", _CODE.sub("", docstring))


def too_long(text: str) -> list[str]:
    return [sentence[:100] for sentence in sentences(text) if len(sentence.split()) > MOST_WORDS]


def test_long_sentences_are_found():
    text = "Short one. " + "word " * 36 + "end.\n\n| " + "cell " * 50 + "|\n\n- " + "item " * 10
    assert len(too_long(text)) == 1
    assert [len(too_long(cell)) for cell in cells("| short. " + "word " * 36 + "| `a \\| b` |")] == [0, 1, 0, 0]


def test_sentences_of_cells_are_short():
    found = {name: [long for cell in cells(text) for long in too_long(cell)] for name, text in pages().items()}
    assert {name: long for name, long in found.items() if long} == {}


def test_sentences_of_pages_are_short():
    assert {name: found for name, text in pages().items() if (found := too_long(text))} == {}


def test_half_of_the_sentences_of_a_page_are_very_short():
    lengths = {name: [len(sentence.split()) for sentence in sentences(text)] for name, text in pages().items()}
    medians = {name: statistics.median(counts) for name, counts in lengths.items() if counts}
    assert {name: median for name, median in medians.items() if median > MEDIAN_WORDS} == {}


def test_sentences_of_comments_are_short():
    sources = [path for path in tracked_files() if mark_of(path)]
    long = [
        f"{path.relative_to(ROOT)}: {sentence}"
        for path in sources
        for comment in comments(path)
        for sentence in too_long(comment)
    ]
    assert long == []


def test_lines_are_short():
    """Also those of comments, which no formatter sees. Python is ruff's to judge."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked_files()
        if mark_of(path) and path.suffix != ".py" and path.relative_to(ROOT).as_posix() not in CACHED
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert found == []


def test_lines_of_pages_are_short():
    """Those of prose: a row of a table is one line, and code is as long as what it shows."""
    found = []
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".md" and name not in GENERATED:
            prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text_of(path))
            lines = enumerate(prose.splitlines(), 1)
            found += [f"{name}:{number}" for number, line in lines if len(line) > COLUMNS and line[0] != "|"]
    assert found == []


def test_pages_use_the_words_of_the_field():
    found = {}
    for name, text in pages().items():
        prose = re.sub(r"`[^`]+`", "", text) if name != "CHANGELOG.md" else ""
        for word, instead in COINED.items():
            if met := re.findall(rf"\b{word}\b.{{0,30}}", prose, re.IGNORECASE):
                found[name, instead] = met
    assert found == {}


def test_the_glossary_and_the_changelog_stay_short():
    terms = re.findall(r"^\| (?!word|---)", (ROOT / "docs/reference/glossary.md").read_text(), re.MULTILINE)
    assert 10 < len(terms) <= MOST_TERMS
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= MOST_CHANGES
