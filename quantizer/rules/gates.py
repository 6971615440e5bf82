"""What a step of a GRU does between its products, which stays in float and becomes one operator (``et::gru_gates``).

The sums of its gates are those of two products, which a quantizer would take for activations of their own; each
rounding of theirs is one that the next step inherits. An LSTM's gates are functions of one sum, and nothing behind it
is quantized.
"""

from torch import fx

from executorch_py.graphs.patterns import Pattern

from .matching import ADD, MUL

#: The same as in src/cpp/passes/fuse_gru_gates.cpp, without what the gates are made of (tests/meta/test_formulas.py).
_STEP = Pattern("""
  after = add(n, mul(z, sub(_, n))) | add(mul(sub(1, z), n), mul(z, _))
  n = tanh(add(_, mul(r, _)))
  r = sigmoid(add(_, _))
  z = sigmoid(add(_, _))
""")


def gates_of_grus(graph: fx.Graph) -> set[fx.Node]:
    """The sums and products of all steps, from those of the gates to the new state."""
    steps = [step for last in graph.nodes if (step := _STEP.match(last, closed=False))]
    return {node for step in steps for node in step.nodes if node.target in ADD | MUL}
