"""Runs in the environment of tosa-tools, for reference.py: GRAPH IN.npz OUT.npz."""

import sys

from tool_versions import require

require("tosa-tools", "2026.8.0")

import numpy as np
import tosa_reference_model
from tosa import TosaGraph


def shapes_of_outputs(payload: bytes) -> list[list[int]]:
    """The model gives scalars as [1]; the graph says what they are."""
    block = TosaGraph.TosaGraph.GetRootAs(payload, 0).Regions(0).Blocks(0)
    tensors = (block.Tensors(i) for i in range(block.TensorsLength()))
    shapes = {tensor.Name(): [tensor.Shape(d) for d in range(tensor.ShapeLength())] for tensor in tensors}
    return [shapes[block.Outputs(i)] for i in range(block.OutputsLength())]


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        payload = file.read()
    with np.load(sys.argv[2]) as arrays:
        inputs = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
    outputs, status = tosa_reference_model.run(payload, inputs, tosa_level="EIGHTK")
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        sys.exit(f"status {status.name}")
    np.savez(sys.argv[3], *(o.reshape(shape) for o, shape in zip(outputs, shapes_of_outputs(payload))))


if __name__ == "__main__":
    main()
