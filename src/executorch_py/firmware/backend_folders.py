"""What the backends of this build have for firmware: their folders, and the modules ``firmware`` in these."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from .kernels import PACKAGED

__all__ = ["accelerators", "firmware_module", "folders"]


def folders() -> dict[str, str]:
    """Backend id -> folder, of the backends that firmware may have."""
    table = PACKAGED / "backends.txt"
    rows = table.read_text(encoding="utf-8").splitlines() if table.is_file() else []
    return dict(row.split() for row in rows if row)


def firmware_module(folder: str) -> ModuleType | None:
    """The module ``firmware`` of a backend's folder; None where it has none."""
    name = f"executorch_py.backends.{folder}.firmware"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def accelerators() -> dict[str, str]:
    """Accelerator -> the target whose processor it stands beside: ``ACCELERATORS`` of the backends' modules."""
    found: dict[str, str] = {}
    for folder in folders().values():
        found |= getattr(firmware_module(folder), "ACCELERATORS", {})
    return found
