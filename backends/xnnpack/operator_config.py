"""Which operators a list of configurations is for: what the partitioner needs of partition_configs.py."""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

from executorch_py.errors import InvalidTypeError
from executorch_py.exir.backend.canonical_partitioners.config_partitioner import PartitionerConfig

#: Operators that stand in Edge here where the published dialect has another one.
_ALSO = {
    "convolution": ("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"),
    "_softmax": ("softmax",),
    "_native_batch_norm_legit_no_training": ("batch_norm",),
}

#: Operators on integers' scales, which go with the operators around them.
_QUANTIZATION = ("quantized_decomposed", "torchao", "pt2e_quant")


class OperatorConfig(PartitionerConfig):
    """A configuration of one operator."""


def operators_of(configs: Iterable[type[OperatorConfig]]) -> frozenset[str]:
    """Names of operators, without overload, that the configurations are for.

    Raises:
        InvalidTypeError: One is no such class.
    """
    names: set[str] = set()
    for config in configs:
        if not isinstance(config, type) or not issubclass(config, OperatorConfig):
            raise InvalidTypeError(
                f"configs has {config!r:.60}, must have classes of partition_configs, such as LinearConfig"
            )
        name = config.target_name.partition(".")[0]
        names.update((name, *_ALSO.get(name, ())))
    return frozenset(names)


def is_meant(node: fx.Node, operators: frozenset[str]) -> bool:
    """Whether a node calls one of these operators, or converts integers for one."""
    schema = getattr(node.target, "_schema", None)
    namespace, _, name = ("" if schema is None else schema.name).partition("::")
    return namespace in _QUANTIZATION or name in operators
