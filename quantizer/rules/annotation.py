"""Rules: how the tensors of a matched operator get their specs. Rows of the quantizers' tables name them.

An annotation says of a node which of its inputs are quantized and how its result is. A chain that a kernel computes at
once (a linear layer and its relu) is annotated as a unit: inputs at its first node, the result at its last, nothing
between.
"""

import operator
from typing import Any

from executorch_py.quantizer.spec.config import WEIGHTS, kind_of, quantization_config, weight_of
from executorch_py.quantizer.spec.pt2e import (
    ANNOTATION,
    QuantizationAnnotation,
    QuantizationConfig,
    QuantizationSpecBase,
    SharedQuantizationSpec,
)
from torch import fx

from executorch_py.graphs.nodes import arguments_of

from .chains import WANTED, ends_function, input_specs, is_in_function, is_static, is_wanted, source_of_function
from .lifting import constant_value
from .matching import (
    ACTIVATIONS,
    ADD,
    AVERAGE,
    EMBEDDING,
    GATES,
    JOIN,
    MUL,
    STEPS,
    SUB,
    SUM,
    TAKES_PART,
    ZEROS,
    Match,
    depends_on_inputs,
    elements_of,
    form_of,
    is_annotated,
    is_constant,
    is_float32,
    is_mask,
)

#: Activations are below it.
LARGEST = 1e4


def annotate(match: Match, inputs: dict[fx.Node, QuantizationSpecBase], output: QuantizationSpecBase | None) -> None:
    """Writes the annotation of a chain: ``inputs`` at its first node, ``output`` at its last."""
    for node in match.nodes:
        node.meta[ANNOTATION] = QuantizationAnnotation(
            input_qspec_map=inputs if node is match.first else {},
            output_qspec=output if node is match.last else None,
            _annotated=True,
        )


def product(match: Match, config: QuantizationConfig) -> None:
    """A convolution or linear layer with a constant weight, and what is fused behind it."""
    node = match.first
    x, weight, bias, *_ = arguments_of(node).values()
    if not is_float32(x) or not is_float32(weight) or not is_constant(weight):
        return
    if not depends_on_inputs(x):
        return  # computed once, when the model is compiled
    kind = kind_of(config)
    transposed, groups = form_of(node)
    if kind == "dynamic" and (transposed or groups != 1):
        return  # no kernel quantizes the input of these at run time
    if config.weight is None or weight is x:
        return
    # Channels of a transposed filter lie along its second dimension; in groups, several share one scale.
    axis = 0 if not transposed else 1 if groups == 1 else None
    # In this order: torchao's folding of batch norms takes the entries for input, weight and bias by their places.
    inputs: dict[fx.Node, Any] = {x: config.input_activation, weight: weight_of(config, axis)}
    if config.input_activation is None and not config.is_qat:
        del inputs[x]
    if kind == "half" and isinstance(bias, fx.Node):
        inputs[bias] = config.weight
    annotate(match, inputs, config.output_activation)


def table(match: Match, config: QuantizationConfig) -> None:
    """The table of an embedding, a scale a row or a group of columns. Its indices and its result stay as they are."""
    node = match.first
    weight = node.args[0]
    if node.target not in EMBEDDING or not is_float32(weight) or not is_constant(weight) or config.weight is None:
        return
    spec = weight_of(config)
    if spec.ch_axis is None and kind_of(config) != "half":
        return  # one scale for a whole table would be that of its largest row
    annotate(match, {weight: spec}, None)


def table_of_bytes(match: Match, config: QuantizationConfig) -> None:
    """As ``table``, but with 8 bits beside layers of 4: what a row of the table loses is lost for all that follows."""
    if config.weight is not None and config.weight.quant_max == WEIGHTS["int4"].high:
        config = quantization_config(None, "int8")
    table(match, config)


def binary(match: Match, config: QuantizationConfig) -> None:
    """A sum or product of two activations: at least one is quantized already, and not all of it is made of one."""
    node = match.first
    a, b = node.args[:2]
    if not is_float32(node) or not all(is_float32(x) and not is_constant(x) and not is_mask(x) for x in (a, b)):
        return
    if node.kwargs.get("alpha", 1) != 1 or any(_is_scalar(x) for x in (a, b)):
        return
    if kind_of(config) == "static" and (not (_is_quantized(a) or _is_quantized(b)) or is_in_function(node)):
        return  # neither side is there as integers, or a function's steps would be rounded: that would only lose
    annotate(match, {a: config.input_activation, b: config.input_activation}, config.output_activation)


def _is_scalar(node: fx.Node) -> bool:
    """Whether a tensor has one element only: a factor or temperature, which loses more than it costs."""
    return all(isinstance(size, int) and size == 1 for size in node.meta["val"].shape)


def matmul(match: Match, config: QuantizationConfig) -> None:
    """A product of two activations."""
    a, b = match.first.args[:2]
    if is_float32(a) and is_float32(b) and not is_constant(a) and not is_constant(b):
        annotate(match, {a: config.input_activation, b: config.input_activation}, config.output_activation)


def rescaled(match: Match, config: QuantizationConfig) -> None:
    """An operator with one quantized input whose result has another range: means and average pooling."""
    x = match.first.args[0]
    if not is_float32(x):
        return
    if _is_quantized(x) or kind_of(config) == "half":
        annotate(match, {x: config.input_activation}, config.output_activation)
    elif (same := _of_input(match.first, config)) is not None:
        annotate(match, {x: same}, config.output_activation)


def shared(match: Match, config: QuantizationConfig) -> None:
    """An operator whose result is made of elements of its quantized input: both have one scale."""
    node = match.first
    x = node.args[0]
    if not is_float32(node) or not isinstance(x, fx.Node):
        return
    same = SharedQuantizationSpec(x) if _is_quantized(x) else _of_input(node, config)
    if same is None:
        return
    if kind_of(config) == "half":
        annotate(match, {x: config.input_activation}, config.output_activation)
        return
    annotate(match, {x: same}, SharedQuantizationSpec((x, node)))


def activation(match: Match, config: QuantizationConfig) -> None:
    """A function of a quantized tensor, a table of its integers, where integers go on behind it."""
    node = match.first
    x = node.args[0]
    if is_float32(x) and _is_quantized(x) and is_wanted(node):
        annotate(match, {}, config.output_activation)


def function(match: Match, config: QuantizationConfig) -> None:
    """The last step of a function of one quantized tensor, which is a table of its integers."""
    source = source_of_function(match.last)
    is_function = match.last.target in ACTIVATIONS | GATES
    is_averaged = any(user.target in AVERAGE | SUM for user in match.last.users)
    is_scaled = is_function and any(_has_constant(user) for user in match.last.users)
    ends = is_averaged or is_scaled or ends_function(match.last)
    if is_float32(match.last) and source is not None and _is_quantized(source) and ends and not _is_masked(match.last):
        annotate(match, {}, config.output_activation)


def _has_constant(node: fx.Node) -> bool:
    """Whether a sum or product has a constant with several elements, which no table has."""
    return node.target in ADD | MUL | SUB and any(is_constant(x) and not _is_scalar(x) for x in node.all_input_nodes)


def _is_masked(step: fx.Node) -> bool:
    """Whether a step of a function, or one before it, adds or puts in what hides elements."""
    waiting, seen = [step], set[fx.Node]()
    while waiting:
        one = waiting.pop()
        if any(_hides(x) for x in one.all_input_nodes) or _has_large_number(one):
            return True
        seen.add(one)
        waiting += [
            x for x in one.all_input_nodes if x.target in STEPS | JOIN and x not in seen and not _is_quantized(x)
        ]
    return False


def _has_large_number(node: fx.Node) -> bool:
    return any(isinstance(x, (int, float)) and not abs(x) <= LARGEST for x in node.args)


def _hides(node: fx.Node) -> bool:
    """Whether a value has numbers that no scale fits beside others: a mask that is added."""
    if not is_float32(node) or not is_mask(node):
        return False
    module = node.graph.owning_module
    if module is None or not is_constant(node):
        return not _is_scalar(node) or _has_large_number(node)  # made of numbers and sizes
    return bool((constant_value(module, node).abs() > LARGEST).any())


def binary_or_function(match: Match, config: QuantizationConfig) -> None:
    """A sum, difference or product of two activations, of one and numbers, or of one and a constant tensor."""
    for rule in (binary, _with_constant, function):
        if not is_annotated(match.first):
            rule(match, config)


def _with_constant(match: Match, config: QuantizationConfig) -> None:
    """A sum, difference or product of a quantized tensor and a constant with several elements."""
    node = match.first
    a, b = node.args[:2]
    constant, other = (a, b) if is_constant(a) else (b, a)
    if not is_float32(node) or not is_float32(constant) or not is_constant(constant) or not _is_quantized(other):
        return
    if node.kwargs.get("alpha", 1) == 1 and not _is_scalar(constant) and not _hides(constant):
        annotate(match, {a: config.input_activation, b: config.input_activation}, config.output_activation)


def normalised(match: Match, config: QuantizationConfig) -> None:
    """Softmax and layer norm of activations, whose parameters stay floats. Scores with a mask have no scale."""
    x: Any = match.first.args[0]
    parameters = [one for one in match.first.all_input_nodes if one is not x]
    is_masked = _is_masked(x) or (x.target in ADD and any(isinstance(one, fx.Node) and is_mask(one) for one in x.args))
    if is_float32(x) and depends_on_inputs(x) and all(map(is_constant, parameters)) and not is_masked:
        annotate(match, {x: config.input_activation}, config.output_activation)


def padded(match: Match, config: QuantizationConfig) -> None:
    """Zeros around a tensor, or its own elements: every scale has an integer for zero. Other numbers stay in float."""
    given = arguments_of(match.first)
    if given.get("mode", "constant") != "constant" or not given.get("value"):
        shared(match, config)


def parted(match: Match, config: QuantizationConfig) -> None:
    """A tensor handed out in parts: all of them have its scale, but for places of elements."""
    node = match.first
    x = node.args[0]
    parts = list(node.users)
    if not is_float32(x) or not _is_quantized(x) or any(part.target is not operator.getitem for part in parts):
        return
    same = SharedQuantizationSpec((x, node))
    if kind_of(config) == "half":
        annotate(match, {x: config.input_activation}, None)
        same = config.output_activation
    else:
        annotate(match, {x: SharedQuantizationSpec(x)}, None)
    for part in parts:
        if is_float32(part) and not is_annotated(part):
            annotate(Match((part,)), {}, same)


def joined(match: Match, config: QuantizationConfig) -> None:
    """Elements of several tensors: all these and the result have one scale, when one of them is quantized at all.

    Where the result is read as floats, it is joined of integers only when all parts are. A zero is one of the integers
    of every scale.
    """
    node = match.first
    parts = [one for one in elements_of(node) if not _is_zero(one)]
    if not is_float32(node) or not all(
        is_float32(part) and not is_constant(part) and not is_mask(part) for part in parts
    ):
        return
    quantized = [_is_quantized(part) for part in parts]
    if not any(quantized):
        return
    if kind_of(config) == "half":
        annotate(match, dict.fromkeys(parts, config.input_activation), config.output_activation)
        return
    if not (all(quantized) or is_wanted(node)):
        return
    first = parts[0]
    same = SharedQuantizationSpec((first, node))
    inputs: dict[fx.Node, Any] = dict.fromkeys(parts, same)
    inputs[first] = config.input_activation
    annotate(match, inputs, same)


def _is_zero(element: Any) -> bool:
    """Whether a number is 0, or a tensor made of nothing else."""
    if not isinstance(element, fx.Node):
        return isinstance(element, (int, float)) and element == 0
    if element.target in ZEROS:
        return ZEROS[element.target] is None or element.args[ZEROS[element.target]] == 0
    if not is_float32(element) or not is_constant(element):
        return False
    module = element.graph.owning_module
    return module is not None and not bool(constant_value(module, element).any())


def _is_quantized(node: Any) -> bool:
    """Whether a node's result is annotated."""
    return isinstance(node, fx.Node) and is_annotated(node) and node.meta[ANNOTATION].output_qspec is not None


def _of_input(node: fx.Node, config: QuantizationConfig) -> QuantizationSpecBase | None:
    """How ``node`` takes its first argument where that is the model's own input, whose result nobody annotates.

    As a layer does that reads it beside ``node``: edges from one node with equal specs share a scale, so that the input
    may be integers itself. Where no layer reads it, as the configuration says. Only when integers are taken behind
    ``node``, and not when it takes a part, which would have a finer scale of its own.
    """
    x: Any = node.args[0]
    if not isinstance(x, fx.Node) or x.op != "placeholder" or node.target in TAKES_PART or not node.meta.get(WANTED):
        return None
    for reader in x.users:
        spec = input_specs(reader).get(x)
        if reader is not node and is_static(spec):
            return spec
    is_own = kind_of(config) == "static" and node.target not in AVERAGE
    return config.input_activation if is_own else None
