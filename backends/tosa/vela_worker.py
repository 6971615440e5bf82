"""Runs in the environment of ethos-u-vela, for vela.py: FOLDER FLAGS… compiles FOLDER/graph.tosa.

Leaves in FOLDER: Vela's CSV files, cmd_data, weight_data and compiled.json.
"""

import json
import sys
from pathlib import Path

import numpy as np
from ethosu.vela import vela
from tosa import TosaGraph


def sources_of(payload: bytes) -> dict[str, str]:
    """What each tensor's operator says of where it comes from."""
    block = TosaGraph.TosaGraph.GetRootAs(payload, 0).Regions(0).Blocks(0)
    found = {}
    for i in range(block.OperatorsLength()):
        operator = block.Operators(i)
        location = operator.Location()
        text = location.Text() if location is not None else None
        for k in range(operator.OutputsLength()) if text else ():
            found[operator.Outputs(k).decode()] = text.decode(errors="replace")
    return found


def ends(arrays: np.lib.npyio.NpzFile, kind: str) -> list[list[int]]:
    """Shape of six sizes, bytes of an element, offset and region of each input or output."""
    columns = [arrays[f"{kind}_{name}"] for name in ("shape", "elem_size", "offset", "region")]
    return [[*map(int, shape), int(size), int(offset), int(region)] for shape, size, offset, region in zip(*columns)]


def main() -> None:
    folder = Path(sys.argv[1])
    graph = folder / "graph.tosa"
    status = vela.main([*sys.argv[2:], "--verbose-performance", "--output-dir", str(folder), str(graph)])
    if status:
        sys.exit(status)
    with np.load(folder / "graph_vela.npz", allow_pickle=True) as arrays:  # Vela has just written it
        for name in ("cmd_data", "weight_data"):
            (folder / name).write_bytes(arrays[name].tobytes())
        described = {
            "scratch_size": int(arrays["scratch_size"]),
            "inputs": ends(arrays, "input"),
            "outputs": ends(arrays, "output"),
            "sources": sources_of(graph.read_bytes()),
        }
    (folder / "compiled.json").write_text(json.dumps(described))


if __name__ == "__main__":
    main()
