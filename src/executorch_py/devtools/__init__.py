"""Tools for developers: what a program does, how long it takes, how far its numbers are from the model's.

The names are those of the published package and more; ``__init__.pyi`` lists them. They are loaded on first use.
"""

from executorch_py import _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, __file__)
