"""Where an fx node comes from in the user's program: file, line, function, module path."""

import functools
import os
import re
import sys
from typing import NamedTuple

import torch
from torch import fx

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
#: Where PyTorch, this package and Python's own library lie: their lines call what the model's lines wanted.
_MACHINERY = tuple(
    os.path.realpath(os.path.dirname(file)) + os.sep
    for file in (torch.__file__, os.path.dirname(__file__), os.__file__)
)
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


class Source(NamedTuple):
    """The form in which the IR builder takes it. Empty and 0 mean not known."""

    fx_name: str = ""
    module_path: str = ""
    file: str = ""
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file else "an unknown line"
        return f"{where} in {self.module_path}" if self.module_path else where


def source_of(node: fx.Node) -> Source:
    """Source of ``node``; file names are relative to the working directory, or base names outside of it.
    Those of installed packages begin with the package.

    A line in a notebook is one of ``cell 3``, by the number that the cell had when it ran.
    """
    file, line, function = _user_frame(node.meta.get("stack_trace") or "")
    return Source(node.name, _module_path(node), file, line, function)


def _module_path(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = next(reversed(stack.values()))[0]
    # torch writes "L['self'].layers[0].attention" for some strategies; plain dotted paths for the others.
    if path.startswith("L['self']"):
        path = path[len("L['self']") :].lstrip(".")
    return re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", path) if "[" in path else path


def has_model_line(trace: str) -> bool:
    """Whether a stack trace has a frame of the model's code, the user's own or a package's."""
    return any(not _is_machinery(match["file"]) for match in _FRAME.finditer(trace))


@functools.lru_cache(maxsize=8192)
def _user_frame(trace: str) -> tuple[str, int, str]:
    """The innermost frame of the model's code, the user's own or a package's; the innermost of all when none is."""
    frames = [(match["file"], int(match["line"]), match["function"] or "") for match in _FRAME.finditer(trace)]
    if not frames:
        return "", 0, ""
    of_models = [frame for frame in frames if not _is_machinery(frame[0])]
    file, line, function = (of_models or frames)[-1]
    return _cell(file) or _shown(file), line, function


@functools.lru_cache(maxsize=1024)
def _is_machinery(file: str) -> bool:
    real = os.path.realpath(file)
    torch_or_own, python = real.startswith(_MACHINERY[:2]), real.startswith(_MACHINERY[2])
    return torch_or_own or (python and not _INSTALLED.search(real)) or file.startswith("<")


def _cell(file: str) -> str:
    """What a notebook calls the cell whose code IPython keeps under this name; "" for other files."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    return f"cell {number}" if isinstance(number, int) else ""


def _shown(file: str) -> str:
    """A file of an installed package from the package on, another one from the working directory on."""
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            return file.rpartition(folder)[2]
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return os.path.basename(file) if relative.startswith("..") else relative
