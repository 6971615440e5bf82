"""Which functions of the extension module loading and calling models takes: writes cmake/first_call.txt.

    python tools/first_call.py [--add] MODEL.pte [MODEL.pte ...]

For: grouping these functions in the module (cmake/EtFirstCall.cmake). The system maps code 64 KiB at a time, so
scattered functions cost each process megabytes. Run it with the package of a build tree on PYTHONPATH when what runs at
load and call has changed much; a name in the list that is no longer there does no harm. The list holds names as the
linker knows them, those that most models take first. --add keeps what the list has and the module has, too, such
as functions of another instruction set: a name then stands at the earlier of its two places.
Not for: other systems than Linux on x86-64, where the list serves all the same.

Each model runs in a process of its own, forked when the package is imported, once with inputs of torch and once of
numpy.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

import executorch_py as et
from executorch_py.element_types import torch_name

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "cmake" / "first_call.txt"
HEADER = """\
# Functions that loading and first calls of models take, those of most models first. Measured by tools/first_call.py on
# x86-64.
"""


class Module:
    """The extension module in memory, with the entries of its functions."""

    def __init__(self) -> None:
        from executorch_py import _core

        et.Runtime.get()
        path = _core.__file__
        rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(path)]
        ranges = [tuple(int(part, 16) for part in row[0].split("-")) for row in rows]
        base = ranges[0][0]
        self.begin, self.end = next(at for at, row in zip(ranges, rows, strict=True) if row[1].startswith("r-x"))
        listing = subprocess.run(["nm", "--defined-only", path], check=True, capture_output=True, text=True).stdout
        entries: dict[int, str] = {}
        for line in listing.splitlines():
            at, kind, name = line.split(maxsplit=2)
            if kind in "tTwW" and self.begin <= base + int(at, 16) < self.end and not name.endswith(".cold"):
                entries[base + int(at, 16)] = name
        self.entries = sorted(entries)
        self.names = [entries[at] for at in self.entries]


def inputs_of(meta: et.MethodMetadata) -> list[torch.Tensor]:
    """Inputs of a method, all of them zeros."""
    infos = [meta.input_tensor_meta(index) for index in range(meta.num_inputs())]
    return [torch.zeros(info.sizes(), dtype=getattr(torch, torch_name(info.dtype()))) for info in infos]


def functions_of(module: Module, tracer: ctypes.CDLL, model: Path, library: str) -> list[str]:
    """Names of the functions that loading and three calls of a model take, in order."""
    count = len(module.entries)
    at = (ctypes.c_uint64 * count)(*module.entries)
    saved = (ctypes.c_uint8 * count)()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        inputs = inputs_of(et.Runtime.get().load_program(model).metadata("forward"))
        inputs = [value.numpy() for value in inputs] if library == "numpy" else inputs
        et.set_num_threads(1)
        order = (ctypes.c_uint32 * count)()
        if tracer.arm(*map(ctypes.c_uint64, (module.begin, module.end)), at, saved, order, ctypes.c_size_t(count)) != 0:
            os._exit(1)
        method = et.Runtime.get().load_program(model).load_method("forward")
        for _ in range(3):
            method.execute(inputs)
        names = "\n".join(module.names[index] for index in order[: tracer.number_met()])
        with os.fdopen(write, "w") as answer:
            answer.write(names)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        names = answer.read().split("\n")
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"{model}: the process ended by status {status}")
    return names


def main(models: list[str]) -> int:
    adds = models[:1] == ["--add"]
    models = models[adds:]
    if not models:
        print(__doc__)
        return 2
    module = Module()
    users: Counter[str] = Counter()  # keeps the order of first calls among equals
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "tracer.so")
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        tracer = ctypes.CDLL(str(library))
        for model in models:
            for tensors in ("torch", "numpy"):
                names = functions_of(module, tracer, Path(model), tensors)
                print(f"{model} ({tensors}): {len(names)} functions")
                users.update(names)
    known = set(module.names)
    kept = [name for name in LIST.read_text().splitlines() if name in known] if adds else []
    met = [name for name, _ in users.most_common()]
    places: dict[str, int] = {}
    for order in (met, kept):
        for place, name in enumerate(order):
            places[name] = min(place, places.get(name, place))
    names = sorted(places, key=places.__getitem__)
    LIST.write_text(HEADER + "".join(f"{name}\n" for name in names))
    print(f"{LIST.relative_to(ROOT)}: {len(names)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
