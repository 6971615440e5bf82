"""Whether modules train: for a while, so that a caller's model stays as it was; and whether a program does, which is
said.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from .sources import source_of

#: How schemas name that an operator computes as a model trains.
_TRAINS = ("train", "training", "use_input_stats")
#: Without these it does not differ: a share of elements that are dropped, statistics of its own.
_SHARES, _STATISTICS = ("p", "dropout", "dropout_p"), "running_mean"
_GRADIENTS = (OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT)
#: Operators that a warning names.
_MOST_NAMED = 3


@contextlib.contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Has a model in training or evaluation mode; afterwards each of its modules is in the mode that it had."""
    modes = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


class TrainingModeWarning(UserWarning):
    """A program computes as its model trains."""


def warn_of_training(method: str, program: ExportedProgram) -> None:
    """Warns where a program was exported from a model in training mode; one that gives gradients is meant to be."""
    if any(spec.kind in _GRADIENTS for spec in program.graph_signature.output_specs):
        return
    graphs = [part.graph for part in program.graph_module.modules() if isinstance(part, fx.GraphModule)]
    found = [node for graph in graphs for node in graph.nodes if trains(node)]
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        warnings.warn(
            f"method '{method}' computes as its model trains: {', '.join(map(_place, found[:_MOST_NAMED]))}{more}; "
            "call model.eval() before torch.export.export",
            TrainingModeWarning,
            stacklevel=4,
        )


def trains(node: fx.Node) -> bool:
    """Whether an operator drops elements or takes statistics of the batch, which it does not do after training."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return False
    given: dict[str, Any] = {argument.name: argument.default_value for argument in schema.arguments}
    given |= {**dict(zip(given, node.args, strict=False)), **node.kwargs}
    shares = [given[name] for name in _SHARES if name in given]
    if "dropout_p" in given:
        return _is_positive(given["dropout_p"])
    if not any(given.get(name) is True for name in _TRAINS):
        return False
    return all(map(_is_positive, shares)) and (_STATISTICS not in given or given[_STATISTICS] is not None)


def _is_positive(share: Any) -> bool:
    return not isinstance(share, (int, float)) or share > 0


def _place(node: fx.Node) -> str:
    source = source_of(node)
    where = [part for part in (source.module_path, f"{source.file}:{source.line}" if source.file else "") if part]
    return f"{node.target} ({', '.join(where)})" if where else str(node.target)
