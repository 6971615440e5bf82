"""PyTorch models, exported with ``torch.export``, compiled into a small ``.pte`` file and run by a small C++ runtime.

Public names are loaded on first use (PEP 562): importing this package imports neither torch nor numpy, and the names of
the runtime work where torch is not installed. ``__init__.pyi`` is the one table of public names.

Example:
    >>> import executorch_py as et
    >>> module = et.load("model.pte")  # doctest: +SKIP
    >>> outputs = module(*inputs)  # doctest: +SKIP
"""

from executorch_py import _lazy
from executorch_py.compat import finder as _finder

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = _lazy.attach(__name__, __file__)
__all__ = ["__version__", *__all__]

_finder.start()
