"""TOSAQuantizer and EthosUQuantizer: XNNPACKQuantizer's table of patterns, for what backends/tosa computes with.

>>> quantizer = TOSAQuantizer("TOSA-1.0+INT").set_global(get_symmetric_quantization_config(True))  # doctest: +SKIP
"""

from executorch_py.errors import InvalidArgumentError, NotSupportedError

from .spec.config import kind_of
from .spec.pt2e import QuantizationConfig
from .xnnpack_quantizer import XNNPACKQuantizer

_PREFIX = "TOSA-1.0+"


class TOSAQuantizer(XNNPACKQuantizer):
    """Annotates for a TOSA specification with the profile INT.

    Args:
        tosa_spec: "TOSA-1.0+INT".

    Raises:
        InvalidArgumentError: Another specification, or one without integers.
    """

    def __init__(self, tosa_spec: str = "TOSA-1.0+INT") -> None:
        super().__init__()
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
