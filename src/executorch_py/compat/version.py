"""``version``: the version of this package."""

from executorch_py import __version__

__all__ = ["__version__"]
