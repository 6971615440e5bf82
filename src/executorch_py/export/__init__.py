"""From ``torch.export`` to the compiler: the Edge dialect in fx, and the import of it into the C++ IR.

The packages, in the order of the pipeline::

    functional/   training IR -> functional ATen  (in-place operators, inlined no_grad regions, branches that write)
    decompose/    functional ATen -> Edge         (node by node, with a memo)
    dialect/      is it Edge? operators that stay whole, and errors that name operator, source line and what to do
    importer/     Edge -> et::ir::Program         (programs.py is the only file that knows both fx and our IR)
"""

import sys as _sys

from executorch_py.compat import finder as _finder

#: ``executorch_py.export`` is also the published path of recipes: those names come from ``executorch_py.recipes``.
__getattr__ = _finder.getter("export")
_sys.modules[__name__].__class__ = _finder.NamesFirst
