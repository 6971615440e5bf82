"""Recurrent layers whose number of steps stays dynamic while torch.export traces.

torch computes the types of what ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` return by unrolling them, which fixes the number
of steps. Their types follow from their arguments' types alone:

>>> length = torch.export.Dim("length", min=1, max=200)  # doctest: +SKIP
>>> with et.dynamic_sequences():  # doctest: +SKIP
...     exported = torch.export.export(model, (sequence,), dynamic_shapes=({1: length},))
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._C import DispatchKey
from torch._subclasses import FakeTensor

from executorch_py.errors import NotSupportedError
from executorch_py.export.dialect.operators import RECURRENT
from executorch_py.graphs.nodes import arguments_of, named_arguments
from executorch_py.graphs.sources import source_of


@contextlib.contextmanager
def dynamic_sequences() -> Iterator[None]:
    """While active, ``torch.export.export`` leaves the sequence dimension of recurrent layers dynamic.

    Nothing else changes: layers compute what they compute, and what is not traced runs as ever. Not for several threads
    that trace at the same time.
    """
    before = {op: dict(op.py_kernels) for op in RECURRENT}
    try:
        for op in RECURRENT:
            for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd):
                if key in before[op]:
                    op.py_kernels[key] = _typed(op, before[op][key])
            op._dispatch_cache.clear()
        yield
    finally:
        for op, kernels in before.items():
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


def _typed(op: Any, original: Any) -> Any:
    def results(*args: Any) -> tuple[torch.Tensor, ...]:
        if not isinstance(args[0], FakeTensor):
            return original(*args)
        given = named_arguments(op, args, {})
        rows = args[0]
        states: Sequence[torch.Tensor] = given["hx"] if isinstance(given["hx"], (list, tuple)) else [given["hx"]]
        columns = states[0].shape[2] * (2 if given["bidirectional"] else 1)
        return rows.new_empty((*rows.shape[:-1], columns)), *(torch.empty_like(state) for state in states)

    return results


def require_fixed_steps(node: fx.Node) -> None:
    """Before a recurrent layer is unrolled.

    Raises:
        NotSupportedError: Only a run knows the number of steps; says which layer, where, and what to do.
    """
    target: Any = node.target
    arguments = arguments_of(node)
    if "batch_sizes" not in arguments:
        dim = 1 if arguments["batch_first"] else 0
        if isinstance(node.args[0].meta["val"].shape[dim], int):
            return
    source = source_of(node)
    where = f" at {source.file}:{source.line}" if source.file else ""
    raise NotSupportedError(
        f"{target}{where}: only a run knows the number of steps, so it cannot be unrolled into smaller operators; "
        "export it with a fixed length, or keep it whole (no decompose_ops, no compatible=True)"
    )
