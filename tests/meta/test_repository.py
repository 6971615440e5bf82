"""What lies in the repository: sizes of files, nothing generated, nothing of one machine, nothing half done."""

import re
from fnmatch import fnmatch

from repository import ROOT, text_of, tracked_files

MAX_LINES = 600
MAX_FOLDER_CMAKE_LINES = 40
MAX_TOP_CMAKE_LINES = 150


def relative(path):
    return path.relative_to(ROOT).as_posix()


def test_files_are_short():
    too_long = {}
    for path in tracked_files():
        if path.suffix in (".py", ".pyi", ".h", ".cpp", ".cmake") and path.name != "_core.pyi":
            count = len(text_of(path).splitlines())
            if count > MAX_LINES:
                too_long[relative(path)] = count
    assert too_long == {}


def test_cmake_lists_are_short():
    too_long = {}
    for path in tracked_files():
        if path.name == "CMakeLists.txt" and "third_party" not in path.parts:
            limit = MAX_TOP_CMAKE_LINES if path.parent == ROOT else MAX_FOLDER_CMAKE_LINES
            if len(text_of(path).splitlines()) > limit:
                too_long[relative(path)] = limit
    assert too_long == {}


def test_nothing_generated_is_tracked():
    generated = re.compile(r"(_generated\.h|\.(so|a|o|pyc|whl)|(^|/)(build|dist|\.venv[^/]*|__pycache__)/.*)$")
    assert [relative(path) for path in tracked_files() if generated.search(relative(path))] == []


def test_nothing_names_one_machine():
    # Written in pieces, so that this file does not find itself.
    places = re.compile(
        "|".join(
            (
                "/" + "work/",
                "/" + "root/",
                "/home/" + r"\w",
                "/" + "tmp/",
                "deb.debian" + ".org",
                "pythonhosted" + ".org",
            )
        )
    )
    found = []
    for path in tracked_files():
        for number, line in enumerate((text_of(path) or "").splitlines(), 1):
            if places.search(line):
                found.append(f"{relative(path)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_nothing_is_half_done():
    # A mark with the number of a public issue is a pointer; one without is a promise to nobody.
    marks = re.compile(
        r"\b(?:TO" + r"DO(?!\(#\d+\))|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b|not implemented" + r" yet|coming" + r" soon",
        re.IGNORECASE,
    )
    found = []
    for path in tracked_files():
        if path.suffix in (".py", ".h", ".cpp", ".cmake", ".yaml", ".def", ".fbs", ".md", ".txt", ".toml"):
            for number, line in enumerate(text_of(path).splitlines(), 1):
                if marks.search(line):
                    found.append(f"{relative(path)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_typed_marker_is_there():
    assert (ROOT / "src/executorch_py/py.typed").exists()


def test_links_of_the_documents_lead_somewhere():
    found = []
    for path in tracked_files():
        if path.suffix == ".md":
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(path)):
                if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                    found.append(f"{relative(path)}: {target}")
    assert found == []


def test_commands_of_the_documents_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = [target.replace("%", "*") for target in re.findall(r"^([a-z][a-z0-9-]*%?):", makefile, re.MULTILINE)]
    found = []
    for path in tracked_files():
        if path.suffix == ".md":
            for target in re.findall(r"(?:^ {4}|^|`)make\s+([a-z0-9-]+)", text_of(path), re.MULTILINE):
                if not any(fnmatch(target, pattern) for pattern in targets):
                    found.append(f"{relative(path)}: make {target}")
    assert found == []


def test_modules_that_the_documents_run_exist():
    found = []
    for path in tracked_files():
        for name in re.findall(r"\bpython3? -m\s+([\w.]*\w)", text_of(path)) if path.suffix == ".md" else ():
            places = [root / name.replace(".", "/") for root in (ROOT, ROOT / "src")]
            ours = any(place.with_suffix(".py").exists() or (place / "__main__.py").exists() for place in places)
            if not ours and name != "pytest":
                found.append(f"{relative(path)}: python -m {name}")
    assert found == []


def test_paths_that_the_documents_name_exist():
    folders = "|".join({re.escape(relative(path).split("/")[0]) for path in tracked_files() if path.parent != ROOT})
    named = re.compile(rf"(?<![\w/.<{{}}*-])(?:{folders})/[\w./*-]*[\w*]")
    examples = {"backends/npu", "tests/python/test_x.py"}  # what a reader would add
    found = []
    for path in tracked_files():
        for place in named.findall(text_of(path)) if path.suffix == ".md" else ():
            if place not in examples and next(ROOT.glob(place), None) is None:
                found.append(f"{relative(path)}: {place}")
    assert found == []
