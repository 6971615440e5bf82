"""Passes under their published names. Names are loaded on first use."""

from executorch_py import _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, __file__)
