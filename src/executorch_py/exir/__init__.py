"""The published names of the export side: ``from executorch_py.exir import to_edge, EdgeCompileConfig, …``.

Code written for the published ExecuTorch moves by changing the import from ``executorch.exir`` to
``executorch_py.exir``. Names are loaded on first use: the lowering package itself uses the interfaces in
``exir.backend``.
"""

from executorch_py import _lazy
from executorch_py.compat.finder import getter

_own, __dir__, __all__ = _lazy.attach(__name__, __file__)
__getattr__ = getter("exir", _own)
