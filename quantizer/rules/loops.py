"""Recurrent layers as loops: torch's ``scan``, whose body is one step of the layer.

A quantizer annotates the body once, all steps go through its observers, and ``fuse-recurrent-steps`` makes one operator
of it. The products of the inputs stand in front of the loop, as torch itself computes them. Without such an operator
(a projection, ``nn.RNN``, integers of 16 bits) the program holds the loop.

While a module is prepared, its loops are calls of ``turns``, which runs observers and gradients as any code does. What
a body reads of the module around it is known to it (``known_in_bodies``) or stands in it (``held_in_bodies``).
Afterwards the loop takes it as operands again (``given_to_bodies``).
"""

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.nn.functional import linear

from executorch_py.graphs.nodes import arguments_of

from .matching import OF_SIZES, VALUE, is_constant, is_of_sizes

aten = torch.ops.aten
scan = torch.ops.higher_order.scan


def turns(body: fx.GraphModule, initial: Any, scanned: Any, captured: Any) -> tuple[torch.Tensor, ...]:
    """What ``scan`` computes, turn by turn. What all turns share is computed once, as weights between integers."""
    interpreter = fx.Interpreter(body)
    interpreter.extra_traceback = False
    inputs = [node for node in body.graph.nodes if node.op == "placeholder"]
    interpreter.env = once = dict(zip(inputs[len(initial) + len(scanned) :], captured, strict=True))
    for node in body.graph.nodes:
        if node.op == "get_attr" or _is_same_in_turns(node, once):
            once[node] = interpreter.run_node(node)
    state, rows = list(initial), []
    for items in zip(*(one.unbind(0) for one in scanned), strict=True):
        results = interpreter.run(*state, *items, initial_env=dict(once), enable_io_processing=False)
        state = list(results[: len(initial)])
        rows.append(results[len(initial) :])
    return (*state, *(torch.stack(one) for one in zip(*rows, strict=True)))


def _is_same_in_turns(node: fx.Node, once: dict[fx.Node, Any]) -> bool:
    sources = node.all_input_nodes
    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return node.op.startswith("call_") and bool(sources) and not is_random and all(one in once for one in sources)


#: Loops -> the argument that is the body.
BODIES = {scan: 0, turns: 0, torch.ops.higher_order.while_loop: 1}


Step = Callable[..., tuple[torch.Tensor, ...]]


def _lstm_step(h: torch.Tensor, c: torch.Tensor, x: torch.Tensor, w: Any, b: Any, r: Any) -> tuple[torch.Tensor, ...]:
    i, f, g, o = (linear(h, w, b) + x).chunk(4, -1)
    cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    hidden = torch.sigmoid(o) * torch.tanh(cell)
    return hidden if r is None else linear(hidden, r), cell


def _gru_step(h: torch.Tensor, x: torch.Tensor, w: Any, b: Any, r: Any) -> tuple[torch.Tensor, ...]:
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), linear(h, w, b).chunk(3, -1)
    update = torch.sigmoid(hz + xz)
    new = torch.tanh(xn + hn * torch.sigmoid(hr + xr))
    return ((h - new) * update + new,)


def _tanh_step(h: torch.Tensor, x: torch.Tensor, w: Any, b: Any, r: Any) -> tuple[torch.Tensor, ...]:
    return (torch.tanh(linear(h, w, b) + x),)


def _relu_step(h: torch.Tensor, x: torch.Tensor, w: Any, b: Any, r: Any) -> tuple[torch.Tensor, ...]:
    return (torch.relu(linear(h, w, b) + x),)


def _direction(
    step: Step,
    rows: torch.Tensor,
    states: list[torch.Tensor],
    of_input: tuple[Any, Any],
    of_state: list[Any],
    reverse: bool,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """One layer in one direction: the hidden states of all steps, and the last states."""
    products = linear(rows, *of_input)
    count = len(states) + 1

    def body(*operands: torch.Tensor) -> list[torch.Tensor]:
        constants = iter(operands[count:])
        after = step(*operands[:count], *(None if one is None else next(constants) for one in of_state))
        return [*after, after[0].clone()]

    captured = tuple(one for one in of_state if one is not None)
    *last, hidden = scan(body, states, [products.flip(0) if reverse else products], captured)
    return hidden.flip(0) if reverse else hidden, last


def _layers(
    step: Step,
    rows: torch.Tensor,
    hx: Any,
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """What a recurrent layer's operator computes."""
    rows = rows.transpose(0, 1) if batch_first else rows
    states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    directions = 2 if bidirectional else 1
    count = len(params) // (num_layers * directions)
    last: list[list[torch.Tensor]] = []
    for layer in range(num_layers):
        results = []
        if layer > 0 and train and dropout > 0:
            rows = torch.dropout(rows, dropout, train)
        for direction in range(directions):
            index = layer * directions + direction
            w_input, w_hidden, *rest = params[index * count : (index + 1) * count]
            b_input, b_hidden = rest[:2] if has_biases else (None, None)
            projection = rest[-1] if len(rest) % 2 else None
            result, after = _direction(
                step,
                rows,
                [one[index] for one in states],
                (w_input, b_input),
                [w_hidden, b_hidden, projection],
                direction == 1,
            )
            results.append(result)
            last.append(after)
        rows = torch.cat(results, -1) if len(results) > 1 else results[0]
    rows = rows.transpose(0, 1) if batch_first else rows
    return (rows, *(torch.stack(one) for one in zip(*last, strict=True)))


#: Recurrent layers -> their step.
_STEPS: dict[Any, Step] = {
    aten.lstm.input: _lstm_step,
    aten.gru.input: _gru_step,
    aten.rnn_tanh.input: _tanh_step,
    aten.rnn_relu.input: _relu_step,
}


def written(target: Any) -> Callable[..., Any]:
    """What an operator is replaced by: a recurrent layer by its loops."""
    step = _STEPS.get(target)
    return target if step is None else functools.partial(_layers, step)


def is_one_operator(node: fx.Node) -> bool:
    """Whether ``fuse-recurrent-steps`` knows a recurrent layer's loops: an LSTM's without a projection, a GRU's."""
    if node.target not in (aten.lstm.input, aten.gru.input):
        return False
    given = arguments_of(node)
    return len(given["params"]) // (given["num_layers"] * (2 if given["bidirectional"] else 1)) in (2, 4)


def bodies_of(module: fx.GraphModule) -> Iterator[tuple[fx.Node, fx.GraphModule]]:
    """The loops of a graph with their bodies."""
    for node in module.graph.nodes:
        if node.target in BODIES:
            yield node, module.get_submodule(body_name(node))


def body_name(loop: fx.Node) -> str:
    """The name by which a module holds the body of a loop."""
    return str(loop.args[BODIES[loop.target]].target)  # type: ignore[union-attr]


def graphs_of(module: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """A module, the bodies of its loops, and those inside of them."""
    yield module
    for _, body in bodies_of(module):
        yield from graphs_of(body)


def _behind_observers(node: fx.Node) -> fx.Node:
    """The value that an observer measures."""
    return _behind_observers(node.all_input_nodes[0]) if node.op == "call_module" else node


def known_in_bodies(module: fx.GraphModule) -> None:
    """Says to the inputs of bodies what they are in all turns, in place: a constant of the module, or made of sizes."""
    for node, body in bodies_of(module):
        if node.target is not scan:
            continue
        _, initial, scanned, captured = node.args
        inputs = [one for one in body.graph.nodes if one.op == "placeholder"]
        items = _behind_observers(scanned[0]).meta.get("val") if scanned else None
        if items is not None and items.shape[0] == 1:  # no state but the first one
            for state, placeholder in zip(initial, inputs, strict=False):
                placeholder.meta[OF_SIZES] = isinstance(state, fx.Node) and is_of_sizes(state)
        for operand, placeholder in zip(captured, inputs[len(initial) + len(scanned) :], strict=True):
            if isinstance(operand, fx.Node) and operand.op == "get_attr" and is_constant(operand):
                placeholder.meta[VALUE] = operator.attrgetter(str(operand.target))(module)


def held_in_bodies(module: fx.GraphModule) -> None:
    """Constants that loops take as operands become constants of their bodies, in place."""
    for node, body in bodies_of(module):
        if node.target not in (scan, turns):
            continue
        reference, initial, scanned, captured = node.args
        inputs = [one for one in body.graph.nodes if one.op == "placeholder"]
        kept = []
        for operand, placeholder in zip(captured, inputs[len(initial) + len(scanned) :], strict=True):
            if VALUE not in placeholder.meta:
                kept.append(operand)
                continue
            name = str(operand.target).replace(".", "_")
            name = name if name.isidentifier() else f"_{name}"  # "0_weight", of a layer in a Sequential
            _hold(body, name, operator.attrgetter(str(operand.target))(module))
            with body.graph.inserting_before(placeholder):
                constant = body.graph.get_attr(name)
            constant.meta = {key: value for key, value in placeholder.meta.items() if key != VALUE}
            placeholder.replace_all_uses_with(constant)
            body.graph.erase_node(placeholder)
        node.args = (reference, initial, scanned, tuple(kept))
        body.recompile()


def given_to_bodies(module: fx.GraphModule, typed: Callable[[torch.Tensor], Any] | None = None) -> None:
    """The opposite of ``held_in_bodies``, for what the constants have become. ``typed`` gives the type of one."""
    for node, body in list(bodies_of(module)):
        if node.target is not scan:
            continue
        reference, initial, scanned, captured = node.args
        given = list(captured)
        constants = [one for one in body.graph.nodes if one.op == "get_attr" and _is_tensor(body, one)]
        inputs = [one for one in body.graph.nodes if one.op == "placeholder"]
        for before, one in itertools.pairwise(inputs):  # what was computed from constants stood between them
            before.append(one)
        for constant in constants:
            name = f"{reference.target}_{constant.target}"
            if not hasattr(module, name):
                _hold(module, name, getattr(body, constant.target))
            with module.graph.inserting_before(node):
                operand = module.graph.get_attr(name)
            with body.graph.inserting_after(inputs[-1]):
                inputs.append(body.graph.placeholder(constant.target))
            inputs[-1].meta = dict(constant.meta)
            if typed is not None:
                inputs[-1].meta["val"] = typed(getattr(body, constant.target))
            constant.replace_all_uses_with(inputs[-1])
            body.graph.erase_node(constant)
            given.append(operand)
        node.args = (reference, initial, scanned, tuple(given))
        for name in {str(constant.target) for constant in constants}:
            delattr(body, name)
        body.recompile()
    module.recompile()


def run_by(module: fx.GraphModule, runner: Any) -> None:
    """Has the loops over items of a graph run by ``turns``, or by ``scan`` again, in place."""
    for node, _ in bodies_of(module):
        if node.target in (scan, turns):
            node.target = runner
    module.recompile()


def _is_tensor(module: fx.GraphModule, node: fx.Node) -> bool:
    return isinstance(getattr(module, str(node.target)), torch.Tensor)


def _hold(module: fx.GraphModule, name: str, value: torch.Tensor) -> None:
    if isinstance(value, torch.nn.Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)
