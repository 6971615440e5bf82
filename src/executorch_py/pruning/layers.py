"""Which weights of a model are pruned, and how much of each.

>>> found = select_weights(model, amount=0.5, layers={"classifier": None, nn.Linear: 0.8})  # doctest: +SKIP
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from executorch_py.errors import InvalidArgumentError, NotSupportedError

#: Modules whose weights can be pruned -> names of those parameters.
PRUNABLE: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Linear: ("weight",),
    nn.Bilinear: ("weight",),
    nn.modules.conv._ConvNd: ("weight",),
    nn.MultiheadAttention: ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"),
}

#: A module's name (with * and ?), which stands for the modules in it too, or a class of modules.
Pattern = str | type[nn.Module]
#: The part of zeros, "n:m" (n of m stay), or None: the layer stays as it is.
Amount = float | str | None


@dataclass(frozen=True)
class Target:
    """How far a weight is pruned: a part of its elements, or ``keep`` of each ``group`` along the input.

    Attributes:
        amount: Part of the elements that become zero, in [0, 1).
        keep: Elements of a group that stay; 0: no groups.
        group: Elements of a group.
    """

    amount: float
    keep: int = 0
    group: int = 0


@dataclass(frozen=True)
class Weight:
    """A parameter that is to be pruned.

    Attributes:
        name: Its full name, "encoder.0.weight".
        module: Its module.
        parameter: Its name there.
        target: How far.
        is_default: The amount was given for all layers, not for this one; only such weights share a global threshold.
    """

    name: str
    module: nn.Module
    parameter: str
    target: Target
    is_default: bool


def parse_target(amount: float | str, where: str) -> Target:
    """Reads an amount. ``where`` begins the message of the error.

    Raises:
        InvalidArgumentError: It is no number in [0, 1) and no "n:m" with 0 < n < m.
    """
    if isinstance(amount, str):
        match = re.fullmatch(r"(\d+):(\d+)", amount)
        if match and 0 < int(match[1]) < int(match[2]):
            keep, group = int(match[1]), int(match[2])
            return Target((group - keep) / group, keep, group)
        raise InvalidArgumentError(f"{where}: '{amount}' is no pattern; '2:4' says that 2 of every 4 elements stay")
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 <= amount < 1:
        raise InvalidArgumentError(
            f"{where}: the amount is {amount!r}; it must be the part of zeros, from 0 to below 1"
        )
    return Target(float(amount))


def select_weights(
    model: nn.Module, amount: float | str | None, layers: Mapping[Pattern, Amount] | None
) -> list[Weight]:
    """The weights to prune, in the order of the model's modules.

    Args:
        model: The model.
        amount: For all layers of PRUNABLE; None: only those of ``layers``.
        layers: Pattern -> amount. Of several patterns that fit a module the last one decides.

    Raises:
        InvalidArgumentError: A pattern fits nothing, an amount is none, or nothing is left to prune.
        NotSupportedError: A named module has weights that cannot be masked, or a weight that another module shares.
    """
    default = None if amount is None else parse_target(amount, "amount")
    rules = dict(layers or {})
    used: set[Pattern] = set()
    found: list[Weight] = []
    for name, module in model.named_modules():
        parameters = _parameters(module)
        target, is_default = (default, True)
        named = False
        for pattern, value in rules.items():
            if not _fits(pattern, name, module):
                continue
            named = named or pattern == name
            used.add(pattern)
            is_default = False
            target = None if value is None else parse_target(value, f"layer '{name}'")
        if target is not None and named and not any(_parameters(m) for m in module.modules()):
            raise NotSupportedError(
                f"'{name}' is a {type(module).__name__}, whose weights cannot be pruned; "
                f"that can be {', '.join(kind.__name__ for kind in PRUNABLE)}"
            )
        if target is not None:
            found += [Weight(_join(name, p), module, p, target, is_default) for p in parameters]
    for pattern in rules:
        if pattern not in used:
            raise InvalidArgumentError(
                f"layers: {_text(pattern)} fits no module of {type(model).__name__}; {_some(model)}"
            )
    if not found:
        raise InvalidArgumentError(f"nothing to prune: give an amount, or layers with amounts; {_some(model)}")
    _require_unshared(model, found)
    for weight in found:
        _require_sound(weight)
    return found


def _fits(pattern: Pattern, name: str, module: nn.Module) -> bool:
    if isinstance(pattern, str):
        return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}.*")
    if isinstance(pattern, type) and issubclass(pattern, nn.Module):
        return isinstance(module, pattern)
    raise InvalidArgumentError(f"layers: {pattern!r} is neither a name nor a class of modules")


def _parameters(module: nn.Module) -> list[str]:
    """Names of the parameters of a module that can be pruned, plain or masked already."""
    for kind, names in PRUNABLE.items():
        if isinstance(module, kind):
            return [name for name in names if getattr(module, name, None) is not None]
    return []


def _require_unshared(model: nn.Module, weights: list[Weight]) -> None:
    owners: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), []).append(name)
    for weight in weights:
        tensor = weight.module._parameters.get(weight.parameter)
        names = owners.get(id(tensor), [])
        if len(names) > 1:
            layer = weight.name.rpartition(".")[0]
            raise NotSupportedError(
                f"'{weight.name}' is the same parameter as '{next(n for n in names if n != weight.name)}', and a mask "
                f"on one of them would part the two; leave the layer out with layers={{'{layer}': None}}"
            )


def _require_sound(weight: Weight) -> None:
    tensor = getattr(weight.module, weight.parameter).detach()
    if not tensor.is_floating_point():
        raise NotSupportedError(f"'{weight.name}' has dtype {tensor.dtype}; floating-point weights can be pruned")
    if not bool(tensor.isfinite().all()):
        raise InvalidArgumentError(
            f"'{weight.name}' has elements that are NaN or infinite; their magnitude says nothing"
        )
    group = weight.target.group
    if group and tensor.shape[1] % group:
        layer = weight.name.rpartition(".")[0]
        raise InvalidArgumentError(
            f"'{weight.name}' has {tensor.shape[1]} inputs, no multiple of {group}; leave it out with "
            f"layers={{'{layer}': None}}, or give it another amount"
        )


def _join(module: str, parameter: str) -> str:
    return f"{module}.{parameter}" if module else parameter


def _text(pattern: Pattern) -> str:
    return f"'{pattern}'" if isinstance(pattern, str) else pattern.__name__


def _some(model: nn.Module) -> str:
    names = [name or type(module).__name__ for name, module in model.named_modules() if _parameters(module)]
    if not names:
        return "it has no layer whose weights can be pruned"
    return f"it has {', '.join(names[:8])}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")
