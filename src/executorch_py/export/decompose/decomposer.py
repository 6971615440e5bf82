"""Functional ATen -> Edge: each operator by itself, each distinct one traced once.

``run_decompositions`` traces the whole model again, through every dispatcher layer. An operator's decomposition,
however, depends on nothing but its arguments' types and constants. So each node is looked up in a memo by (operator,
types of its tensors, constants); a miss traces that one operator with fake tensors (``make_fx``), a hit copies the few
nodes of the replacement. The commonest operators need no trace at all (rewrites.py).

    >>> edge = decompose(functionalize(exported), kept=frozenset(KEPT_WHOLE))  # doctest: +SKIP

Views become their ``*_copy`` forms, and every value is row-major: layout is the compiler's business from here on.
Checks (``torch._check``, torch.export's own) stay: the runtime enforces them.
"""

import contextlib
import copy
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.export import ExportedProgram
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from executorch_py.export.dialect.custom_operators import kernel_form, operator_name
from executorch_py.export.dialect.decompositions import OWN_DECOMPOSITIONS, training_decompositions
from executorch_py.export.dialect.deformable import torchvision_decompositions
from executorch_py.export.dialect.edge import EdgeVerifier
from executorch_py.export.dialect.operators import (
    DROPPED,
    KEPT_WHOLE,
    RECURRENT,
    VIEW_TO_COPY,
    decomposition_table,
    is_composite,
    is_whole,
)
from executorch_py.graphs.dtypes import dtype_code
from executorch_py.graphs.nodes import fake_mode_of
from executorch_py.graphs.rewriting import (
    CHECKS,
    GraphWriter,
    RegionWriter,
    inherited_meta,
    is_needed,
    nodes_with_bodies,
)
from executorch_py.graphs.sources import has_model_line
from executorch_py.operators import kernels_of_operator, known_operators

from .complex_numbers import write_complex_numbers
from .published_forms import rewrite as rewrite_published
from .recurrent import require_fixed_steps
from .rewrites import RULES

aten = torch.ops.aten

#: Says of a node whether an operator in ``kept`` is really to be kept there (a partitioner's filter).
KeepFilter = Callable[[fx.Node], bool]


def decompose(
    program: ExportedProgram,
    kept: frozenset[OpOverload] = frozenset(KEPT_WHOLE),
    keep_filter: KeepFilter | None = None,
    keep_checks: bool = True,
    published: bool = False,
) -> ExportedProgram:
    """The program in the Edge dialect.

    Args:
        program: a functional program (functionalize.py).
        kept: operators that are not decomposed.
        keep_filter: called for each node whose operator is in ``kept`` and not in KEPT_WHOLE; False decomposes it.
        keep_checks: leave in what ``torch._check`` and its kin check at run time.
        published: write calls as the official runtime's kernels take them (published_forms.py).
    """
    return Decomposer(program, kept, keep_filter, DROPPED if keep_checks else DROPPED | CHECKS, published).run()


def _lacks_complex_kernel(node: fx.Node) -> bool:
    """An operator that is kept for its kernel of real numbers, called with complex ones."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or not value.is_complex():
        return False
    info = known_operators().get(operator_name(node.target))
    return info is not None and not info.takes(dtype_code(value.dtype))


def _without_kernel(table: dict[OpOverload, Callable]) -> dict[OpOverload, Callable]:
    """Those operators that no loaded library has a kernel of: a user's own kernel is taken."""
    return {op: function for op, function in table.items() if not kernels_of_operator(kernel_form(op).name)}


class Decomposer:
    """One walk over one program. rewrites.py calls ``emit``, ``first_of`` and ``empty_like``."""

    def __init__(
        self,
        program: ExportedProgram,
        kept: frozenset[OpOverload],
        keep_filter: KeepFilter | None,
        dropped: frozenset[OpOverload],
        published: bool = False,
    ) -> None:
        self.program = program
        self._published = published
        self._dropped = dropped
        self.writer = GraphWriter(program)
        self.kept = kept
        self._keep_filter = keep_filter
        self._table = decomposition_table(kept)
        late = {**training_decompositions(), **_without_kernel(torchvision_decompositions())}
        if late:
            self._table = {**self._table, **late}
        self._kept_composites = [op for op in kept if is_composite(op)]
        self._own_composites = {op: OWN_DECOMPOSITIONS[op] for op in OWN_DECOMPOSITIONS if is_composite(op)}
        self._memo: dict[Any, _Replacement | None] = {}
        self._keys: dict[fx.Node, Any] = {}
        self._empty: dict[Any, torch.Tensor] = {}
        self._value: dict[fx.Node, Any] = {}
        self._root = torch.nn.Module()
        self._fake_mode = fake_mode_of(program)
        self._composites = _HeldComposites()

    # ------------------------------------------------------------------------------------------------ used by the rules

    def emit(
        self, origin: fx.Node, target: Any, args: tuple, value: Any, kwargs: dict[str, Any] | None = None
    ) -> fx.Node:
        """A new call that stands for (a part of) ``origin``."""
        return self.writer.emit(origin, target, args, kwargs, self._row_major(value))

    def first_of(self, origin: fx.Node, target: Any, args: tuple, values: tuple) -> fx.Node:
        """A new call with several results, of which the first is wanted."""
        call = self.writer.emit(origin, target, args, None, tuple(self._row_major(value) for value in values))
        return self.writer.emit(origin, operator.getitem, (call, 0), None, call.meta["val"][0])

    def empty_like(self, value: torch.Tensor, shape: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A row-major fake tensor."""
        shape = tuple(shape)
        dtype = dtype or value.dtype
        key = (dtype, tuple(size if isinstance(size, int) else str(size) for size in shape), str(value.device))
        known = self._empty.get(key)
        if known is None:
            with value.fake_mode:
                known = self._empty[key] = torch.empty(shape, dtype=dtype, device=value.device)
        return known

    # --------------------------------------------------------------------------------------------------------- the walk

    def run(self) -> ExportedProgram:
        with contextlib.closing(self._composites):
            outputs = self._walk()
        write_complex_numbers(self.writer.graph, self._fake_mode)
        _give_bodies_lines(self.writer.graph, self._root)
        self._number_nodes()
        return self.writer.finish(outputs, self.program.graph_signature.output_specs, self._root, EdgeVerifier)

    def _walk(self) -> list[Any]:
        """Writes the new graph; gives its outputs."""
        outputs: list[Any] = []
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._value[node] = self.writer.copy_node(node, self._mapped)
            elif node.op == "get_attr":
                self._get_attr(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                outputs = [self._mapped(a) if isinstance(a, fx.Node) else a for a in node.args[0]]
        return outputs

    def _mapped(self, node: fx.Node) -> Any:
        return self._value[node]

    def _get_attr(self, node: fx.Node) -> None:
        held = getattr(self.program.graph_module, node.target)
        if isinstance(held, fx.GraphModule):
            held = _decompose_region(held, self)
        setattr(self._root, node.target, held)
        self._value[node] = self.writer.copy_node(node, self._mapped)

    def _call(self, node: fx.Node) -> None:
        target = node.target
        if target is operator.getitem and isinstance(items := self._value.get(node.args[0]), (list, tuple)):
            self._value[node] = items[node.args[1]]
            return
        if not isinstance(target, OpOverload):
            self._value[node] = self._copied(node)
            return
        if target in self._dropped:
            return
        if self._published:
            args, kwargs = fx.map_arg(node.args, self._mapped), fx.map_arg(node.kwargs, self._mapped)
            if (new := rewrite_published(self, node, args, kwargs)) is not None:
                self._value[node] = new
                return
        if target in self.kept and self._is_kept(node):
            copy_form = VIEW_TO_COPY.get(target)
            self._value[node] = self._copied(node, copy_form)
            return
        args = fx.map_arg(node.args, self._mapped)
        kwargs = fx.map_arg(node.kwargs, self._mapped)
        rule = RULES.get(target)
        if rule is not None and (new := rule(self, node, args, kwargs)) is not None:
            self._value[node] = new
        elif target in VIEW_TO_COPY and target not in self._table:
            self._value[node] = self._copied(node, VIEW_TO_COPY[target])
        elif target in self._table or is_composite(target) or target in decomposition_table():
            self._value[node] = self._expand(node, args, kwargs)
        else:
            self._value[node] = self._copied(node)

    def _is_kept(self, node: fx.Node) -> bool:
        if not is_whole(node) or _lacks_complex_kernel(node):
            return False
        return self._keep_filter is None or node.target in KEPT_WHOLE or self._keep_filter(node)

    def _copied(self, node: fx.Node, target: OpOverload | None = None) -> fx.Node:
        new = self.writer.copy_node(node, self._mapped)
        if target is not None:
            new.target = target
        if "memory_format" in new.kwargs:
            new.kwargs = {key: value for key, value in new.kwargs.items() if key != "memory_format"}
        if isinstance(node.target, OpOverload):
            new.meta["val"] = pytree.tree_map_only(torch.Tensor, self._row_major, node.meta.get("val"))
        return new

    def _row_major(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and not _is_row_major(value):
            return self.empty_like(value, value.shape)
        return value

    # --------------------------------------------------------------------------------------------------------- the memo

    def _expand(self, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
        target: Any = node.target
        if target in RECURRENT:
            require_fixed_steps(node)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if any(_is_sparse(leaf.meta.get("val")) for leaf in leaves if isinstance(leaf, fx.Node)):
            return self._copied(node)  # check_edge and the importer refuse it, with the method's name
        inputs = [leaf for leaf in leaves if isinstance(leaf, fx.Node)]
        if _symbols_made_by(node, inputs):
            # Its sizes are this node's own: no other node's, and under the names that later nodes know.
            replacement = self._trace(node, leaves, spec)
        else:
            key = (target, spec, tuple(self._key(leaf) for leaf in leaves))
            if key not in self._memo:
                self._memo[key] = self._trace(node, leaves, spec)
            replacement = self._memo[key]
        if replacement is None:
            return self._copied(node, VIEW_TO_COPY.get(target))
        return self._retyped(node, replacement.inline(self, node, inputs))

    def _retyped(self, node: fx.Node, new: Any) -> Any:
        """Results whose sizes only the data decides have the symbols of the node they replace."""
        values = node.meta.get("val")
        single = not isinstance(new, (tuple, list))  # a node, or a number that the trace found
        for result, value in zip([new] if single else new, [values] if single else values, strict=True):
            if isinstance(result, fx.Node) and result.op == "call_function" and _unbacked(value):
                result.meta["val"] = self._row_major(value)
        return new

    def _key(self, leaf: Any) -> Any:
        if not isinstance(leaf, fx.Node):
            return (type(leaf), leaf)
        known = self._keys.get(leaf)
        if known is None:
            value = leaf.meta["val"]
            if isinstance(value, torch.Tensor):
                sizes = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
                strides = tuple(size if isinstance(size, int) else str(size) for size in value.stride())
                known = ("tensor", value.dtype, sizes, strides, str(value.device))
            else:
                known = (type(value), str(value))
            self._keys[leaf] = known
        return known

    def _trace(self, node: fx.Node, leaves: list[Any], spec: Any) -> "_Replacement | None":
        target: Any = node.target
        # An operator that the filter refused is decomposed here, although it is kept elsewhere.
        table = (
            {**self._table, target: decomposition_table()[target]} if target in decomposition_table() else self._table
        )
        # A table does not reach composite operators. Ours are for those that call them.
        composites = self._own_composites if self._may_factor(target) else {}
        composites = {**composites, **{op: _not_implemented for op in self._kept_composites if op is not target}}
        values = self._told_apart([leaf.meta["val"] for leaf in leaves if isinstance(leaf, fx.Node)])

        def call(*inputs: Any) -> Any:
            remaining = iter(inputs)
            filled = [next(remaining) if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(filled, spec)
            return target(*args, **kwargs)

        def traced(function: Callable) -> fx.GraphModule:
            return make_fx(function, decomposition_table=table, _allow_non_fake_inputs=True)(*values)

        # PyTorch's Python decompositions of composite operators (lstm, gru, …) and the operators kept whole are known
        # to the Python dispatcher only.
        self._composites.hold(composites)
        with (
            warnings.catch_warnings(),
            torch.no_grad(),
            _use_lazy_graph_module(True),  # the graph is read, never run: no code of it is written
            enable_python_dispatcher(),
            without_mkldnn(),
            self._fake_mode,
        ):
            warnings.simplefilter("ignore")
            module = traced(call)
            if any(
                isinstance(inner.target, OpOverload) and inner.target._schema.is_mutable for inner in module.graph.nodes
            ):
                module = traced(dispatch_functionalize(call))
        module.graph.eliminate_dead_code(is_needed)
        if any(isinstance(n.target, OpOverload) and n.target.namespace == "prims" for n in module.graph.nodes):
            return None  # torch's reference is written in its internal operators: the operator itself says more
        return _Replacement(module)

    def _may_factor(self, target: OpOverload) -> bool:
        """Whether an operator is, or calls, one that inverts or factors matrices."""
        others = target in self._own_composites or target is torch.ops.aten.matrix_power.default
        return others or target.name().startswith("aten::linalg_")

    def _told_apart(self, values: list[Any]) -> list[Any]:
        """Tracing knows inputs by identity, so that one fake tensor must not stand for two of them."""
        seen: set[int] = set()
        apart = []
        for value in values:
            if isinstance(value, torch.Tensor) and id(value) in seen:
                with self._fake_mode:
                    value = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
            seen.add(id(value))
            apart.append(value)
        return apart

    def _number_nodes(self) -> None:
        """Gives every call a debug handle, those in bodies of control flow too; earlier stages' stay."""
        bodies = [held for held in self._root.children() if isinstance(held, fx.GraphModule)]
        nodes = [*self.writer.graph.nodes, *(node for body in bodies for node in nodes_with_bodies(body))]
        handle = max((n.meta["debug_handle"] for n in nodes if isinstance(n.meta.get("debug_handle"), int)), default=0)
        for node in nodes:
            if node.op == "call_function" and "debug_handle" not in node.meta:
                handle += 1
                node.meta["debug_handle"] = handle


def _give_bodies_lines(graph: fx.Graph, root: torch.nn.Module) -> None:
    """A body that torch traced knows lines of torch's own code only: those of the call that it belongs to say more."""
    for call in graph.nodes:
        for reference in call.all_input_nodes:
            body = getattr(root, reference.target, None) if reference.op == "get_attr" else None
            if not isinstance(body, fx.GraphModule):
                continue
            for node in body.graph.nodes:
                trace = node.meta.get("stack_trace") or ""
                if not has_model_line(trace):
                    node.meta["stack_trace"] = (call.meta.get("stack_trace") or "") + trace
                if not node.meta.get("nn_module_stack"):
                    node.meta["nn_module_stack"] = call.meta.get("nn_module_stack") or {}
            _give_bodies_lines(body.graph, body)


class _Replacement:
    """The traced decomposition of one operator for one set of types."""

    def __init__(self, module: fx.GraphModule) -> None:
        self._module = module

    def inline(self, owner: Decomposer, origin: fx.Node, inputs: list[fx.Node]) -> Any:
        """Copies the replacement behind the new graph's end; returns the new value or list of values."""
        new: dict[fx.Node, Any] = {}
        remaining = iter(inputs)
        graph = owner.writer.graph
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                new[node] = next(remaining)
            elif node.op == "get_attr":
                new[node] = self._attribute(owner, node)
            elif node.op == "output":
                return fx.map_arg(node.args[0], new.__getitem__)
            elif node.target in owner._dropped:
                continue
            else:
                target = VIEW_TO_COPY.get(node.target, node.target)
                kwargs = fx.map_arg(node.kwargs, new.__getitem__)
                if "memory_format" in kwargs:
                    kwargs = {key: value for key, value in kwargs.items() if key != "memory_format"}
                if target in (aten.alias.default, aten.detach.default):
                    new[node] = new[node.args[0]]
                    continue
                created = graph.create_node("call_function", target, fx.map_arg(node.args, new.__getitem__), kwargs)
                value = pytree.tree_map_only(torch.Tensor, owner._row_major, node.meta.get("val"))
                created.meta = inherited_meta(origin, value)
                new[node] = created
        return None

    def _attribute(self, owner: Decomposer, node: fx.Node) -> fx.Node:
        held = getattr(self._module, node.target)
        if isinstance(held, torch.Tensor):
            with owner._fake_mode:
                fake = owner._fake_mode.from_tensor(held, static_shapes=True)
            return owner.writer.lift_constant(held, fake)
        name = f"{node.target}_{len(owner._root._modules)}"
        setattr(owner._root, name, held)
        return owner.writer.graph.create_node("get_attr", name)


def _decompose_region(module: fx.GraphModule, outer: Decomposer) -> fx.GraphModule:
    """A control-flow branch in Edge."""
    inner = copy.copy(outer)
    inner._value = {}
    inner._root = torch.nn.Module()
    inner.writer = writer = RegionWriter(outer.writer.old, module, inner._root)
    outputs: Any = ()
    for node in module.graph.nodes:
        if node.op == "placeholder":
            inner._value[node] = inner.writer.copy_node(node, inner._mapped)
        elif node.op == "get_attr":
            held = getattr(module, node.target)
            setattr(
                inner._root, node.target, _decompose_region(held, inner) if isinstance(held, fx.GraphModule) else held
            )
            inner._value[node] = inner.writer.copy_node(node, inner._mapped)
        elif node.op == "call_function":
            inner._call(node)
        elif node.op == "output":
            outputs = fx.map_arg(node.args[0], inner._mapped)
    write_complex_numbers(writer.graph, inner._fake_mode)
    return writer.finish_region(outputs)


def _unbacked(value: Any) -> set[Any]:
    """Symbols in ``value`` (a tensor, a number, or several) that stand for what only the data decides."""
    return {symbol for leaf in pytree.tree_leaves(value) for symbol in free_unbacked_symbols(leaf)}


def _symbols_made_by(node: fx.Node, inputs: list[fx.Node]) -> set[Any]:
    made = _unbacked(node.meta.get("val"))
    for source in inputs:
        made -= _unbacked(source.meta.get("val"))
    return made


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout != torch.strided


def _is_row_major(value: torch.Tensor) -> bool:
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if isinstance(size, int) and size == 1:
            continue
        if isinstance(stride, int) and isinstance(expected, int):
            if stride != expected:
                return False
        elif str(stride) != str(expected):
            return False
        expected = size * expected if not (isinstance(size, int) and size == 0) else expected
    return True


@contextlib.contextmanager
def without_mkldnn() -> Iterator[None]:
    """OneDNN's fused operators (mkldnn_rnn_layer) are not in any dialect of ours."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


class composites_as:
    """While active, tracing takes these functions for composite operators; ``_not_implemented`` leaves one whole."""

    def __init__(self, forms: dict[OpOverload, Callable[..., Any]]) -> None:
        self._forms = forms
        self._context: Any = None

    def __enter__(self) -> None:
        from torch.export.exported_program import _override_composite_implicit_decomp

        self._context = _override_composite_implicit_decomp(self._forms)
        self._context.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._context.__exit__(*exception)


class _HeldComposites:
    """Forms of composite operators that stay from one trace to the next: replacing takes 0.1 ms an operator."""

    def __init__(self) -> None:
        self._forms: dict[OpOverload, Callable[..., Any]] = {}
        self._context = contextlib.ExitStack()

    def hold(self, forms: dict[OpOverload, Callable[..., Any]]) -> None:
        """Has tracing take these forms and no others until the next call or ``close()``."""
        if forms != self._forms:
            self.close()
            self._context.enter_context(composites_as(forms))
            self._forms = forms

    def close(self) -> None:
        self._forms = {}
        self._context.close()


def keeping(ops: list[OpOverload]) -> composites_as:
    """While active, tracing leaves the given composite operators whole."""
    return composites_as(dict.fromkeys(ops, _not_implemented))


def _not_implemented(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented
