"""TOSAQuantizer and EthosUQuantizer: XNNPACKQuantizer's tables of patterns, with those that leave no floats between.

>>> quantizer = TOSAQuantizer("TOSA-1.0+INT").set_global(get_symmetric_quantization_config(True))  # doctest: +SKIP
"""

import operator
from typing import Any

from torch import fx

from executorch_py.errors import InvalidArgumentError, NotSupportedError

from .rules.annotation import annotate, binary_or_function, function, matmul, normalised, rescaled
from .rules.expansion import FORMS
from .rules.hidden_scores import FORMS_OF_MASKS
from .rules.integer_forms import INTEGER_FORMS
from .rules.loops import BODIES
from .rules.matching import ADD, MUL, SUB, Match, Pattern, depends_on_inputs, is_float32
from .spec.config import kind_of
from .spec.pt2e import QuantizationConfig
from .xnnpack_quantizer import FOLLOWERS, PATTERNS, XNNPACKQuantizer

_PREFIX = "TOSA-1.0+"
_STATIC = frozenset({"static"})
_OF_TWO = ADD | MUL | SUB
_OWN = frozenset({"matmul", "add", "mul", "activation"})

#: XNNPACK's tables, and what stays in float there: nothing computes on floats beside an NPU.
_PATTERNS = (
    *(pattern for pattern in PATTERNS if pattern.name not in _OWN),
    Pattern("matmul", "y = MATMUL(...)", matmul, _STATIC),
    Pattern("softmax", "y = SOFTMAX(...)", normalised, _STATIC),
    Pattern("layer_norm", "y = NORM(...)", normalised, _STATIC),
)
_FOLLOWERS = (
    Pattern("add", "y = RELU?(ADD(...), ...)", binary_or_function, _STATIC),
    Pattern("sub", "y = RELU?(SUB(...), ...)", binary_or_function, _STATIC),
    Pattern("mul", "y = RELU?(MUL(...), ...)", binary_or_function, _STATIC),
    *(pattern for pattern in FOLLOWERS if pattern.name not in _OWN),
    Pattern("sum", "y = SUM(...)", rescaled, _STATIC),
    Pattern("function", "y = STEP(...)", function, _STATIC),
)


class TOSAQuantizer(XNNPACKQuantizer):
    """Annotates for a TOSA specification with the profile INT.

    Args:
        tosa_spec: "TOSA-1.0+INT", with extensions or without: "TOSA-1.0+INT+int16+int4".

    Raises:
        InvalidArgumentError: Another specification, or one without integers.
    """

    patterns, followers = _PATTERNS, _FOLLOWERS
    forms = FORMS | INTEGER_FORMS

    def __init__(self, tosa_spec: str = "TOSA-1.0+INT") -> None:
        super().__init__()
        if not any(pattern.name == "softmax" for pattern in self.patterns):  # floats hide scores as they are
            self.forms = {target: form for target, form in self.forms.items() if form not in FORMS_OF_MASKS.values()}
        if not str(tosa_spec).startswith(_PREFIX) or "INT" not in str(tosa_spec).removeprefix(_PREFIX).split("+"):
            raise InvalidArgumentError(f"tosa_spec is '{tosa_spec}', must be {_PREFIX}INT, the profile with integers")

    def set_global(self, quantization_config: QuantizationConfig | str | None) -> "TOSAQuantizer":
        """Sets what holds where nothing else is set.

        Raises:
            NotSupportedError: Scales that are chosen at run time, or none for activations: TOSA has neither.
        """
        super().set_global(quantization_config)
        if self._global is not None and kind_of(self._global) != "static":
            raise NotSupportedError(f"TOSA has no quantization of the kind {kind_of(self._global)}, only static")
        return self

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """As the base class; what loops give are integers, too, and sums and products of inputs."""
        for node in model.graph.nodes:
            given = node.all_input_nodes
            if node.target in _OF_TWO and all(one.op == "placeholder" and depends_on_inputs(one) for one in given):
                config, _ = self.config_of(node)
                if config is not None and given and all(map(is_float32, (node, *given))) and self._is_static(node):
                    annotate(Match((node,)), dict.fromkeys(given, config.input_activation), config.output_activation)
            loop: Any = node.args[0] if node.target is operator.getitem else None
            if loop is not None and loop.target in BODIES and is_float32(node) and self._is_static(node):
                annotate(Match((node,)), {}, self.config_of(node)[0].output_activation)  # type: ignore[union-attr]
        return super().annotate(model)

    def _follows_integers(self, node: fx.Node) -> bool:
        return self._is_static(node)  # all are integers, as far as it goes

    def _stays_float(self, node: fx.Node) -> bool:
        return False  # gates neither


class EthosUQuantizer(TOSAQuantizer):
    """The same for Ethos-U, whose compiler takes TOSA-1.0+INT.

    Args:
        accelerator: As Vela names it ("ethos-u55-128").

    Raises:
        InvalidArgumentError: It is no Ethos-U.
    """

    def __init__(self, accelerator: str = "ethos-u55-128") -> None:
        super().__init__()
        if not str(accelerator).startswith("ethos-u"):
            raise InvalidArgumentError(f"accelerator is '{accelerator}', must be an Ethos-U such as ethos-u55-128")
