"""Makes an exported program functional: no operator changes a tensor, changes of state are outputs.

``torch.export`` gives a graph in the training dialect: in-place operators (``relu_``, ``add_``, ``copy_``), mutations
through views and calls of regions under ``no_grad`` stand in it as the model wrote them. torch's own functionalisation
traces the whole model once more (over a second for MobileNetV2); here the graph is rewritten in one walk:

* an in-place operator becomes its functional form, and later uses of the tensor see the new value;
* a write through a view is carried back to its base (``slice`` -> ``slice_scatter`` and so on). Other views of the base
  are taken again, from the new value, when they are next read;
* branches and bodies that mutate become functional ones (functional_regions.py);
* buffers and inputs that end with a new value become outputs of kind BUFFER_MUTATION or USER_INPUT_MUTATION.

Where this analysis is not certain, torch's functionalisation is used instead: slower, never wrong. Examples are a write
to ``reshape``, which may be a view or not, a cast hidden in an in-place operator, vmap, and batch_norm in training.

    >>> program = functionalize(torch.export.export(model, inputs))  # doctest: +SKIP
"""

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument

from executorch_py.errors import NotSupportedError
from executorch_py.export.dialect.in_place import auto_functionalized, changed_arguments, simplify
from executorch_py.export.dialect.operators import FRESH, is_composite
from executorch_py.graphs.nodes import arguments_of
from executorch_py.graphs.program_state import same_tensors
from executorch_py.graphs.rewriting import GraphWriter, with_guards_of
from executorch_py.graphs.sources import source_of

from .functional_regions import functional_call, is_control_flow
from .higher_order import needs_expansion

aten = torch.ops.aten


class _NotCertain(Exception):
    """The walk met something that it cannot make functional with certainty."""


def functionalize(program: ExportedProgram) -> ExportedProgram:
    """An equal program without mutation; ``program`` itself when it is functional already."""
    if not _needs_work(program) and not needs_expansion(program):
        return program
    if not needs_expansion(program):  # torch's way traces the bodies of such operators, too
        try:
            return Functionalizer(program).run()
        except _NotCertain:
            pass
    _require_torchs_way(program)
    try:
        with torch.no_grad():  # else torch prepares for a backward pass, which state that is written does not allow
            functional = with_guards_of(program.run_decompositions({}), program)
    except Exception as error:  # whatever torch's tracing comes upon
        raise NotSupportedError(
            f"PyTorch cannot make the program functional ({type(error).__name__}: {str(error).splitlines()[0]}); write "
            "changes of tensors in place as new tensors, above all inside of control flow"
        ) from error
    return simplify(functional)


# --------------------------------------------------------------------------------------------------------------- tables

#: Views whose result always shares memory, and how a new value of the view becomes a new value of its base:
#: function(emitter, base value, new view value, args, kwargs) -> new base value.
_Inverse = Callable[["Functionalizer", fx.Node, fx.Node, fx.Node], fx.Node]


def _scatter(target: OpOverload) -> _Inverse:
    def inverse(self: "Functionalizer", view: fx.Node, base: fx.Node, value: fx.Node) -> fx.Node:
        args = fx.map_arg(view.args[1:], self.read)
        kwargs = fx.map_arg(view.kwargs, self.read)
        return self.writer.emit(view, target, (base, value, *args), kwargs, base.meta["val"])

    return inverse


def _reshaped(self: "Functionalizer", view: fx.Node, base: fx.Node, value: fx.Node) -> fx.Node:
    sizes = list(base.meta["val"].shape)
    if not all(isinstance(size, int) for size in sizes):
        raise _NotCertain
    return self.writer.emit(view, aten.view.default, (value, sizes), None, base.meta["val"])


def _identity(self: "Functionalizer", view: fx.Node, base: fx.Node, value: fx.Node) -> fx.Node:
    return value


def _unpermuted(self: "Functionalizer", view: fx.Node, base: fx.Node, value: fx.Node) -> fx.Node:
    rank = base.meta["val"].dim()
    dims = [dim % rank for dim in arguments_of(view)["dims"]]
    return self.writer.emit(
        view, aten.permute.default, (value, [dims.index(i) for i in range(rank)]), None, base.meta["val"]
    )


def _again(self: "Functionalizer", view: fx.Node, base: fx.Node, value: fx.Node) -> fx.Node:
    return self.writer.emit(view, view.target, (value, *view.args[1:]), dict(view.kwargs), base.meta["val"])


def _squeezed(self: "Functionalizer", view: fx.Node, base: fx.Node, value: fx.Node) -> fx.Node:
    dim = arguments_of(view)["dim"] % view.meta["val"].dim()
    return self.writer.emit(view, aten.squeeze.dim, (value, dim), None, base.meta["val"])


def _leaves_gaps(unfold: fx.Node) -> bool:
    """Whether windows leave elements out: torch's inverse makes zeros of these."""
    base, dim, size, step = arguments_of(unfold).values()
    whole = base.meta["val"].shape[dim] if base.meta["val"].dim() else 1
    return bool(step > size or not isinstance(whole, int) or (whole - size) % step)


def _require_torchs_way(program: ExportedProgram) -> None:
    """Refuses what torch would compute wrongly without a word: a write through windows that leave elements out."""
    for node in program.graph.nodes:
        if node.op != "call_function" or not _is_mutating(node):
            continue
        source = node.args[0] if node.args else None
        while isinstance(source, fx.Node) and source.op == "call_function" and source.args:
            if source.target is aten.unfold.default and _leaves_gaps(source):
                raise NotSupportedError(
                    f"{source_of(node)}: {node.target} writes through unfold(), whose windows leave elements out, "
                    "which PyTorch would set to zero; write to a slice of the tensor instead"
                )
            source = source.args[0]


_VIEWS: dict[fx.node.Target, _Inverse] = {
    aten.alias.default: _identity,
    aten.detach.default: _identity,
    aten.detach_.default: _identity,
    aten.diagonal.default: _scatter(aten.diagonal_scatter.default),
    aten.permute.default: _unpermuted,
    aten.select.int: _scatter(aten.select_scatter.default),
    aten.slice.Tensor: _scatter(aten.slice_scatter.default),
    aten.squeeze.default: _reshaped,
    aten.squeeze.dim: _reshaped,
    aten.squeeze.dims: _reshaped,
    aten.t.default: _again,
    aten.transpose.int: _again,
    aten.unsqueeze.default: _squeezed,
    aten.view.default: _reshaped,
}

#: In-place operators that change nothing in inference.
_INERT_UNLESS_TRAINING = frozenset({aten.dropout_.default, aten.feature_dropout_.default, aten.alpha_dropout_.default})


def _is_inert(node: fx.Node) -> bool:
    return node.target in _INERT_UNLESS_TRAINING and arguments_of(node)["train"] is False


def _is_same_tensor(node: fx.Node) -> bool:
    """Whether ``x.to(…)`` is x: nothing names another dtype, layout in memory or place, or for a copy."""
    if getattr(node.target, "overloadpacket", None) is not aten.to or not isinstance(node.args[0], fx.Node):
        return False
    given, result = node.args[0].meta["val"], node.meta["val"]
    options = arguments_of(node)
    is_plain = options.get("memory_format") in (None, torch.preserve_format) and not options.get("copy")
    return is_plain and given.dtype == result.dtype and given.device == result.device


def _inlined_region(node: fx.Node) -> fx.GraphModule | None:
    """The body of a region that differs from its surroundings in nothing that matters for inference."""
    if not isinstance(node.target, HigherOrderOperator):
        return None
    name = node.target.name()
    if name == "wrap_with_set_grad_enabled":
        body = node.args[1]
    elif name == "wrap_with_autocast" and node.args[2] is False:
        body = node.args[4]
    else:
        return None
    return getattr(node.graph.owning_module, body.target)


def _region_operands(node: fx.Node) -> tuple:
    return node.args[2:] if node.target.name() == "wrap_with_set_grad_enabled" else node.args[5:]


def _is_mutating(node: fx.Node) -> bool:
    target = node.target
    if isinstance(target, OpOverload):
        if target._schema.is_mutable:
            return True
        return target is aten.batch_norm.default and bool(arguments_of(node)["training"])
    return False


def _needs_work(program: ExportedProgram) -> bool:
    for node in program.graph.nodes:
        if node.op == "call_function" and (_is_mutating(node) or _is_wrapper(node) or _is_transform(node)):
            return True
        if node.op == "get_attr" and _mutates(getattr(program.graph_module, node.target, None)):
            return True
    return False


def _is_wrapper(node: fx.Node) -> bool:
    return isinstance(node.target, HigherOrderOperator) and node.target.name().startswith("wrap_with_")


def _is_transform(node: fx.Node) -> bool:
    """A call of torch's vmap, which stands in the graph as the functions that open and close it."""
    return getattr(node.target, "__module__", "").startswith("torch._functorch")


def _mutates(module: Any) -> bool:
    return isinstance(module, fx.GraphModule) and any(
        node.op == "call_function" and (_is_mutating(node) or _is_wrapper(node) or _is_transform(node))
        for body in module.modules()
        if isinstance(body, fx.GraphModule)
        for node in body.graph.nodes
    )


def _functional_form(op: OpOverload) -> OpOverload:
    """``aten.add_.Tensor`` -> ``aten.add.Tensor``."""
    name = op._schema.name.split("::")
    if len(name) != 2 or not name[1].endswith("_") or name[0] != "aten":
        raise _NotCertain
    packet = getattr(aten, name[1][:-1], None)
    form = getattr(packet, op._overloadname, None) if packet is not None else None
    if form is None or form._schema.is_mutable:
        raise _NotCertain
    if [a.name for a in form._schema.arguments] != [a.name for a in op._schema.arguments]:
        raise _NotCertain
    return form


# ------------------------------------------------------------------------------------------------------------- the walk


class Functionalizer:
    """One walk over one program.

    Tensors of the old graph are *roots* (memory of their own) or views of a parent. ``_value`` holds each one's newest
    node in the new graph; ``_version`` counts the writes to a root, ``_seen`` says at which count a view's value was
    taken. ``_maybe`` holds, for a root that may in truth be a view (``reshape``), what it may share memory with, and
    the version of that. Reading it after a later write, or writing it, is where the analysis stops being certain.
    """

    def __init__(self, program: ExportedProgram, writer: GraphWriter | None = None) -> None:
        self.program = program
        self.writer = writer or GraphWriter(program)
        self._value: dict[fx.Node, Any] = {}
        self._parent: dict[fx.Node, fx.Node] = {}
        self._inverse: dict[fx.Node, _Inverse] = {}
        self._version: dict[fx.Node, int] = {}
        self._seen: dict[fx.Node, int] = {}
        self._maybe: dict[fx.Node, list[tuple[fx.Node, int]]] = {}
        self.written: set[fx.Node] = set()  # roots that a node wrote to
        self._elements: dict[fx.Node, list[Any]] = {}  # results of inlined regions
        self._results: dict[fx.Node, dict[int, fx.Node]] = {}  # of control flow that was rewritten
        self._same = same_tensors(program)
        self.held: dict[str, Any] = {}  # what get_attr nodes of the new graph name

    def run(self) -> ExportedProgram:
        self._walk_nodes(self.program.graph, None)
        return self._finish()

    def read(self, node: Any) -> Any:
        """The newest value of an old node."""
        root = self._root(node)
        self._require_current(root)
        parent = self._parent.get(node)
        if parent is None:
            return self._value[node]
        if self._seen[node] != self._version.get(root, 0):
            base = self.read(parent)
            if self._inverse[node] is _identity:
                self._value[node] = base
            else:
                args = fx.map_arg(node.args[1:], self.read)
                self._value[node] = self.writer.emit(
                    node, node.target, (base, *args), dict(node.kwargs), node.meta["val"]
                )
            self._seen[node] = self._version.get(root, 0)
        return self._value[node]

    def write(self, node: fx.Node, value: fx.Node) -> None:
        """``node`` now holds ``value``."""
        parent = self._parent.get(node)
        if parent is None:
            if node in self._maybe:
                raise _NotCertain
            self._value[node] = value
            self._version[node] = self._version.get(node, 0) + 1
            self.written.add(node)
            return
        if self._inverse[node] is not _identity:
            new = self._inverse[node](self, node, self.read(parent), value)
        else:
            new = value
        self.write(parent, new)
        self._value[node] = value
        self._seen[node] = self._version[self._root(node)]

    def _root(self, node: fx.Node) -> fx.Node:
        while (parent := self._parent.get(node)) is not None:
            node = parent
        return node

    def _require_current(self, root: fx.Node) -> None:
        """Nothing that ``root`` may share memory with was written since."""
        for other, version in self._maybe.get(root, ()):
            if self._version.get(other, 0) != version:
                raise _NotCertain
            self._require_current(other)

    def _join(self, node: fx.Node) -> None:
        """``node`` may share memory with any of its tensor inputs."""
        for source in node.all_input_nodes:
            if isinstance(source.meta.get("val"), (torch.Tensor, list, tuple)):
                root = self._root(source)
                self._maybe.setdefault(node, []).append((root, self._version.get(root, 0)))

    def _view(self, node: fx.Node, parent: fx.Node, inverse: _Inverse, value: Any) -> None:
        self._parent[node] = parent
        self._inverse[node] = inverse
        self._value[node] = value
        self._seen[node] = self._version.get(self._root(node), 0)

    def _walk_nodes(self, graph: fx.Graph, operands: tuple | None) -> list[Any]:
        """Rewrites a graph; ``operands`` are the old nodes for the placeholders of an inlined region."""
        index = 0
        for node in graph.nodes:
            if node.op == "placeholder":
                if operands is None:
                    self._value[node] = self.writer.copy_node(node, self.read)
                    if (first := self._same.get(node)) is not None:
                        self._view(node, first, _identity, self.read(first))
                else:
                    operand = operands[index]
                    index += 1
                    if isinstance(operand, fx.Node):
                        self._view(node, operand, _identity, self.read(operand))
                    else:
                        self._value[node] = operand
            elif node.op == "get_attr":
                if node.users and all(_inlined_region(user) is not None for user in node.users):
                    continue
                if operands is not None or "." in node.target:
                    raise _NotCertain
                held = getattr(graph.owning_module, node.target)
                if _mutates(held):
                    if not all(is_control_flow(user) for user in node.users):
                        raise _NotCertain
                    continue  # rewritten with the nodes that use it
                self.held[node.target] = held
                self._value[node] = self.writer.copy_node(node, self.read)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                return list(node.args[0]) if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
            else:
                raise _NotCertain
        return []

    def walk(self, graph: fx.Graph) -> None:
        """Rewrites the graph of a region; what it returns is read afterwards."""
        self._walk_nodes(graph, None)

    def inner(self, writer: GraphWriter) -> "Functionalizer":
        """One for a region of this program."""
        return Functionalizer(self.program, writer)

    def give_up(self) -> NoReturn:
        """Says that torch's functionalisation has to do it."""
        raise _NotCertain

    def hold(self, name: str, module: fx.GraphModule) -> fx.Node:
        """A node that names ``module`` in the new graph."""
        while self.held.setdefault(name, module) is not module:
            name += "_"
        return self.writer.graph.create_node("get_attr", name)

    def _call(self, node: fx.Node) -> None:
        target = node.target
        body = _inlined_region(node)
        if body is not None:
            self._elements[node] = self._walk_nodes(body.graph, _region_operands(node))
            return
        if _is_wrapper(node) or _is_transform(node):
            raise _NotCertain
        if is_control_flow(node) and any(
            isinstance(argument, fx.Node) and argument.op == "get_attr" and argument not in self._value
            for argument in node.args
        ):
            self._results[node] = functional_call(self, node)
            return
        if _is_inert(node):
            self._view(node, node.args[0], _identity, self.read(node.args[0]))
            return
        if _is_mutating(node):
            self._mutate(node)
            return
        if (target is aten.dropout.default and arguments_of(node)["train"] is False) or _is_same_tensor(node):
            # The input itself: dropout in inference, a conversion to what the tensor is already.
            self._view(node, node.args[0], _identity, self.read(node.args[0]))
            return
        if getattr(target, "__name__", "") == "getitem" and node.args[0] in self._results:
            self._value[node] = self._results[node.args[0]][node.args[1]]
            return
        if getattr(target, "__name__", "") == "getitem" and node.args[0] in self._elements:
            element = self._elements[node.args[0]][node.args[1]]
            if isinstance(element, fx.Node):
                self._view(node, element, _identity, self.read(element))
            else:
                self._value[node] = element
            return

        self._value[node] = self.writer.copy_node(node, self.read)
        inverse = _VIEWS.get(target)
        if inverse is not None:
            self._view(node, node.args[0], inverse, self._value[node])
        elif self._may_alias(node):
            self._join(node)

    def _may_alias(self, node: fx.Node) -> bool:
        target = node.target
        if not isinstance(target, OpOverload):
            return not is_control_flow(node) and (
                isinstance(target, HigherOrderOperator) or getattr(target, "__name__", "") == "getitem"
            )
        if target in FRESH:
            return False
        if any(result.alias_info is not None for result in target._schema.returns):
            return True
        return is_composite(target) and any(isinstance(a.meta.get("val"), torch.Tensor) for a in node.all_input_nodes)

    def _change(self, node: fx.Node) -> None:
        """An operator outside ATen that changes arguments: one functional call (in_place.py), then the new values."""
        op = node.target
        given = arguments_of(node)
        changed = {name: given.get(name) for name in changed_arguments(op)}
        if not all(isinstance(old, fx.Node) and isinstance(old.meta["val"], torch.Tensor) for old in changed.values()):
            raise _NotCertain
        if len({self._root(old) for old in changed.values()}) != len(changed):
            raise _NotCertain
        returned = node.meta.get("val")
        returned = returned if isinstance(returned, (tuple, list)) else (returned,)
        values = (*returned, *(old.meta["val"] for old in changed.values()))
        arguments = fx.map_arg(given, self.read)
        call = self.writer.emit(node, auto_functionalized, (op,), arguments, values)
        for index, old in enumerate(changed.values(), len(returned)):
            self.write(old, self.writer.emit(node, operator.getitem, (call, index), None, values[index]))
        if len(op._schema.returns) == 1:
            self._value[node] = self.writer.emit(node, operator.getitem, (call, 0), None, values[0])
        else:
            self._value[node] = call  # its users are getitem nodes of the same positions

    def _mutate(self, node: fx.Node) -> None:
        target = node.target
        if isinstance(target, OpOverload) and target.namespace != "aten":
            self._change(node)
            return
        schema = target._schema
        mutated = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if len(mutated) != 1 or mutated[0].name != schema.arguments[0].name or len(schema.returns) != 1:
            raise _NotCertain
        destination = node.args[0]
        if not isinstance(destination, fx.Node) or target is aten.resize_.default:
            raise _NotCertain
        args = fx.map_arg(node.args, self.read)
        kwargs = fx.map_arg(node.kwargs, self.read)
        old = destination.meta["val"]
        if target is aten.copy_.default:
            value = self._copied(node, old, args[1])
        else:
            form = _functional_form(target)
            if not _keeps_type(old, node):
                raise _NotCertain
            value = self.writer.emit(node, form, args, kwargs, node.meta["val"])
        self.write(destination, value)
        self._view(node, destination, _identity, value)

    def _copied(self, node: fx.Node, old: torch.Tensor, source: Any) -> fx.Node:
        """The value of ``x.copy_(source)``: source in the type and shape of x."""
        if not isinstance(source, fx.Node):
            raise _NotCertain
        new = source.meta["val"]
        sizes = list(old.shape)
        if not all(isinstance(size, int) for size in sizes) and list(new.shape) != sizes:
            raise _NotCertain
        if new.device != old.device:
            raise _NotCertain
        if new.dtype != old.dtype:
            with new.fake_mode:
                new = torch.empty_like(new, dtype=old.dtype)
            source = self.writer.emit(node, aten._to_copy.default, (source,), {"dtype": old.dtype}, new)
        if list(new.shape) != sizes:
            with old.fake_mode:
                new = new.expand(sizes)
            source = self.writer.emit(node, aten.expand.default, (source, sizes), None, new)
        return source

    def _finish(self) -> ExportedProgram:
        program = self.program
        output_node = next(reversed(program.graph.nodes))
        placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        outputs: list[Any] = []
        specs: list[OutputSpec] = []
        writes: list[tuple[OutputKind, str, Any]] = []
        for index, spec in enumerate(program.graph_signature.input_specs):
            node = placeholders.get(getattr(spec.arg, "name", ""))
            if node is None or node not in self.written:
                continue
            if spec.kind == InputKind.BUFFER:
                writes.append((OutputKind.BUFFER_MUTATION, spec.target, self._value[node]))
            elif spec.kind == InputKind.USER_INPUT:
                writes.append((OutputKind.USER_INPUT_MUTATION, spec.arg.name, self._value[node]))
            elif spec.kind == InputKind.CONSTANT_TENSOR:
                # A tensor that the module holds without having registered it: what is written is a buffer all the same.
                buffer = InputSpec(InputKind.BUFFER, spec.arg, spec.target, persistent=False)
                self.writer.input_specs[index] = buffer
                writes.append((OutputKind.BUFFER_MUTATION, spec.target, self._value[node]))
            else:  # a parameter: torch decides whether that is legal
                raise _NotCertain
        if any(spec.kind != OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs):
            raise _NotCertain
        for kind, target, value in sorted(writes, key=lambda write: write[0] == OutputKind.USER_INPUT_MUTATION):
            outputs.append(value)
            specs.append(OutputSpec(kind, TensorArgument(value.name), target))
        for spec, value in zip(program.graph_signature.output_specs, output_node.args[0], strict=True):
            outputs.append(self.read(value) if isinstance(value, fx.Node) else value)
            specs.append(spec)
        root = torch.nn.Module()
        for name, held in self.held.items():
            setattr(root, name, held)
        return self.writer.finish(outputs, specs, root, torch._export.verifier.Verifier)


def _keeps_type(old: torch.Tensor, node: fx.Node) -> bool:
    """Whether the functional form surely has the dtype and the sizes that the tensor written to has."""
    result = node.meta["val"]
    if result.dtype != old.dtype or result.shape != old.shape:
        return False
    for source in node.all_input_nodes:
        value = source.meta.get("val")
        if (
            isinstance(value, torch.Tensor)
            and value.dtype != old.dtype
            and value.dtype not in (torch.bool, torch.int64)
        ):
            return False
    if not old.dtype.is_floating_point:
        # A Python float with an integer tensor promotes; eager then refuses, except where it casts (div_, mean_).
        scalars = [a for a in (*node.args, *node.kwargs.values()) if isinstance(a, (float, bool))]
        return not scalars and "div" not in str(node.target)
    return True
