"""What a firmware project compiles of the interpreter: the operators of its model's payloads. And its targets' NPUs.

>>> definitions([payload])  # doctest: +SKIP
['ET_TOSA_OPERATORS=3,5,66']
"""

from __future__ import annotations

from collections.abc import Iterable

from executorch_py.codegen.flatbuffer import read_root

from .accelerators import ACCELERATORS as OF_VELA

__all__ = ["ACCELERATORS", "definitions"]

#: NPU -> the target whose processor it stands beside. A U65 stands beside a Cortex-A.
ACCELERATORS = {name: "cortex-m55" for name in OF_VELA if not name.startswith("ethos-u65")}

#: Op_CONST and Op_CONST_SHAPE, which the interpreter does not run.
_CONSTANTS = frozenset({67, 75})


def definitions(payloads: Iterable[bytes]) -> list[str]:
    """Macros for the C++ sources of runtime/.

    Raises:
        DamagedError: A payload is no TOSA graph.
    """
    found = {
        operator.scalar(0, "I")
        for payload in payloads
        for region in read_root(payload, b"TOSA").tables(1)
        for block in region.tables(1)
        for operator in block.tables(1)
    }
    return [f"ET_TOSA_OPERATORS={','.join(map(str, sorted(found - _CONSTANTS)))}"]
