"""Patterns over fx graphs: the notation of src/cpp/ir/pattern.h, case by case as in tests/cpp/ir/pattern_test.cpp."""

import operator
import re
from pathlib import Path

import pytest
import torch
from torch import fx

from executorch_py.graphs.patterns import Match, Pattern

aten = torch.ops.aten
ROOT = Path(__file__).resolve().parents[3]


def graph_of(function, inputs: int = 2) -> fx.Graph:
    """The graph of a function of tensors [2, 4], as torch.export leaves it."""

    class Model(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    return torch.export.export(Model(), tuple(torch.ones(2, 4) for _ in range(inputs))).graph


def last(graph: fx.Graph) -> fx.Node:
    return [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem][-1]


def match(text: str, function, **options) -> Match | None:
    return Pattern(text).match(last(graph_of(function)), **options)


def _gated(x, y):
    return x.split(2, 1)[0] * x.split(2, 1)[1].sigmoid()


def test_captures_and_nodes():
    graph = graph_of(lambda x, y: torch.sigmoid(x) * x)
    found = Pattern("silu = mul(x, sigmoid(x))").match(last(graph))
    assert found["x"].op == "placeholder" and found["silu"] is last(graph)
    assert [node.target for node in found.nodes] == [aten.mul.Tensor, aten.sigmoid.default]
    assert found.nodes[0] is last(graph)
    assert Pattern("silu = mul(x, sigmoid(x))").match(found.nodes[1]) is None


@pytest.mark.parametrize(
    ("text", "function", "matches"),
    [
        ("r = mul(x, sigmoid(x))", lambda x, y: x * torch.sigmoid(y), False),
        ("r = mul(x, sigmoid(y))", lambda x, y: x * torch.sigmoid(y), True),
        ("r = mul(_, sigmoid(_))", lambda x, y: x * torch.sigmoid(y), True),
        ("r = add(y, exp(x))", lambda x, y: torch.exp(x) + y, True),
        ("r = add(exp(x), y)", lambda x, y: torch.exp(x) + y, True),
        ("r = div(y, exp(x))", lambda x, y: torch.exp(x) / y, False),
        ("r = sub(1, exp(x))", lambda x, y: 1 - torch.exp(x), True),
        ("r = sub(exp(x), 1)", lambda x, y: 1 - torch.exp(x), False),
        ("r = rsub(exp(x), 1)", lambda x, y: 1 - torch.exp(x), True),
        ("r = add(x, y)", lambda x, y: torch.add(x, y, alpha=2), False),
        ("r = add(x, y, alpha=2)", lambda x, y: torch.add(x, y, alpha=2), True),
        ("r = add(x, y, ...)", lambda x, y: torch.add(x, y, alpha=2), True),
        ("r = mean(x, -1)", lambda x, y: x.mean(1, keepdim=True), False),
        ("r = mean(x, -1, keepdim=1)", lambda x, y: x.mean(1, keepdim=True), True),
        ("r = mean(x, 0, keepdim=1)", lambda x, y: x.mean(1, keepdim=True), False),
        ("r = permute(x, [1, 0])", lambda x, y: x.permute(-1, 0), True),
        ("r = permute(x, [0, 1])", lambda x, y: x.permute(-1, 0), False),
        ("r = pow(x, 2)", lambda x, y: x**2, True),
        ("r = clamp(x, -0.5, none)", lambda x, y: x.clamp(min=-0.5), True),
        ("r = clamp(x, -0.5, inf)", lambda x, y: x.clamp(min=-0.5), False),
        ("r = relu(z)\nz = exp(x) | tanh(x)", lambda x, y: torch.relu(torch.tanh(x)), True),
        ("r = relu(exp(x) | sin(x))", lambda x, y: torch.relu(torch.tanh(x)), False),
        ("r = mul(split(x, 2, 1)#0, sigmoid(split(x, 2, 1)#1))", _gated, True),
        ("r = mul(split(x, 2, 1)#1, sigmoid(split(x, 2, 1)#0))", _gated, False),
        ("r = relu(exp(x))", lambda x, y: torch.relu(torch.exp(x)), True),
        ("r = relu(x)", lambda x, y: x.clone().relu_(), True),
    ],
)  # fmt: skip
def test_what_matches(text: str, function, matches: bool):
    assert (match(text, function) is not None) == matches


def test_optional_and_repeated_nodes():
    def function(x, y):
        return torch.relu(x.view(4, 2).view(8))

    assert match("r = relu(view*(x, _))", function)["x"].op == "placeholder"
    assert match("r = relu(view?(x, _))", function)["x"].target is aten.view.default
    assert len(match("r = relu(view*(x, _))", function).nodes) == 3
    assert match("r = relu(view?(x, sizes))", lambda x, y: torch.relu(x))["sizes"] is None


def test_rules_stand_for_many_steps():
    def function(x, y):
        return torch.relu((torch.exp(x) * 2).view(4, 2) * 3)

    found = match("r = relu(STEPS)\nSTEPS = view(STEPS, _) | mul(STEPS, _) | exp(x)", function)
    assert len(found.nodes) == 5 and found["x"].op == "placeholder"
    assert match("r = relu(STEPS)\nSTEPS = view(STEPS, _) | exp(x)", function) is None


def test_a_search_ends():
    """Each sum can be read in two ways."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(aten.sin.default, (x,))
    sums = [node := graph.call_function(aten.add.Tensor, (node, node)) for _ in range(2000)]
    assert Pattern("r = add(STEPS, _)\nSTEPS = add(STEPS, _) | exp(x)").match(sums[-1]) is None
    assert Pattern("r = add(STEPS, _)\nSTEPS = add(STEPS, _) | sin(x)").match(sums[60], closed=False)


def test_sets_of_operators_have_names():
    gates = {torch.ops.aten.sigmoid.default, torch.ops.aten.tanh.default}
    pattern = Pattern("r = GATE?(LINEAR(x, ...), ...)", {"GATE": gates, "LINEAR": {torch.ops.aten.linear.default}})
    graph = graph_of(lambda x: (torch.sigmoid(torch.nn.functional.linear(x, x)), torch.relu(torch.tanh(x))), 1)
    found = [match for node in graph.nodes if (match := pattern.match(node))]
    assert [[str(node.target) for node in match.nodes] for match in found] == [
        ["aten.linear.default"],
        ["aten.sigmoid.default", "aten.linear.default"],
    ]
    assert pattern.mentions(torch.ops.aten.tanh.default) and not pattern.mentions(torch.ops.aten.relu.default)


def test_a_second_place_may_compute_the_same():
    text = "r = mul(d, exp(d))\nd = sub(x, y)"
    assert len(match(text, lambda x, y: (x - y) * torch.exp(x - y)).nodes) == 4
    assert match(text, lambda x, y: (x - y) * torch.exp(y - x)) is None


def test_nobody_else_reads_what_is_inside():
    class Model(torch.nn.Module):
        def forward(self, x):
            e = torch.exp(x)
            return e, torch.relu(e)

    graph = torch.export.export(Model(), (torch.ones(2),)).graph
    assert Pattern("r = relu(exp(x))").match(last(graph)) is None
    assert Pattern("r = relu(exp(x))").match(last(graph), closed=False)
    found = Pattern("r = relu(&exp(x))").match(last(graph))
    assert [node.target for node in found.kept] == [aten.exp.default] and len(found.nodes) == 1


def test_parts_that_others_read():
    def function(x, y):
        first, second = x.split(2, 1)
        return first, torch.sigmoid(second) * y[:, :2]

    assert match("r = mul(sigmoid(split(x, 2, 1)#1), y)", function) is None
    assert match("r = mul(sigmoid(part), y)\npart = &split(x, 2, 1)#_", function)


def test_a_condition_tries_the_next_match():
    names = [node.name for node in graph_of(lambda x, y: x + y).nodes][:2]
    assert match("r = add(a, b)", lambda x, y: x + y)["a"].name == names[0]
    found = match("r = add(a, b)", lambda x, y: x + y, where=lambda m: m["a"].name == names[1])
    assert found["b"].name == names[0]
    assert match("r = add(a, b)", lambda x, y: x + y, where=lambda m: False) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a pattern has a definition"),
        ("relu(x)", "and '='"),
        ("r = relu(x", "expected ','"),
        ("r = ?x", "expected a term"),
        ("r = x?", "has no arguments"),
        ("r = &x", "has no arguments"),
        ("r = aten::relu", "has no arguments"),
        ("r = relu(x)\nr = exp(x)", "line 2: expected a name that is not defined yet"),
        ("r = permute(x, [1", "expected ']'"),
        ("r = relu(x) ; y", "not in the notation"),
        ("r = relu(STEPS)", "no definition of STEPS"),
        ("r = relu(STEPS)\nSTEPS = exp(x) | STEPS", "STEPS begins with itself"),
        ("r = a\na = view?(r, _)", "r begins with itself"),
        ("r = RELU(x)", "no set of operators is called RELU; there are none"),
    ],
)
def test_errors_of_the_text(text: str, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        Pattern(text)


def test_the_compilers_patterns_are_in_the_notation():
    """One notation: what the C++ passes declare, Python reads."""
    texts = []
    for path in (ROOT / "src/cpp/passes").glob("*.cpp"):
        source = path.read_text()
        if "ir::Pattern " in source:
            texts += re.findall(r'R"\((.*?)\)"', source, re.DOTALL)
    assert len(texts) >= 12
    for text in texts:
        Pattern(text)
