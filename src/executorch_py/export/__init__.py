"""From ``torch.export`` to the compiler: the Edge dialect in fx, and the import of it into the C++ IR.

Pipeline, in the order of the files::

    functionalize.py   training IR -> functional ATen      (in-place operators, inlined no_grad regions;
                                                            functional_regions.py: branches that write)
    decompose.py       functional ATen -> Edge             (node by node, with a memo; operators.py says what stays whole)
    dialect.py         is it Edge? errors name operator, source line and what to do
    importer.py        Edge -> et::ir::Program             (the only file that knows both fx and our IR;
                                                            guards.py: what torch assumed of sizes, as checks)
"""

import sys as _sys

from executorch_py.compat import finder as _finder

#: ``executorch_py.export`` is also the published path of recipes: those names come from ``executorch_py.recipes``.
__getattr__ = _finder.getter("export")
_sys.modules[__name__].__class__ = _finder.NamesFirst
