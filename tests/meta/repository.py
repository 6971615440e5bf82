"""What the structure tests share: the files of the repository as git has them, and the scripts of tools/ as modules."""

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """Files that git tracks, or in an unpacked archive all files outside what .gitignore names first."""
    result = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if result.returncode == 0 and result.stdout:
        names = result.stdout.split("\0")
        return tuple(ROOT / name for name in names if name and (ROOT / name).is_file())
    ignored = {"build", "dist", ".venv", ".venv-interop", ".git"}
    return tuple(path for path in ROOT.rglob("*") if path.is_file() and path.relative_to(ROOT).parts[0] not in ignored)


def text_of(path: Path) -> str | None:
    """The text of a file, or None for a binary one."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def load_tool(name: str) -> ModuleType:
    """A script of tools/, imported without running it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
