"""XNNPACKQuantizer: what 8-bit and 4-bit kernels of the usual processors compute with, chosen globally, by module or by
operator.

>>> quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))  # doctest: +SKIP
>>> quantizer.set_module_name("head", None)  # stays as it is  # doctest: +SKIP
>>> quantizer.set_operator_type(torch.ops.aten.add.Tensor, None)  # doctest: +SKIP
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch._ops import OperatorBase, OpOverloadPacket

from executorch_py.errors import InvalidTypeError

from .calibration import torchao_folding  # noqa: F401  torchao's own functions fold as ours
from .calibration.batch_norm import as_convolutions
from .calibration.half_range import mark_far, takes_or_gives_far_values
from .rules.annotation import (
    activation,
    binary,
    joined,
    matmul,
    padded,
    parted,
    product,
    rescaled,
    shared,
    table_of_bytes,
)
from .rules.chains import HANDS_ON, mark_wanted
from .rules.expansion import EXPANDED, FORMS, Form, expand
from .rules.gates import gates_of_grus
from .rules.linear_forms import WRITTEN_AS, as_linear
from .rules.matching import (
    ACTIVATIONS,
    BATCH_NORM,
    CONV,
    CONV_TRANSPOSE,
    LINEAR,
    RELU,
    Match,
    Pattern,
    constants_remembered,
    find,
    is_annotated,
    modules_of,
)
from .spec.config import as_config, kind_of, weight_of
from .spec.pt2e import QuantizationConfig, Quantizer

_WEIGHTED = frozenset({"static", "dynamic", "weight_only", "half"})
_CHAINED = frozenset({"static", "half"})

#: What is quantized. What a kernel computes at once is annotated as a unit.
PATTERNS: tuple[Pattern, ...] = (
    Pattern("conv", "y = RELU?(BATCH_NORM?(CONV(...), ...), ...)", product, _WEIGHTED),
    Pattern("conv_transpose", "y = RELU?(BATCH_NORM?(CONV_TRANSPOSE(...), ...), ...)", product, _WEIGHTED),
    Pattern("linear", "y = RELU?(LINEAR(...), ...)", product, _WEIGHTED),
    Pattern("embedding", "y = EMBEDDING(...)", table_of_bytes, _WEIGHTED),
    Pattern("matmul", "y = MATMUL(...)", matmul, _CHAINED, by_name_only=True),
)
#: What follows its inputs: taken where they are quantized, in the order of the graph.
FOLLOWERS: tuple[Pattern, ...] = (
    Pattern("add", "y = RELU?(ADD(...), ...)", binary, _CHAINED),
    Pattern("mul", "y = RELU?(MUL(...), ...)", binary, _CHAINED),
    Pattern("activation", "y = ACTIVATION(...)", activation, frozenset({"static"})),
    Pattern("join", "y = JOIN(...)", joined, _CHAINED),
    Pattern("average", "y = AVERAGE(...)", rescaled, _CHAINED),
    Pattern("max_pool", "y = MAX_POOL(...)", shared, _CHAINED),
    Pattern("movement", "y = MOVEMENT(...)", shared, _CHAINED),
    Pattern("pad", "y = PAD(...)", padded, _CHAINED),
    Pattern("split", "y = SPLIT(...)", parted, _CHAINED),
)
#: Of these, what may take the model's own inputs: tried again when sums are annotated, whose inputs are wanted as
#: integers.
CARRIERS = tuple(pattern for pattern in FOLLOWERS if pattern.rule in (rescaled, shared, padded))


class XNNPACKQuantizer(Quantizer):
    """Annotates what PATTERNS and FOLLOWERS list, each node with the most particular configuration that is set for it.

    From the most particular to the least: module name, module type, operator, global. None leaves what it is set for as
    it is.
    """

    #: What is annotated; other quantizers of this kind have rows of their own.
    patterns, followers = PATTERNS, FOLLOWERS
    #: What is written with other operators before.
    forms: Mapping[Any, Form] = FORMS

    def __init__(self) -> None:
        super().__init__()
        self._global: QuantizationConfig | None = None
        self._by_operator: dict[Any, QuantizationConfig | None] = {}
        self._by_type: dict[str, QuantizationConfig | None] = {}
        self._by_name: dict[str, QuantizationConfig | None] = {}
        self._filter: Callable[[fx.Node], bool] | None = None

    # ------------------------------------------------------------------------------------------------------ the choices

    def set_global(self, quantization_config: QuantizationConfig | str | None) -> "XNNPACKQuantizer":
        """Sets what holds where nothing else is set: a configuration, or the name of a preset."""
        self._global = _checked(quantization_config)
        return self

    def set_operator_type(
        self, operator_type: Any, quantization_config: QuantizationConfig | str | None
    ) -> "XNNPACKQuantizer":
        """Sets what holds for an operator: ``torch.ops.aten.linear.default``, or all overloads,
        ``torch.ops.aten.linear``.
        """
        if not isinstance(operator_type, (OperatorBase, OpOverloadPacket)):
            raise InvalidTypeError(
                f"the operator is {operator_type!r:.60}, must be one as torch.export writes it, such as "
                "torch.ops.aten.linear.default; modules are set with set_module_type"
            )
        self._by_operator[operator_type] = _checked(quantization_config)
        return self

    #: The same under its other published name.
    set_object_type = set_operator_type

    def set_module_type(
        self, module_type: type | str, quantization_config: QuantizationConfig | str | None
    ) -> "XNNPACKQuantizer":
        """Sets what holds inside modules of a class, such as ``torch.nn.Linear``."""
        if not isinstance(module_type, (type, str)):
            raise InvalidTypeError(
                f"the type of modules is {module_type!r:.60}, must be a class such as torch.nn.Linear"
            )
        if isinstance(module_type, type):
            module_type = f"{module_type.__module__}.{module_type.__qualname__}"
        self._by_type[module_type] = _checked(quantization_config)
        return self

    def set_module_name(
        self, module_name: str, quantization_config: QuantizationConfig | str | None
    ) -> "XNNPACKQuantizer":
        """Sets what holds inside one module, such as ``"encoder.layers.0"``, and all that is in it."""
        if not isinstance(module_name, str):
            raise InvalidTypeError(
                f"the name of a module is {module_name!r:.60}, must be a string such as 'encoder.layers.0'"
            )
        self._by_name[module_name] = _checked(quantization_config)
        return self

    def set_filter_function(self, filter_fn: Callable[[fx.Node], bool]) -> "XNNPACKQuantizer":
        """Nodes for which ``filter_fn`` gives False are left as they are.

        A product with a constant is shown twice: as it is written, then as linear.
        """
        if not callable(filter_fn):
            raise InvalidTypeError(f"the filter is {filter_fn!r:.60}, must be a function of a node")
        self._filter = filter_fn
        return self

    def config_of(self, node: fx.Node, inner: Any = None) -> tuple[QuantizationConfig | None, bool]:
        """The configuration of a node, and whether it was set for it by name (not globally).

        With ``inner``, of such an operator inside of the node, which stands for several.
        """
        places = modules_of(node)
        written_as = node.meta.get(WRITTEN_AS)
        targets = [node.target if inner is None else inner] if written_as is None else [written_as, node.target]
        for path, _ in reversed(places):
            if path in self._by_name:
                return self._by_name[path], True
        for _, kind in reversed(places):
            if kind in self._by_type:
                return self._by_type[kind], True
        for target in targets:
            for key in (target, getattr(target, "overloadpacket", None)):
                if key in self._by_operator:
                    return self._by_operator[key], True
        return self._global, False

    # ---------------------------------------------------------------------------------------------- torchao calls these

    def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
        """Products with a constant become linear, batch norms behind no layer convolutions, and recurrent layers loops,
        and attention is taken apart, where that is to be quantized.
        """
        model = as_convolutions(as_linear(model, self._is_linear), self._is_convolution)
        return expand(model, self._is_expanded, self.forms, self._follows_integers)

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Writes annotations; nodes that another quantizer has annotated are left."""
        with constants_remembered():
            for pattern in self.patterns:
                for match in find(model.graph, pattern):
                    self._take(pattern, match)
            mark_far(model.graph)
            for patterns in (self.followers, CARRIERS):
                mark_wanted(model.graph)
                self._follow(model.graph, patterns)
        return model

    def validate(self, model: fx.GraphModule) -> None:
        """Names that were set must stand in the model.

        Raises:
            InvalidArgumentError: A module name or type that no operator of the model belongs to.
        """
        from .calibration.checks import require_known_names, require_known_operators, warn_of_float_modules

        require_known_names(model, self._by_name, self._by_type)
        warn_of_float_modules(model, [name for name, config in self._by_name.items() if config is not None])
        taken_apart = {key for one in EXPANDED for key in (one, one.overloadpacket)}
        require_known_operators(
            model, [key for key, config in self._by_operator.items() if config and key not in taken_apart]
        )

    def _follow(self, graph: fx.Graph, patterns: tuple[Pattern, ...]) -> None:
        """Takes what these patterns find, in the graph's order, in which each node sees what its inputs have become."""
        matches: dict[fx.Node, tuple[Pattern, Match]] = {}
        for pattern in patterns:
            for match in find(graph, pattern):
                matches.setdefault(match.first, (pattern, match))
        gates = gates_of_grus(graph)
        for node in graph.nodes:
            if node in matches and not (node in gates and self._stays_float(node)):
                self._take(*matches[node])

    def _take(self, pattern: Pattern, match: Match) -> None:
        if any(is_annotated(node) for node in match.nodes):
            return
        config, named = self.config_of(match.first)
        if config is None or kind_of(config) not in pattern.kinds or (pattern.by_name_only and not named):
            return
        if pattern in self.followers and kind_of(config) == "half" and takes_or_gives_far_values(match.nodes):
            return
        if self._filter is None or all(self._filter(node) for node in match.nodes):
            pattern.rule(match, config)

    def _stays_float(self, node: fx.Node) -> bool:
        """Whether a gate's sum or product keeps its floats: with integers, unless it was named itself."""
        config, _ = self.config_of(node)
        named = any(key in self._by_operator for key in (node.target, getattr(node.target, "overloadpacket", None)))
        return config is not None and kind_of(config) == "static" and not named

    def _is_linear(self, node: fx.Node) -> bool:
        """Whether a product with a constant is quantized: as the operator that it is, or as a linear layer."""
        config, named = self.config_of(node)
        if not named:
            config, _ = self.config_of(node, torch.ops.aten.linear.default)
        return config is not None and (self._filter is None or self._filter(node))

    def _is_convolution(self, node: fx.Node) -> bool:
        """Whether a batch norm that stands behind no layer is quantized: by channels, since their factors differ
        much.
        """
        config, named = self.config_of(node)
        if not named:
            config, _ = self.config_of(node, torch.ops.aten.conv2d.default)
        return (
            config is not None
            and kind_of(config) == "static"
            and not config.is_qat
            and weight_of(config, 0).ch_axis == 0
            and (self._filter is None or self._filter(node))
        )

    def _follows_integers(self, node: fx.Node) -> bool:
        """Whether an operator stands behind a layer that gives integers, at once or behind what hands them on."""
        if (self._filter is not None and not self._filter(node)) or not self._is_static(node):
            return False
        seen: set[fx.Node] = set()
        waiting = list(node.all_input_nodes)
        while waiting:
            one = waiting.pop()
            if one.target in CONV | CONV_TRANSPOSE | LINEAR and self._is_static(one):
                return True
            if one not in seen and one.target in HANDS_ON | RELU | BATCH_NORM | ACTIVATIONS:
                seen.add(one)
                waiting.extend(one.all_input_nodes)
        return False

    def _is_static(self, node: fx.Node) -> bool:
        config, _ = self.config_of(node)
        return config is not None and kind_of(config) == "static"

    def _is_expanded(self, node: fx.Node, inner: frozenset[Any]) -> bool:
        """Whether an operator made of others is taken apart: when one of these would be quantized."""
        if self._filter is not None and not self._filter(node):
            return False
        for config, named in (self.config_of(node), *(self.config_of(node, one) for one in inner)):
            if config is not None and any(
                kind_of(config) in pattern.kinds and (named or not pattern.by_name_only)
                for pattern in self.patterns
                if any(pattern.compiled.mentions(target) for target in inner)
            ):
                return True
        return False


def _checked(config: QuantizationConfig | str | None) -> QuantizationConfig | None:
    return None if config is None else as_config(config)
