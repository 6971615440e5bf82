"""Builds payloads for tests in .venv-tosa: NAME FILE, one of the functions below."""

import sys

from operator_cases import DType, Graph, Op, ts


def _located(g: Graph, text: str) -> ts.TosaOpLocation:
    location = ts.TosaOpLocation()
    location.text = text
    return location


def convolution(g: Graph) -> None:
    """An int8 convolution and its RESCALE."""
    x = g.input([1, 16, 16, 8], DType.INT8)
    weight, bias = g.const(g.values([16, 3, 3, 8], DType.INT8), DType.INT8), g.const([5] * 16, DType.INT32)
    attribute = g.attribute("Conv2d", [1, 1, 1, 1], [1, 1], [1, 1], False, DType.INT32)
    zero_points = [g.const([3], DType.INT8), g.const([0], DType.INT8)]
    shape = [1, 16, 16, 16]
    total = g.operator(Op.CONV2D, [x, weight, bias, *zero_points], shape, DType.INT32, attribute, False)
    single = g.attribute("Rescale", True, ts.RoundingMode.SINGLE_ROUND, False, False, False)
    scale = [g.const([2**30 + 5], DType.INT32), g.const([40], DType.INT8)]
    result = g.file.addOutput(shape, DType.INT8).name
    operands = [total, *scale, g.const([0], DType.INT32), g.const([3], DType.INT8)]
    g.file.addOperator(Op.RESCALE, operands, [result], single, _located(g, "model.py:12 handle=7"))


def product_of_floats(g: Graph) -> None:
    """What no Ethos-U takes."""
    x, y = g.input([4], DType.FP32), g.input([4], DType.FP32)
    g.operator(Op.POW, [x, y], [4], DType.FP32, g.attribute("Pow"))


if __name__ == "__main__":
    graph = Graph([0])
    globals()[sys.argv[1]](graph)
    with open(sys.argv[2], "wb") as file:
        file.write(graph.file.serialize())
