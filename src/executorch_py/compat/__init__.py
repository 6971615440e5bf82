"""Code that was written for the published package, ``executorch``, runs here.

Change the root of its imports: ``from executorch.exir import to_edge`` becomes ``from executorch_py.exir import
to_edge``. Or leave the source as it is, where the published package is not installed:

>>> from executorch_py import compat
>>> compat.install()  # doctest: +SKIP
>>> from executorch.exir import to_edge  # executorch_py's  # doctest: +SKIP

``published.py`` is the one table of the published modules. ``finder.py`` makes them from it, ``stubs.py`` tells type
checkers, and ``page.py`` writes the page on moving over.
"""

from executorch_py.compat.finder import install

__all__ = ["install"]
