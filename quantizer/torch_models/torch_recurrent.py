"""Recurrent layers that torch quantizes at run time, as loops over their steps, with ordinary operators.

As torch computes them: the inputs of all steps are quantized and multiplied at once, the state in each step.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

from executorch_py.errors import NotSupportedError
from executorch_py.graphs.recurrent import a_recurrent_layer, scan

from .torch_weights import PackedCell, PackedWeight


def linear_dynamically(x: torch.Tensor, weight: PackedWeight, reduce_range: bool = True) -> torch.Tensor:
    """A linear layer whose input is quantized in the call, as torch has it; with a weight of float16 it is not."""
    if weight.integers.dtype != torch.float16:
        x = measured(x, reduce_range)
    return functional.linear(x, weight.values(), weight.bias)


def measured(x: torch.Tensor, reduce_range: bool) -> torch.Tensor:
    """A tensor with 8 bits, or 7, of the range that it has in this call; around zero, where torch has unsigned
    integers.
    """
    q, limits = torch.ops.quantized_decomposed, (-64, 63) if reduce_range else (-128, 127)
    scale, point = q.choose_qparams.tensor(x, *limits, torch.finfo(torch.float32).eps, torch.int8)
    integers = q.quantize_per_tensor.tensor(x, scale, point, *limits, torch.int8)
    return q.dequantize_per_tensor.tensor(integers, scale, point, *limits, torch.int8)


def _lstm_step(x: torch.Tensor, h: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
    i, f, g, o = (x + h).chunk(4, -1)
    cell = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    hidden = torch.sigmoid(o) * torch.tanh(cell)
    return hidden, (hidden, cell)


def _gru_step(x: torch.Tensor, h: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
    xr, xz, xn = x.chunk(3, -1)
    hr, hz, hn = h.chunk(3, -1)
    update = torch.sigmoid(xz + hz)
    new = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
    hidden = (state[0] - new) * update + new
    return hidden, (hidden,)


_Step = Callable[[torch.Tensor, torch.Tensor, Any], tuple[torch.Tensor, Any]]


def _direction(
    cell: PackedCell, step: _Step, rows: torch.Tensor, state: tuple[torch.Tensor, ...], reverse: bool
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """One layer in one direction; ``rows`` [steps, batch, in]."""
    inputs = linear_dynamically(rows, cell.input, cell.reduce_range)
    weight, count = cell.state, len(state)

    def body(*operands: torch.Tensor) -> list[torch.Tensor]:
        before, x, held = operands[:count], operands[count], operands[count + 1 :]
        hidden, after = step(x, linear_dynamically(before[0], weight.holding(held), cell.reduce_range), before)
        return [*after, hidden.clone()]

    with a_recurrent_layer():
        *last, results = scan(body, [*state], [inputs.flip(0) if reverse else inputs], weight.held())
    return results.flip(0) if reverse else results, tuple(last)


def _layers(step: _Step, g: SimpleNamespace, states: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """All layers; ``states`` [layers * directions, batch, hidden] each."""
    rows = g.input.transpose(0, 1) if g.batch_first else g.input
    directions = 2 if g.bidirectional else 1
    last: list[Any] = []
    for layer in range(g.num_layers):
        results = []
        for direction in range(directions):
            index = layer * directions + direction
            state = tuple(one[index] for one in states)
            result, state = _direction(g.params[index], step, rows, state, direction == 1)
            results.append(result)
            last.append(state)
        rows = torch.cat(results, -1)
    rows = rows.transpose(0, 1) if g.batch_first else rows
    return rows, [torch.stack(parts) for parts in zip(*last, strict=True)]


def _named(names: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SimpleNamespace:
    given = SimpleNamespace(**{**dict(zip(names.split(), args, strict=False)), **kwargs})
    if not isinstance(given.params, (list, tuple)):
        raise NotSupportedError("a packed sequence in a quantized recurrent layer; give padded tensors")
    return given


def lstm(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    """What ``torch.quantized_lstm`` computes."""
    names = "input hx params has_biases num_layers dropout train bidirectional batch_first dtype use_dynamic"
    g = _named(names, args, kwargs)
    rows, states = _layers(_lstm_step, g, list(g.hx))
    return rows, *states


def gru(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    """What ``torch.quantized_gru`` computes."""
    g = _named("input hx params has_biases num_layers dropout train bidirectional batch_first", args, kwargs)
    rows, states = _layers(_gru_step, g, [g.hx])
    return rows, *states


def _cell(step: Callable[[torch.Tensor, torch.Tensor, Any], Any]) -> Callable[[SimpleNamespace], Any]:
    """A cell that a model calls itself."""

    def call(g: SimpleNamespace) -> Any:
        state = tuple(g.hx) if isinstance(g.hx, (list, tuple)) else (g.hx,)
        return step(linear_dynamically(g.input, g.w_ih), linear_dynamically(state[0], g.w_hh), state)

    return call


#: Operator of the namespace quantized -> what it computes.
CELLS: dict[str, Callable[[SimpleNamespace], Any]] = {
    "quantized_lstm_cell_dynamic": _cell(lambda x, h, state: _lstm_step(x, h, state)[1]),
    "quantized_gru_cell_dynamic": _cell(lambda x, h, state: _gru_step(x, h, state)[0]),
    "quantized_rnn_tanh_cell_dynamic": _cell(lambda x, h, state: torch.tanh(x + h)),
    "quantized_rnn_relu_cell_dynamic": _cell(lambda x, h, state: torch.relu(x + h)),
}
