"""Passes that say, on the node of each constant, which ``.ptd`` file it goes to; under their published names.

``to_executorch`` reads the tags. Constants inside delegates follow them as well. They say what
``ExecutorchBackendConfig.external_constants`` says, before the program is lowered: a tag on the exported module stays
through export and lowering.

Example:
    >>> module = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(1, 4),)).module()
    >>> _ = delegate_external_constants_pass_unlifted(module, lambda node: "weights")
    >>> [tag_of(node) for node in module.graph.nodes if node.op == "get_attr"]
    ['weights', 'weights']
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py import _arguments
from executorch_py.errors import InvalidTypeError

__all__ = [
    "delegate_external_constants_pass",
    "delegate_external_constants_pass_unlifted",
    "external_constants_pass",
    "tag_of",
]

#: Node of a constant -> name of its file; None keeps it in the program.
TagRule = Callable[[fx.Node], str | None]

_TAGS = ("constant_tag", "delegate_constant_tag")
_DEFAULT_TAG = "_default_external_constant"


def external_constants_pass(gm: fx.GraphModule, gen_tag_fn: TagRule | None = None) -> PassResult:
    """Tags constants that kernels or delegates read, in a program's graph.

    Args:
        gm: The graph module of an exported or Edge program.
        gen_tag_fn: Gives the name of a file; without it all constants go to one.
    """
    return _tagged(gm, "constant_tag", gen_tag_fn or (lambda node: _DEFAULT_TAG))


def delegate_external_constants_pass_unlifted(module: torch.nn.Module, gen_tag_fn: TagRule | None = None) -> PassResult:
    """Tags constants of an exported module (``exported.module()``), which is then exported again.

    Args:
        module: The module.
        gen_tag_fn: Gives the name of a file; without it nothing is tagged.
    """
    return _tagged(module, "delegate_constant_tag", gen_tag_fn or (lambda node: None))


def delegate_external_constants_pass(ep: ExportedProgram, gen_tag_fn: TagRule | None = None) -> PassResult:
    """Tags constants of an exported program, as :func:`delegate_external_constants_pass_unlifted` those of a module."""
    return _tagged(ep.graph_module, "delegate_constant_tag", gen_tag_fn or (lambda node: None))


def tag_of(node: fx.Node) -> Any:
    """The name of the file that a node's tag gives; None without one."""
    tags = {**node.meta, **node.meta.get("custom", {})}
    return next((tags[key] for key in _TAGS if tags.get(key)), None)


def _tagged(module: torch.nn.Module, key: str, rule: TagRule) -> PassResult:
    if not isinstance(module, fx.GraphModule):
        raise InvalidTypeError(f"constants are tagged in a torch.fx.GraphModule, not in a {type(module).__name__}")
    changed = False
    for node in module.graph.nodes:
        if node.op not in ("placeholder", "get_attr"):
            continue
        tag = rule(node)
        if tag is not None:
            # torch.export carries "custom" along.
            node.meta["custom"] = {**node.meta.get("custom", {}), key: _arguments.text("a constant's tag", tag)}
            changed = True
    return PassResult(module, changed)
