#!/usr/bin/env python3
"""Builds the documentation site: pages, notebooks, and an API reference of every public name in Python and C++.

    tools/docs_site.py build/docs                  # pages in build/docs/html; warnings are errors
    tools/docs_site.py build/docs --run-notebooks  # with the output of the notebooks, some minutes

The sources in ``docs/`` hold no generated page. This program assembles a folder for Sphinx: the pages, an index a
folder, the notebooks, and a page an importable package whose names come from its ``__init__.pyi``. Doxygen reads the
C++ headers, Breathe brings them in. Links to files outside of ``docs/`` become the file's name, as the site has no such
page.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

# folder -> title of its index
FOLDERS = {"tutorials": "Tutorials", "how-to": "How to", "reference": "Reference", "design": "Design notes"}

# What users import, in the order of the site. The rest of the package is private.
PACKAGES = (
    "executorch_py",
    "executorch_py.quantizer",
    "executorch_py.devtools",
    "executorch_py.devtools.inspector.profile",
    "executorch_py.devtools.inspector.numerical_comparator",
    "executorch_py.devtools.bundled_program.serialize",
    "executorch_py.devtools.bundled_program.check",
    "executorch_py.devtools.requirements",
    "executorch_py.backends.xnnpack",
    "executorch_py.backends.tosa",
    "executorch_py.backends.tosa.environment",
    "executorch_py.backends.tosa.reference",
    "executorch_py.backends.example.int8",
    "executorch_py.firmware",
    "executorch_py.native",
    "executorch_py.pruning",
    "executorch_py.training",
    "executorch_py.recipes",
    "executorch_py.testing",
    "executorch_py.exir",
    "executorch_py.exir.passes",
    "executorch_py.exir.backend.backend_details",
    "executorch_py.exir.backend.partitioner",
    "executorch_py.exir.backend.utils",
    "executorch_py.quantizer.annotation",
    "executorch_py.quantizer.matching",
    "executorch_py.codegen.pte_delegates",
    "executorch_py.runtime",
)

# Headers for applications first, then those for kernels, backends and ports.
HEADERS = {
    "Applications": (
        "extension/module/module.h",
        "extension/tensor/tensor_ptr.h",
        "extension/tensor/tensor_ptr_maker.h",
        "extension/tensor/tensor_accessor.h",
        "extension/evalue.h",
        "extension/evalue_util/print_evalue.h",
        "extension/data_loader/loaders.h",
        "extension/memory/memory.h",
        "extension/runner_util/inputs.h",
        "extension/process.h",
        "c_api/executorch.h",
    ),
    "Runtime": (
        "runtime/program.h",
        "runtime/method.h",
        "runtime/method_meta.h",
        "runtime/session.h",
        "runtime/evalue.h",
        "runtime/tensor.h",
        "runtime/host/module.h",
    ),
    "Profiles and test cases": (
        "runtime/event_tracer.h",
        "devtools/etdump.h",
        "devtools/host/etdump_gen.h",
        "devtools/bundled_program.h",
    ),
    "Training": ("training/training_module.h", "training/optimizer.h", "training/checkpoint.h"),
    "Errors and messages": ("base/error.h", "base/result.h", "base/log.h"),
    "Kernels and backends": (
        "runtime/kernel.h",
        "runtime/kernel_types.h",
        "runtime/backend.h",
        "runtime/plugin.h",
        "extension/kernel_util/registration.h",
        "extension/backend/interface.h",
    ),
    "Memory, files, threads, platform": (
        "runtime/memory_allocator.h",
        "runtime/data_loader.h",
        "runtime/platform.h",
        "platform/platform.h",
        "threads/thread_pool.h",
        "threads/parallel.h",
        "extension/platform/pal.h",
    ),
}


def assemble(source: Path) -> None:
    """Copies pages and notebooks to ``source``, and writes the generated ones."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("lab", "__pycache__"))
    (source / "tutorials").mkdir(exist_ok=True)
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        shutil.copy(notebook, source / "tutorials")
    for page in source.rglob("*.md"):
        page.write_text(without_outside_links(page.read_text(encoding="utf-8"), DOCS / page.relative_to(source)))
    python_reference(source / "reference")
    cpp_reference(source / "reference")
    for folder, title in FOLDERS.items():
        write_index(source / folder, title)
    hidden = "\n".join(["ARCHITECTURE", *(f"{folder}/index" for folder in FOLDERS)])
    with open(source / "index.md", "a", encoding="utf-8") as index:
        index.write(f"\n```{{toctree}}\n:hidden:\n\n{hidden}\n```\n")


def without_outside_links(text: str, page: Path) -> str:
    """``text``: links to folders become links to their index, links to files that the site does not have words."""

    def replaced(match: re.Match[str]) -> str:
        words, target = match.group(1), match.group(2).split("#")[0]
        path = (page.parent / target).resolve()
        folder = (
            "tutorials"
            if path == ROOT / "notebooks"
            else path.relative_to(DOCS).as_posix()
            if path.is_dir() and path.is_relative_to(DOCS)
            else ""
        )
        if folder in FOLDERS:
            return f"[{words}](/{folder}/index.md)"
        inside = path.is_relative_to(DOCS) and not path.is_relative_to(DOCS / "lab")
        return match.group(0) if not target or re.match(r"[a-z]+:", target) or inside else words

    return re.sub(r"\[([^]]*)\]\(([^)\s]+)\)", replaced, text)


def write_index(folder: Path, title: str) -> None:
    pages = sorted(
        page.stem for page in folder.iterdir() if page.suffix in (".md", ".ipynb", ".rst") and page.stem != "index"
    )
    (folder / "index.md").write_text(f"# {title}\n\n```{{toctree}}\n:maxdepth: 1\n\n" + "\n".join(pages) + "\n```\n")


def public_names(package: object) -> list[str]:
    """Names of a package in their order: ``__all__``, or what is defined in it."""
    names = getattr(package, "__all__", None) or [
        name for name, value in vars(package).items() if getattr(value, "__module__", None) == package.__name__
    ]
    return [name for name in names if not name.startswith("_")]


def python_reference(folder: Path) -> None:
    """A page a package: each public name with its signature and docstring, once in the site."""
    documented: dict[int, str] = {}
    for name in PACKAGES:
        package = importlib.import_module(name)
        lines = [f"# {name}", "", inspect.cleandoc(package.__doc__ or "").split("\n\n")[0].replace("``", "`"), ""]
        for public in public_names(package):
            value = getattr(package, public)
            home = documented.setdefault(id(value), f"{name}.{public}")
            if home != f"{name}.{public}":
                lines += [f"`{public}` is `{home}`.", ""]
                continue
            if inspect.ismodule(value):
                continue
            kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
            options = "   :members:\n   :show-inheritance:\n" if kind == "class" else ""
            directive = f".. auto{kind}:: {name}.{public}\n{options}"
            if kind == "data":  # the docstring of a value is its type's
                directive = f".. py:data:: {name}.{public}\n   :type: {type(value).__name__}\n"
            lines += ["```{eval-rst}", directive, "```", ""]
        (folder / f"python_{name.removeprefix('executorch_py').strip('.') or 'executorch_py'}.md").write_text(
            "\n".join(lines)
        )


def cpp_reference(folder: Path) -> None:
    lines = ["# C++ headers", "", "[Using it from C++](../how-to/using_cpp.md) has the first program.", ""]
    for title, headers in HEADERS.items():
        lines += [f"## {title}", ""]
        for header in headers:
            lines += [f"### {header}", "", "```{eval-rst}", f".. doxygenfile:: {header}", "   :project: cpp", "```", ""]
    (folder / "cpp_headers.md").write_text("\n".join(lines))


def doxygen(out: Path) -> None:
    """Doxygen's XML of the documented headers in ``out/xml``."""
    headers = [str(ROOT / "src/cpp" / header) for group in HEADERS.values() for header in group]
    settings = {
        "PROJECT_NAME": "executorch_py",
        "INPUT": " ".join(headers),
        "FULL_PATH_NAMES": "YES",
        "STRIP_FROM_PATH": str(ROOT / "src/cpp"),
        "OUTPUT_DIRECTORY": str(out),
        "GENERATE_XML": "YES",
        "GENERATE_HTML": "NO",
        "GENERATE_LATEX": "NO",
        "QUIET": "YES",
        "WARN_IF_UNDOCUMENTED": "NO",
        "JAVADOC_AUTOBRIEF": "YES",
        "EXTRACT_ALL": "YES",
        "MACRO_EXPANSION": "YES",
        "PREDEFINED": "__attribute__(x)=",
        "INCLUDE_PATH": str(ROOT / "src/cpp"),
        "EXCLUDE_SYMBOLS": "*::detail::*",
    }
    out.mkdir(parents=True, exist_ok=True)
    text = "\n".join(f"{key} = {value}" for key, value in settings.items())
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True, cwd=ROOT)
    index = out / "xml/index.xml"  # its files have no folders, and two are called evalue.h
    places = {}
    for page in (out / "xml").glob("*_8h.xml"):
        places[page.stem] = re.search(r'<location file="([^"]*)"/>', page.read_text(encoding="utf-8"))[1]
    named = re.sub(
        r'(refid="(\w+)" kind="file"><name>)[^<]*',
        lambda match: match[1] + places[match[2]],
        index.read_text(encoding="utf-8"),
    )
    index.write_text(named, encoding="utf-8")


def run_notebooks(folder: Path) -> None:
    """Executes the notebooks of the assembled folder and stores their outputs in it."""
    import nbformat
    from nbclient import NotebookClient

    for path in sorted(folder.glob("*.ipynb")):
        print(f"  {path.stem}", flush=True)
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
        nbformat.write(notebook, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument("out", type=Path, help="folder of the build; the pages come to OUT/html")
    parser.add_argument("--run-notebooks", action="store_true", help="run the notebooks and show their output")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    source = out / "source"
    assemble(source)
    doxygen(out / "doxygen")
    if arguments.run_notebooks:
        run_notebooks(source / "tutorials")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-W", "--keep-going", "-j", "auto",
               "-D", f"breathe_projects.cpp={out / 'doxygen/xml'}", str(source), str(out / "html")]  # fmt: skip
    if subprocess.run(command).returncode != 0:
        return 1
    print(f"documentation: {out / 'html/index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
