"""Every Python block of the pages for users runs as it stands, in the order of its page; links lead somewhere.

What a page leaves to its reader (a model, an input, a partitioner) comes from ``SETUP``; the blocks of other pages must
need nothing.
"""

import json
import re
import shlex
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from executorch_py.backends.example.op_support import refusal
from executorch_py.backends.example.partitioner import ExamplePartitioner
from executorch_py.backends.example.passes import FuseConv2dRelu

import executorch_py as et
from executorch_py import cli
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.backend.utils import constant_names
from executorch_py.testing import lower
from tests.tosa.tools import tosa_python

ROOT = Path(__file__).resolve().parents[3]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for pattern in ("*.md", "docs/*.md", "docs/*/*.md", "backends/*.md", "backends/*/*.md")
    for path in sorted(ROOT.glob(pattern))
}
_BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_BLOCK_OR_COMMANDS = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"`etpy (\w+)")


class Scale(torch.nn.Module):
    """A model with a keyword argument."""

    def forward(self, x, mask):
        return x * mask


def _python_api(block: int) -> dict:
    x, mask = torch.randn(2, 8), torch.ones(2, 8)
    if block == 0:
        exported = torch.export.export(Scale(), (x,), {"mask": mask})
        et.to_edge_transform_and_lower(exported, constant_methods={"get_max_length": 7}).to_executorch().save(
            "model.pte"
        )
        return {"x": x, "mask": mask}
    model = torch.nn.ReLU()
    return {
        "x": x,
        "model": model,
        "example_inputs": (x,),
        "program": lower(model, (x,)),
        "MyPartitioner": ExamplePartitioner,
    }


def _exported() -> torch.export.ExportedProgram:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    return torch.export.export(model, (torch.randn(1, 3, 8, 8),))


def _add_backend(block: int) -> dict:
    return {
        "et": et,
        "exported": _exported(),
        "FuseConv2dRelu": FuseConv2dRelu,
        "json": json,
        "refusal": refusal,
        "constant_names": constant_names,
        "compile_to_bytes": lambda edge_program: b"",
        "BackendDetails": BackendDetails,
        "PreprocessResult": PreprocessResult,
        "DelegationSpec": DelegationSpec,
        "Partitioner": Partitioner,
        "PartitionResult": PartitionResult,
    }


#: Page -> what a block finds, by the number of the block on its page.
SETUP = {
    "docs/reference/python_api.md": _python_api,
    "docs/how-to/add_backend.md": _add_backend,
    "docs/how-to/backends_xnnpack.md": lambda block: {"et": et, "exported": _exported()},
    "docs/design/memory_planning.md": lambda block: {"et": et},
}


def blocks(page: str) -> list[str]:
    return [textwrap.dedent(match[2]) for match in _BLOCK.finditer(PAGES[page])]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])  # a page installs a finder
    if page == "docs/how-to/backends_tosa.md":
        monkeypatch.setenv("ET_TOSA_PYTHON", str(tosa_python()))
    namespace: dict = {"__name__": "documentation"}
    for index, code in enumerate(blocks(page)):
        namespace.update(SETUP[page](index) if page in SETUP else {})
        exec(compile(code, f"{page}, block {index}", "exec"), namespace)


def test_commands_of_the_reference_run(tmp_path, monkeypatch, capsys):
    """Blocks of Python and of commands, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    used = set()
    for kind, text in _BLOCK_OR_COMMANDS.findall(PAGES["docs/reference/etpy.md"]):
        if kind == "python":
            exec(compile(text, "docs/reference/etpy.md", "exec"), {"__name__": "documentation"})
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            used.add(arguments[0])
            assert program == "etpy"
            if arguments == ["--version"]:
                with pytest.raises(SystemExit, match="0"):
                    cli.main(arguments)
                continue
            if arguments[0] == "completion":
                pytest.importorskip("shtab")
            assert cli.main(arguments) == 0, f"{line}: {capsys.readouterr().err}"
            assert capsys.readouterr().out.strip()
    assert used >= set(cli._parser()._subparsers._group_actions[0].choices) - {"quantization"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    folder = (ROOT / page).parent
    assert [target for target in _LINK.findall(PAGES[page]) if not (folder / target).exists()] == []


def test_commands_that_pages_name_exist():
    parser = cli._parser()
    known = set(parser._subparsers._group_actions[0].choices)
    named = {command for text in PAGES.values() for command in _COMMAND.findall(text)}
    assert named <= known
