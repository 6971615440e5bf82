"""What the structure tests share: the files of the repository as git has them."""

import functools
import subprocess
from pathlib import Path

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
