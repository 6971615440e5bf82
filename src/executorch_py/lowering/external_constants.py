"""Which ``.ptd`` file a constant goes to: the rule of a configuration, and tags on nodes (external_constants_pass.py).

The rule says it; where it names no file, the tag does. Constants inside delegates go the same way as those of kernels.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from executorch_py.exir.passes.external_constants_pass import tag_of
from executorch_py.export.importer.programs import ExternalFile

#: Where constants go when nobody names a file; the published name.
DEFAULT_FILE = "_default_external_constant"


def external_file_of(rule: Any) -> ExternalFile:
    """What ``ExecutorchBackendConfig.external_constants`` means, for the importer.

    Raises:
        InvalidTypeError: The rule takes neither a node, nor a name and a tensor.
    """
    ask = _asked(rule)

    def file_of(node: fx.Node, symbol: str, tensor: torch.Tensor) -> str:
        named = ask(node, symbol, tensor)
        named = tag_of(node) if named is None or named == "" else named
        name = (DEFAULT_FILE if rule is True else "") if named is None else named
        if not isinstance(name, str):
            raise InvalidTypeError(
                f"external_constants gave {name!r:.80} for '{symbol}', must give the name of a .ptd file, or '' or "
                "None to keep it in the program"
            )
        if "/" in name or not name.isprintable():
            raise InvalidArgumentError(f"external_constants gave {name!r} for '{symbol}', which is no name of a file")
        return name

    return file_of


def _asked(rule: Any) -> Callable[[fx.Node, str, torch.Tensor], Any]:
    if isinstance(rule, bool):
        return lambda node, symbol, tensor: None
    if _takes(rule, 2):
        return lambda node, symbol, tensor: rule(symbol, tensor)
    if _takes(rule, 1):
        return lambda node, symbol, tensor: rule(node)
    raise InvalidTypeError(
        f"external_constants takes {inspect.signature(rule)}, must take (name, tensor), or (node) as the published one"
    )


def _takes(function: Any, count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a function of C that does not say what it takes
        return count == 1
    return True
