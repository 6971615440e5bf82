"""Finds chains of operators in an exported graph, and says what a node belongs to.

A Pattern is a row of a quantizer's table: a name, a formula (docs/how-to/add_pass.md) in which each operator is the
only user of the one inside, and the rule that annotates what was found (annotation.py). In capitals stand the sets of
operators below.

>>> Pattern("linear", "y = RELU?(LINEAR(...), ...)", product, frozenset({"static"}))  # doctest: +SKIP
"""

import contextlib
import contextvars
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from executorch_py.quantizer.spec.config import Kind
from executorch_py.quantizer.spec.pt2e import ANNOTATION, QuantizationConfig
from torch import fx

from executorch_py.graphs import patterns
from executorch_py.graphs.nodes import arguments_of
from executorch_py.operator_facts import OPERATORS, overload, overloads

#: Overloads of an operator that mean the same to a quantizer.
Operators = frozenset[Any]


@dataclass(frozen=True)
class Match:
    """The nodes of one chain, first to last."""

    nodes: tuple[fx.Node, ...]

    @property
    def first(self) -> fx.Node:
        """The node that the others follow."""
        return self.nodes[0]

    @property
    def last(self) -> fx.Node:
        """The node whose result leaves the chain."""
        return self.nodes[-1]


#: Annotates what was found, or leaves it.
Rule = Callable[[Match, QuantizationConfig], None]


@dataclass(frozen=True)
class Pattern:
    """A row of a quantizer's table.

    Attributes:
        name: For reports and tests.
        formula: The operators, the last one outermost; ``?`` is behind one that may be missing.
        rule: Annotates a match.
        kinds: Kinds of configurations that the row is for.
        by_name_only: Not taken by a global configuration, only when named by operator, module type or module name.
    """

    name: str
    formula: str
    rule: Rule
    kinds: frozenset[Kind]
    by_name_only: bool = False

    @cached_property
    def compiled(self) -> patterns.Pattern:
        """The formula, ready to match."""
        return patterns.Pattern(self.formula, FAMILIES)


def ops(*names: str) -> Operators:
    """Overloads by name: ``ops("relu.default", "relu_.default")``. AttributeError for one that torch does not have."""
    return frozenset(overload(f"aten::{name}") for name in names)


def becomes(*integers: str) -> Operators:
    """Operators with these forms on integers: ``becomes("quantized_add")``."""
    names = {f"et::{name}" for name in integers}
    return frozenset(overloads(lambda op: op.integers in names))


def tagged(tag: str) -> Operators:
    """Operators with a tag."""
    return frozenset(overloads(lambda op: tag in op.tags))


def reaching(*reach: str) -> Operators:
    """Operators whose results reach that far beyond what goes in: words of ``codegen/ops_yaml.py``, REACHES."""
    return frozenset(overloads(lambda op: op.reach in reach))


CONV_TRANSPOSE = ops("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
CONV = becomes("quantized_convolution") - CONV_TRANSPOSE
LINEAR = becomes("quantized_linear")
BATCH_NORM = ops("batch_norm.default")
#: Clamps that stand behind layers; the others limit whatever a model computes.
RELU = tagged("clamps") - ops("clamp.default", "clamp_max.default", "clamp_min.default")
ADD = becomes("quantized_add")
MUL = becomes("quantized_mul")
EMBEDDING = ops("embedding.default")
SUB = becomes("quantized_sub")
MATMUL = becomes("quantized_matmul")
SOFTMAX = ops("softmax.int") | becomes("quantized_softmax")
NORM = ops("layer_norm.default") | becomes("quantized_layer_norm")
SUM = ops("sum.dim_IntList")
AVERAGE = becomes("quantized_mean", "quantized_avg_pool2d", "quantized_adaptive_avg_pool2d") - SUM
MAX_POOL = frozenset(overloads(lambda op: op.moves == "pool" and op.is_tensor))
#: Of what moves elements, that whose result may have a much smaller range than what it takes.
TAKES_PART = RELU | frozenset(overloads(lambda op: op.is_tensor and op.moves in ("part", "gather", "largest")))
#: Operators that move elements or leave them as they are.
MOVEMENT = TAKES_PART | frozenset(overloads(lambda op: op.is_tensor and op.moves in ("reshape", "permute", "repeat")))
#: Operators that hand out a tensor in parts, each a ``getitem`` of their result.
SPLIT = frozenset(overloads(lambda op: op.moves in ("part", "pool") and not op.is_tensor))
#: What says which elements are the largest or smallest.
RANKED = frozenset(overloads(lambda op: op.moves == "largest" and not op.is_tensor)) | ops(
    "argmax.default", "argmin.default"
)
LOG_SOFTMAX = ops("log_softmax.int", "_log_softmax.default")
#: Functions of one tensor that stand behind layers. Not those of gates, whose results multiply a state step after step.
ACTIVATIONS = tagged("activation")
GATES = ops("sigmoid.default", "tanh.default")
_TAGS_OF_STEPS = {"pointwise", "reduction", "same_type", "clamps", "activation"}
#: What functions are written of: element by element, and the sums of norms.
STEPS = ADD | MUL | frozenset(overloads(lambda op: not (op.moves or op.joins) and bool(op.tags & _TAGS_OF_STEPS)))
PAD = ops("pad.default", "constant_pad_nd.default")
#: Operators whose results are elements of several tensors -> the arguments that hold these: tensors, lists of them,
#: numbers.
JOINED_ARGUMENTS: dict[Any, tuple[int, ...]] = {
    overload(op.name): tuple(op.arguments.index(name) for name in op.joins)
    for op in OPERATORS.values()
    if op.joins and overload(op.name) not in PAD
}
JOIN = frozenset(JOINED_ARGUMENTS)
#: What makes tensors of one number -> the argument that it is; None: of zeros.
ZEROS: dict[Any, int | None] = {
    overload(op.name): next((i for i, name in enumerate(op.arguments) if name in ("fill_value", "s")), None)
    for op in OPERATORS.values()
    if "uniform" in op.tags
}


#: Sets of operators, as formulas call them.
FAMILIES = {
    "ACTIVATION": ACTIVATIONS,
    "ADD": ADD,
    "AVERAGE": AVERAGE,
    "BATCH_NORM": BATCH_NORM,
    "CONV": CONV,
    "CONV_TRANSPOSE": CONV_TRANSPOSE,
    "EMBEDDING": EMBEDDING,
    "JOIN": JOIN,
    "LINEAR": LINEAR,
    "MATMUL": MATMUL,
    "MAX_POOL": MAX_POOL,
    "MOVEMENT": MOVEMENT,
    "MUL": MUL,
    "PAD": PAD,
    "NORM": NORM,
    "RELU": RELU,
    "SOFTMAX": SOFTMAX,
    "SPLIT": SPLIT,
    "STEP": STEPS,
    "SUB": SUB,
    "SUM": SUM,
}


def find(graph: fx.Graph, pattern: Pattern) -> Iterator[Match]:
    """All places where the formula stands, the last one of the graph first: of two that share nodes, the longer one."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and (found := pattern.compiled.match(node, _folds_norms)) is not None:
            yield Match(found.nodes[::-1])


def _folds_norms(match: patterns.Match) -> bool:
    """Whether batch norms behind layers multiply by what is known: without statistics of their own, by the batch's."""
    return all(has_running_statistics(node) for node in match.nodes[:-1] if node.target in BATCH_NORM)


def elements_of(node: fx.Node) -> list[Any]:
    """Tensors and numbers whose elements the result of an operator is made of that moves or joins them."""
    given = [node.args[i] for i in JOINED_ARGUMENTS.get(node.target, (0,))]
    return [one for argument in given for one in (argument if isinstance(argument, (list, tuple)) else (argument,))]


def form_of(layer: fx.Node) -> tuple[bool, int]:
    """Whether a convolution is transposed, and its groups."""
    given = arguments_of(layer)
    return layer.target in CONV_TRANSPOSE or bool(given.get("transposed")), given.get("groups", 1)


def has_running_statistics(norm: fx.Node) -> bool:
    """Whether a batch or instance norm holds a mean of its own. One without takes that of its input at all times."""
    return arguments_of(norm)["running_mean"] is not None


def is_annotated(node: fx.Node) -> bool:
    """Whether a quantizer has said something of the node."""
    return node.meta.get(ANNOTATION) is not None


def is_float32(node: Any) -> bool:
    """Whether a node's result is a float32 tensor."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


#: In ``Node.meta`` of a body's input: the constant of the module around that it is in all turns of its loop.
VALUE = "executorch_py.value"

#: What a value is made of, as far as it was looked up; None where nobody keeps it.
_KNOWN: contextvars.ContextVar[dict[fx.Node, "_MadeOf"] | None] = contextvars.ContextVar("known", default=None)


class _MadeOf(enum.Enum):
    """What a node depends on, the first of these that applies."""

    INPUTS = enum.auto()
    TENSORS = enum.auto()
    NUMBERS = enum.auto()


@contextlib.contextmanager
def constants_remembered() -> Iterator[None]:
    """While active, ``is_constant`` walks each node once: for work that changes of no node what it depends on."""
    token = _KNOWN.set({})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def is_constant(node: Any) -> bool:
    """Whether a node depends on parameters and buffers only, none of which the model writes.

    What is made of no tensor (a mask, a range) may take part, but is none by itself. As the input of a layer (the first
    state of an LSTM) it is an activation, as it is in the steps behind.
    """
    if not isinstance(node, fx.Node):
        return False
    remembered = _KNOWN.get()
    known = {} if remembered is None else remembered
    waiting = [node]
    while waiting:
        one = waiting[-1]
        sources = one.all_input_nodes if one.op == "call_function" else []
        missing = [source for source in sources if source not in known]
        if one in known or not missing or any(known.get(source) is _MadeOf.INPUTS for source in sources):
            known.setdefault(one, _made_of(one, sources, known))
            waiting.pop()
        else:
            waiting.append(missing[-1])
    return known[node] is _MadeOf.TENSORS


def _made_of(node: fx.Node, sources: list[fx.Node], known: dict[fx.Node, _MadeOf]) -> _MadeOf:
    if VALUE in node.meta:
        return _MadeOf.TENSORS
    if node.op == "get_attr":
        return _MadeOf.INPUTS if any(_writes(user, node) for user in node.users) else _MadeOf.TENSORS
    kinds = {known.get(source) for source in sources}
    if (
        node.op != "call_function"
        or _MadeOf.INPUTS in kinds
        or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    ):
        return _MadeOf.INPUTS
    first: Any = node.args[0] if node.args else None
    if node.target in LINEAR | CONV | CONV_TRANSPOSE and known.get(first) in (None, _MadeOf.NUMBERS):
        return _MadeOf.INPUTS
    return _MadeOf.TENSORS if _MadeOf.TENSORS in kinds else _MadeOf.NUMBERS


def _writes(node: fx.Node, held: fx.Node) -> bool:
    """Whether a node changes one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return False
    given = arguments_of(node)
    return any(
        one.alias_info is not None and one.alias_info.is_write and given.get(one.name) is held
        for one in schema.arguments
    )


def _is_input(node: fx.Node) -> bool:
    return node.op == "placeholder" and VALUE not in node.meta


def depends_on_inputs(node: fx.Node) -> bool:
    """Whether a value is different from call to call. Zeros that a model makes (the first state of an LSTM) are not."""
    seen, waiting = set(), [node]
    while waiting:
        one = waiting.pop()
        if _is_input(one) or len(seen) > 50:
            return True
        if one not in seen:
            seen.add(one)
            waiting.extend(one.all_input_nodes)
    return False


#: In ``Node.meta`` of a body's input: it is made of sizes (``is_of_sizes``) in all turns of its loop.
OF_SIZES = "executorch_py.of_sizes"


def is_of_sizes(node: fx.Node) -> bool:
    """Whether a value, with observers or without, is made of sizes and of what the model holds and never writes.

    The first state of a recurrent layer is, for a batch of any size.
    """
    seen, waiting = set(), [node]
    while waiting:
        one = waiting.pop()
        is_input = _is_input(one) and not one.meta.get(OF_SIZES)
        if is_input or (one.op == "get_attr" and any(_writes(user, one) for user in one.users)):
            return False
        if one not in seen and one.target is not torch.ops.aten.sym_size.int:
            seen.add(one)
            waiting.extend(one.all_input_nodes)
    return True


#: What gives a value of its own kind: past these a value is an activation, whatever went in.
_SOURCES = CONV | CONV_TRANSPOSE | LINEAR | EMBEDDING | MATMUL | BATCH_NORM | ops("layer_norm.default", "addmm.default")


def is_mask(node: fx.Node) -> bool:
    """Whether a value is made of integers, booleans and constants only: masks and position tables, which no scale fits.

    An additive attention mask holds 0 and the smallest float; quantized as an activation, it would leave everything
    else zero.
    """
    seen, waiting = set(), [node]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if _is_input(one):
            value = one.meta.get("val")
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                return False
        elif one.target in _SOURCES or len(seen) > 200:
            return False
        else:
            waiting.extend(one.all_input_nodes)
    return True


def modules_of(node: fx.Node) -> list[tuple[str, str]]:
    """Paths and class names of the modules that a node stands in, outermost first."""
    found = []
    for path, kind in (node.meta.get("nn_module_stack") or {}).values():
        path = path.removeprefix("L['self'].").removeprefix("L['self']")
        found.append((path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"))
    return found


def place_of(node: fx.Node) -> str:
    """A node's operator, module and source line for messages: ``aten.linear.default (encoder.fc1, model.py:12)``."""
    from executorch_py.graphs.sources import source_of

    source = source_of(node)
    parts = [source.module_path] if source.module_path else []
    if source.file:
        parts.append(f"{source.file}:{source.line}" if source.line else source.file)
    name = str(node.target) if node.op == "call_function" else f"the {node.op} '{node.target}'"
    return f"{name} ({', '.join(parts)})" if parts else f"{name} (node {node.name})"
