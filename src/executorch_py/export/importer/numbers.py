"""Functions of numbers that have no primitive operator: ATen's, applied to tensors without dimensions.

For sizes and numbers of the data, in the graph (symbolic_ops.py) and in what torch.export assumed of them (guards.py).
What is computed is what Python computes: floats are doubles, ints have 64 bits.
"""

from typing import Any

import torch
from torch import fx

from executorch_py.graphs.dtypes import dtype_code

from .builder import Builder

#: Functions of one float, by their name in ``math``, in ``torch._sym_<name>`` and in ATen.
FLOAT_FUNCTIONS = (
    "sqrt", "exp", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
)  # fmt: skip

#: Operators on the bits of two ints, by torch's names.
BIT_FUNCTIONS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")

#: Most decimals that a float is rounded to: powers of ten up to this one, and their halves by bits, are exact.
_MOST_DECIMALS = 15


class NumberWriter:
    """Writes functions of numbers at one node.

    Args:
        importer: Of the method.
        node: What the operators stand for.
    """

    def __init__(self, importer: Builder, node: fx.Node) -> None:
        self.importer = importer
        self.node = node

    def primitive(self, op: str, kind: Any, *arguments: Any) -> Any:
        """A primitive operator's result."""
        return self._emit(f"executorch_prim::{op}.Scalar", list(arguments), kind)

    def float_function(self, name: str, value: Any) -> Any:
        """One of FLOAT_FUNCTIONS."""
        return self._on_tensors(f"aten::{name}", torch.float64, "double", value)

    def bit_function(self, name: str, kind: Any, a: Any, b: Any) -> Any:
        """One of BIT_FUNCTIONS."""
        return self._on_tensors(f"aten::{name}.Tensor", torch.int64, kind, a, b)

    def float_power(self, base: Any, exponent: Any) -> Any:
        return self._on_tensors("aten::pow.Tensor_Tensor", torch.float64, "double", base, exponent)

    def int_power(self, kind: Any, base: Any, exponent: Any) -> Any:
        """Of ints; the exponent is not negative."""
        if isinstance(exponent, int) and 1 <= exponent <= 16:
            product = base
            for _ in range(exponent - 1):
                product = self.primitive("mul", kind, product, base)
            return product
        return self._on_tensors("aten::pow.Tensor_Tensor", torch.int64, kind, base, exponent)

    def floor(self, kind: Any, value: Any) -> Any:
        """The int below; -ceil(-x), because floordiv(x, 1) of a float would be a float."""
        negated = self.primitive("neg", "double", value)
        return self.primitive("neg", kind, self.primitive("ceil", kind, negated))

    def absolute(self, kind: Any, value: Any) -> Any:
        return self.primitive("sym_max", kind, value, self.primitive("neg", kind, value))

    def can_round_to(self, decimals: Any) -> bool:
        return isinstance(decimals, int) and 0 <= decimals <= _MOST_DECIMALS

    def round_decimals(self, value: Any, decimals: int) -> Any:
        """Python's ``round(value, decimals)`` of a float.

        The product with the power of ten is rounded. It is a tie where the exact one is not for 0.025 and two decimals,
        say; then its error decides, which is exact by Dekker's product ("A floating-point technique for extending the
        available precision", 1971). A value so large that the product has no fraction stays as it is.
        """

        def calculate(op: str, *arguments: Any) -> Any:
            return self.primitive(op, "double", *arguments)

        power = 10.0**decimals
        value = calculate("sym_float", value)
        product = calculate("mul", value, power)
        high, low = self._halves(value)
        split = power * (2.0**27 + 1)
        power_high = split - (split - power)
        power_low = power - power_high
        error = calculate("sub", calculate("mul", high, power_high), product)
        for a, b in ((high, power_low), (low, power_high), (low, power_low)):
            error = calculate("add", error, calculate("mul", a, b))
        below = calculate("floordiv", product, 1.0)
        rest = calculate("sub", product, below)
        odd = self.primitive("eq", "bool", calculate("mod", below, 2.0), 1.0)
        exact_tie = self.primitive("sym_ite", "bool", self.primitive("eq", "bool", error, 0.0), odd, False)
        tie_up = self.primitive("sym_ite", "bool", self.primitive("gt", "bool", error, 0.0), True, exact_tie)
        is_tie = self.primitive("eq", "bool", rest, 0.5)
        over = self.primitive("gt", "bool", rest, 0.5)
        up = self.primitive("sym_ite", "bool", is_tie, tie_up, over)
        rounded = calculate("truediv", calculate("add", below, calculate("sym_ite", up, 1.0, 0.0)), power)
        has_fraction = self.primitive("lt", "bool", self.absolute("double", product), 2.0**52)
        return calculate("sym_ite", has_fraction, rounded, value)

    def _halves(self, value: Any) -> tuple[Any, Any]:
        """A double as a sum of two that have half of its bits."""
        scaled = self.primitive("mul", "double", value, 2.0**27 + 1)
        high = self.primitive("sub", "double", scaled, self.primitive("sub", "double", scaled, value))
        return high, self.primitive("sub", "double", value, high)

    def _on_tensors(self, op: str, dtype: torch.dtype, kind: Any, *numbers: Any) -> Any:
        code = dtype_code(dtype)
        tensors = [self._emit("aten::scalar_tensor", [n, code, None, None, None], (code, [])) for n in numbers]
        return self._emit("aten::_local_scalar_dense", [self._emit(op, tensors, (code, []))], kind)

    def _emit(self, op: str, arguments: list[Any], kind: Any) -> Any:
        return self.importer.emit(self.node, op, arguments, [kind])[0]
