"""Names of quantized weights: that of the module's own weight instead of ``_frozen_param0``.

Quantizers number what they fold: the weight of ``head`` becomes ``_frozen_param1``, its scales ``_scale_1``, and with
another model in front other numbers. Rules for external constants, ``.ptd`` files and delegates name constants, so a
program is given the names that its modules have: ``head.weight``, ``head.weight_scale``.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re
from collections import deque
from collections.abc import Iterator

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from .nodes import arguments_of, is_value_preserving, kind_of
from .rewriting import copied
from .sources import source_of

__all__ = ["with_weight_names"]

_NUMBERED = re.compile(
    r"_(frozen_param|scale_|zero_point_|lifted_by_edge_)\d+|_folded_\w+|"
    r"_activation_post_process_\d+_(integers|scales|zero_points)"
)
#: Arguments of a dequantize node -> what is put behind the weight's name.
_BEHIND = {"scale": "_scale", "scales": "_scale", "zero_point": "_zero_point", "zero_points": "_zero_point"}


def with_weight_names(program: ExportedProgram) -> ExportedProgram:
    """The program with such names where the module is known; itself when there are none to give."""
    signature = program.graph_signature
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    taken = {spec.target for spec in signature.input_specs}
    unread = {spec.target for spec in signature.input_specs if spec.target and not placeholders[spec.arg.name].users}
    chosen: dict[str, str] = {}
    for spec in signature.input_specs:
        if spec.kind is InputKind.USER_INPUT or not _NUMBERED.fullmatch(spec.target or ""):
            continue
        name = _name_in_module(placeholders[spec.arg.name])
        if not name:
            continue
        free = next(one for one in _numbered(name) if one not in taken)
        taken.add(free)
        if name in unread:  # what it was made of, which nobody reads
            unread.remove(name)
            chosen[name], free = free, name
        chosen[spec.target] = free
    return _renamed(program, chosen) if chosen else program


def _name_in_module(constant: fx.Node) -> str:
    """Module path and argument of the first node that computes with a constant; "" when it lies in no module."""
    waiting, behind = deque([constant]), ""
    while waiting:
        node = waiting.popleft()
        for user in sorted(node.users):
            if not isinstance(user.target, OpOverload):
                continue
            argument = next((name for name, value in arguments_of(user).items() if value is node), "")
            if kind_of(user) == "dequantize" or is_value_preserving(user):
                behind = behind or _BEHIND.get(argument, "")
                waiting.append(user)
            elif argument:
                path = source_of(user).module_path
                return f"{path}.{argument}{behind}" if path else f"{argument}{behind}"
    return ""


def _numbered(name: str) -> Iterator[str]:
    """The name, then with a number: attention has several weights in one module."""
    yield name
    for number in itertools.count(1):
        yield f"{name}_{number}"


def _renamed(program: ExportedProgram, chosen: dict[str, str]) -> ExportedProgram:
    new = copied(program)
    nodes = {node.name: node for node in new.graph.nodes if node.op == "placeholder"}
    specs = []
    for spec in new.graph_signature.input_specs:
        if spec.target not in chosen:
            specs.append(spec)
            continue
        node = nodes[spec.arg.name]
        node._rename(f"{node.name[:2]}{chosen[spec.target].replace('.', '_')}")
        node.target = node.name
        arg = dataclasses.replace(spec.arg, name=node.name)
        specs.append(dataclasses.replace(spec, arg=arg, target=chosen[spec.target]))
    new._graph_signature = copy.copy(new.graph_signature)
    new._graph_signature.input_specs = specs
    new._state_dict = {chosen.get(name, name): value for name, value in program.state_dict.items()}
    new._constants = {chosen.get(name, name): value for name, value in program.constants.items()}
    new.graph_module.recompile()
    return new
