"""Higher-order operators that stand for a computation: the computation takes their place in the graph.

``torch.export`` leaves calls in the graph that hold a body and say something about it. ``invoke_subgraph`` says that it
is one region for a compiler, ``hints_wrapper`` brings hints, a checkpoint is about training. A program needs the
computation only. Branches and loops are not of this kind; control_flow.py writes them.

* ``inline_wrappers`` puts bodies in the place of their calls. It runs before functionalize.py, so that bodies may
  write.
* ``expand_operators`` writes ``flex_attention`` and ``out_dtype`` with operators, as eager PyTorch computes them. It
  runs after
  functionalize.py, which leaves score and mask functions in a form that can be traced.

    >>> program = expand_operators(functionalize(inline_wrappers(exported)))  # doctest: +SKIP
"""

import copy
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.flex_attention import math_attention, sdpa_dense_backward
from torch._higher_order_ops.out_dtype import out_dtype_fallback
from torch._ops import HigherOrderOperator
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from executorch_py.errors import NotSupportedError
from executorch_py.export.dialect.edge import EdgeVerifier
from executorch_py.graphs.rewriting import copied_graph, inherited_meta, nodes_with_bodies, with_guards_of
from executorch_py.graphs.sources import source_of

#: A body and the values that its placeholders stand for.
_Call = tuple[fx.GraphModule, list[Any]]


def _body_first(node: fx.Node) -> _Call:
    """``op(body, *operands)``."""
    return _module(node.args[0]), list(node.args[1:])


def _body_and_list(node: fx.Node) -> _Call:
    """``op(body, operands, …)``."""
    arguments: Any = node.args
    return _module(arguments[0]), list(arguments[1])


def _body_and_name(node: fx.Node) -> _Call:
    """``op(body, identifier, *operands)``."""
    return _module(node.args[0]), list(node.args[2:])


#: Operators whose meaning in inference is their body's. Options of theirs (hints, names, policies) go with them.
_WRAPPERS: dict[str, Callable[[fx.Node], _Call]] = {
    "foreach_map": _body_first,
    "hints_wrapper": _body_and_list,
    "invoke_quant": _body_first,
    "invoke_quant_packed": _body_first,
    "invoke_subgraph": _body_and_name,
    "run_const_graph": _body_and_list,
    "strict_mode": _body_and_list,
    "tag_activation_checkpoint": _body_first,
    "wrap": _body_first,
    "wrap_activation_checkpoint": _body_first,
}

#: Operators that eager PyTorch computes by a function of tensors and bodies.
_EXPANDED: dict[str, Callable[..., Any]] = {
    "flex_attention": math_attention,
    "flex_attention_backward": sdpa_dense_backward,
    "out_dtype": out_dtype_fallback,
}


def inline_wrappers(program: ExportedProgram) -> ExportedProgram:
    """The program without wrappers; ``program`` itself when it has none.

    Warns:
        UserWarning: The model prints; a program does not.

    Raises:
        NotSupportedError: ``torch.func.grad`` or ``vjp`` lost what they were given when the model was exported.
    """
    _require_constants(program)
    for node in _calls(program.graph_module, {"print"}):
        warnings.warn(f"{source_of(node)}: the model prints here; a program does not, and leaves it out", stacklevel=2)
    return _rewritten(program, set(_WRAPPERS), lambda node: _WRAPPERS[node.target.name()](node))


def expand_operators(program: ExportedProgram) -> ExportedProgram:
    """The program with operators in the place of those in ``_EXPANDED``; ``program`` itself when it has none."""
    return _rewritten(program, set(_EXPANDED), _traced, [EdgeVerifier])  # which takes constants that tracing made


def _require_constants(program: ExportedProgram) -> None:
    """``torch.func.grad`` and ``vjp`` put a tensor without data in the place of their input when they are exported."""
    for name, held in program.constants.items():
        if isinstance(held, torch.Tensor) and not _has_data(held):
            users = [node for node in program.graph.nodes if getattr(node.target, "__name__", "") == "_unwrap_for_grad"]
            where = f"{source_of(users[0])}: " if users else ""
            raise NotSupportedError(
                f"{where}torch.export kept the constant '{name}' without its data, as it does for torch.func.grad and "
                "vjp; write the derivative with tensor operators, or use torch.func.jvp, which exports"
            )


def _has_data(tensor: torch.Tensor) -> bool:
    if isinstance(tensor, FakeTensor) or tensor.layout != torch.strided:
        return tensor.layout != torch.strided
    try:
        tensor.data_ptr()
    except RuntimeError:  # a wrapper of a transformation that is over
        return False
    return True


def needs_expansion(program: ExportedProgram) -> bool:
    """Whether :func:`expand_operators` has something to do, so that bodies must be in functional form first."""
    return any(True for _ in _calls(program.graph_module, set(_EXPANDED)))


def _rewritten(
    program: ExportedProgram,
    names: set[str],
    call_of: Callable[[fx.Node], _Call],
    verifiers: list[type] | None = None,
) -> ExportedProgram:
    if not any(True for _ in _calls(program.graph_module, names)):
        return program
    module = copied_graph(program.graph_module)
    while calls := list(_calls(module, names)):  # a body may hold calls in its turn
        for node in calls:
            body, operands = call_of(node)
            _inline(node, body, operands)
    for inner in module.modules():
        if isinstance(inner, fx.GraphModule):
            inner.graph.eliminate_dead_code(lambda node: node.op != "get_attr" or not _is_body(node))
            inner.recompile()
    outputs: Any = next(reversed(module.graph.nodes)).args[0]
    signature = _renamed(program.graph_signature, program.graph, outputs)
    changed = program._update(module, signature, verifiers=verifiers)
    return with_guards_of(changed, program)


def _renamed(signature: Any, old: fx.Graph, outputs: Any) -> Any:
    """The signature with the names that the outputs have now."""
    before: Any = next(reversed(old.nodes)).args[0]
    for was, now in zip(before, outputs, strict=True):
        if isinstance(was, fx.Node) and isinstance(now, fx.Node) and was.name != now.name:
            signature = _with_name(signature, was.name, now.name)
    return signature


def _with_name(signature: Any, old: str, new: str) -> Any:
    changed = copy.deepcopy(signature)
    changed.replace_all_uses(old, new)
    return changed


def _calls(module: fx.GraphModule, names: set[str]) -> Iterator[fx.Node]:
    for node in nodes_with_bodies(module):
        if isinstance(node.target, HigherOrderOperator) and node.target.name() in names:
            yield node


def _module(reference: Any) -> fx.GraphModule:
    held: Any = reference.graph.owning_module
    for part in reference.target.split("."):
        held = getattr(held, part)
    return held


def _is_body(node: fx.Node) -> bool:
    return node.op == "get_attr" and isinstance(_module(node), fx.GraphModule)


def _traced(node: fx.Node) -> _Call:
    """The body that computes ``node`` with operators, and its operands."""
    function = _EXPANDED[node.target.name()]
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    given = [_module(leaf) if isinstance(leaf, fx.Node) and _is_body(leaf) else leaf for leaf in leaves]
    operands = [leaf for leaf in given if isinstance(leaf, fx.Node)]
    values = [operand.meta["val"] for operand in operands]
    modes = [value.fake_mode for value in pytree.tree_leaves(values) if hasattr(value, "fake_mode")]

    def call(*inputs: Any) -> Any:
        remaining = iter(inputs)
        filled = [next(remaining) if isinstance(leaf, fx.Node) else leaf for leaf in given]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return function(*args, **kwargs)

    with warnings.catch_warnings(), torch.no_grad(), modes[0]:
        warnings.simplefilter("ignore")
        body = make_fx(call, _allow_non_fake_inputs=True)(*values)
    for inner in body.graph.nodes:
        if inner.op == "get_attr":
            inner.meta["val"] = modes[0].from_tensor(_module(inner), static_shapes=True)
        if inner.op not in ("placeholder", "output"):
            inner.meta = inherited_meta(node, inner.meta.get("val"))
    return body, operands


def _inline(node: fx.Node, body: fx.GraphModule, operands: list[Any]) -> None:
    """Puts the nodes of ``body`` in the place of ``node``."""
    graph, owner = node.graph, node.graph.owning_module
    remaining = iter(operands)
    value: dict[fx.Node, Any] = {}
    result: Any = None
    with graph.inserting_before(node):
        for inner in body.graph.nodes:
            if inner.op == "placeholder":
                value[inner] = next(remaining)
            elif inner.op == "output":
                result = fx.map_arg(inner.args[0], value.__getitem__)
            elif inner.op == "get_attr":
                value[inner] = graph.get_attr(_hold(owner, inner.target, _module(inner)))
                value[inner].meta = dict(inner.meta)
            else:
                value[inner] = graph.node_copy(inner, value.__getitem__)
    if isinstance(node.meta.get("val"), torch.Tensor) and isinstance(result, (tuple, list)):
        (result,) = result
    _replace(node, result)


def _hold(owner: Any, name: str, held: Any) -> str:
    """The name under which ``owner`` holds what a body held as ``name``."""
    name = name.replace(".", "_")
    while hasattr(owner, name):
        name += "_"
    setattr(owner, name, held)
    return name


def _replace(node: fx.Node, result: Any) -> None:
    """``result`` (a node, a constant, or several) for all uses of ``node``, which goes."""
    if isinstance(result, (tuple, list)):
        for user in list(node.users):
            if user.target is not operator.getitem:
                raise AssertionError(f"{user} uses {node}, which has several results, as one value")
            _replace(user, result[user.args[1]])
    elif isinstance(result, fx.Node):
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            user.args = fx.map_arg(user.args, lambda item: result if item is node else item)
            user.kwargs = fx.map_arg(user.kwargs, lambda item: result if item is node else item)
    node.graph.erase_node(node)
