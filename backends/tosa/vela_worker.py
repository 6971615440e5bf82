"""Runs in the environment of ethos-u-vela, for vela.py: FOLDER FLAGS… compiles FOLDER/graph.tosa.

Leaves in FOLDER: Vela's CSV files, cmd_data, weight_data and compiled.json.
"""

import configparser
import json
import sys
from pathlib import Path

from tool_versions import require

require("ethos-u-vela", "5.2.0")

import ethosu
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


def missing_section(flags: list[str]) -> str:
    """What the flags name and the configuration has not; "" = nothing."""
    given = dict(flag.partition("=")[::2] for flag in flags)
    name = given["--config"]
    path = next((p for p in (Path(name), Path(ethosu.__path__[0]) / "config_files" / name) if p.is_file()), None)
    if path is None:
        return f"Vela has no configuration file {name}"
    config = configparser.ConfigParser()
    config.read(path)
    for flag, kind in (("--system-config", "System_Config"), ("--memory-mode", "Memory_Mode")):
        if f"{kind}.{given[flag]}" not in config:
            known = ", ".join(one.partition(".")[2] for one in config if one.startswith(kind))
            return f"{flag[2:]} '{given[flag]}' is not in {name}, which has {known}"
    return ""


def main() -> None:
    folder = Path(sys.argv[1])
    if missing := missing_section(sys.argv[2:]):
        print(missing, file=sys.stderr)
        sys.exit(3)  # environment.BAD_OPTION
    graph = folder / "graph.tosa"
    try:
        status = vela.main([*sys.argv[2:], "--verbose-performance", "--output-dir", str(folder), str(graph)])
    except SystemExit as ended:
        status = 3 if ended.code == 2 else ended.code  # its parser's, which has said what is wrong: BAD_OPTION
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
