"""Where an fx node comes from in the user's program: file, line, function, module path."""

import functools
import os
import re
import site
import sys
from typing import NamedTuple

from torch import fx

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_LIBRARY_MARKS = tuple(
    {os.path.realpath(path) for path in (*site.getsitepackages(), os.path.dirname(os.__file__), sys.prefix)}
)


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
    """Source of ``node``; file names are relative to the working directory, or base names outside of it."""
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


@functools.lru_cache(maxsize=8192)
def _user_frame(trace: str) -> tuple[str, int, str]:
    """The innermost frame that is the user's own; the innermost of all when none is."""
    frames = [(match["file"], int(match["line"]), match["function"] or "") for match in _FRAME.finditer(trace)]
    if not frames:
        return "", 0, ""
    own = [frame for frame in frames if not _is_library(frame[0])]
    file, line, function = (own or frames)[-1]
    return _shown(file), line, function


@functools.lru_cache(maxsize=1024)
def _is_library(file: str) -> bool:
    return os.path.realpath(file).startswith(_LIBRARY_MARKS) or file.startswith("<")


def _shown(file: str) -> str:
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return os.path.basename(file) if relative.startswith("..") else relative
