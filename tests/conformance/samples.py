"""Which cases there are: entries of the databases, by element type, with the number of samples taken of each.

An *item* is one entry of one database in one element type; a worker takes an item and runs its samples one by one. An
item is only a name, so that it travels between processes; adapters.py makes models of it.

    >>> [item.key for item in all_items() if item.name == "add"][:2]  # doctest: +SKIP
    ['op/add/float32', 'op/add/bool']
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: Samples of an operator by element type: float32 in some breadth, the types that models use twice, the others once.
OPERATOR_SAMPLES = {
    "float32": 5, "bool": 2, "int64": 2, "bfloat16": 2, "float16": 2,
    "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "float64": 1,
}  # fmt: skip
MODULE_SAMPLES = {"float32": 4, "bfloat16": 1, "float64": 1}

#: Samples whose inputs get special values.
SPECIAL_SAMPLES = {"float32": 3, "bfloat16": 1, "float16": 1, "float64": 1}

#: The databases of torch and their operators with special values, which run by default, and the published
#: architectures, which take longer than all of them.
DATABASES = ("op", "module", "example", "special")
GROUPS = (*DATABASES, "architecture")


@dataclass(frozen=True)
class Item:
    """One entry of a database in one element type.

    Attributes:
        group: One of GROUPS.
        name: The entry's name, with its variant: "linalg.norm", "nn.functional.pad.reflect".
        dtype: Element type of the samples; "-" where the example decides.
        limit: How many samples at most.
    """

    group: str
    name: str
    dtype: str
    limit: int

    @property
    def key(self) -> str:
        return f"{self.group}/{self.name}/{self.dtype}"


@functools.cache
def operator_entries() -> dict[str, Any]:
    """The operator database by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else ""): entry for entry in op_db}


@functools.cache
def module_entries() -> dict[str, Any]:
    """The module database by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    return {entry.name: entry for entry in module_db}


@functools.cache
def example_entries() -> dict[str, Any]:
    """torch.export's examples by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch._export.db.examples import all_examples
    return dict(sorted(all_examples().items()))


def all_items() -> Iterator[Item]:
    """Every item of torch's databases: operators in all their element types, modules, examples."""
    import torch

    for name, entry in operator_entries().items():
        for dtype, limit in OPERATOR_SAMPLES.items():
            if getattr(torch, dtype) in entry.dtypes:
                yield Item("op", name, dtype, limit)
    for name, entry in module_entries().items():
        for dtype, limit in MODULE_SAMPLES.items():
            if getattr(torch, dtype) in entry.dtypes:
                yield Item("module", name, dtype, limit)
    for name in example_entries():
        yield Item("example", name, "-", 2)  # with and without tracing of bytecode
    yield from special_items()


def special_items() -> Iterator[Item]:
    """Operators and modules with special values among their inputs."""
    import torch

    for name, entry in [*operator_entries().items(), *module_entries().items()]:
        for dtype, limit in SPECIAL_SAMPLES.items():
            if getattr(torch, dtype) in entry.dtypes:
                yield Item("special", name, dtype, limit)


def architecture_items() -> Iterator[Item]:
    """Published architectures, each on our own kernels and with the XNNPACK delegate."""
    from .architectures import architecture_entries

    for name in architecture_entries():
        yield Item("architecture", name, "float32", 2)
