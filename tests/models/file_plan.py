"""What a `.pte` file itself says about memory: lifetimes of its tensors, recomputed from its instructions.

Reads the tables with flatc and the project's schema, so that nothing of the compiler or the runtime takes part. The
rules it goes by are the format's. The last argument of a call is what it writes (a tensor, or a list of them). A tensor
that no call writes is a view of what lies at its place when it is first read. An output at the place of an input that
dies there is that input's memory used again.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SCHEMA = Path(__file__).resolve().parents[2] / "src" / "cpp" / "schema" / "program.fbs"
_ELEMENT_SIZE = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 9: 8, 10: 16, 11: 1, 15: 2, 27: 2, 28: 4, 29: 8}


@dataclass
class Plan:
    """Bytes of one method. `live` is the largest sum of bytes that are alive at the same time."""

    method: str
    planned: int
    live: int


def tables(program: bytes) -> dict:
    """The tables of a program as flatc prints them in JSON, with defaults and numbers for enumerations."""
    nbytes = struct.unpack_from("<Q", program, 16)[0] if program[8:12] == b"eh00" else len(program)
    flatc = shutil.which("flatc")
    assert flatc, "flatc is part of the build environment"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "program.bin").write_bytes(program[:nbytes])
        command = [flatc, "--json", "--strict-json", "--defaults-json", "--raw-binary", "-o", folder, str(SCHEMA), "--",
                   f"{folder}/program.bin"]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        return json.loads((Path(folder) / "program.json").read_text())


class _Tensors:
    """The tensors of a method that have a planned place, and which of them are one piece of memory."""

    def __init__(self, plan: dict) -> None:
        self.values = plan["values"]
        self.place: dict[int, tuple[int, int]] = {}
        self.nbytes: dict[int, int] = {}
        self.is_state: set[int] = set()
        self.parent: dict[int, int] = {}
        for index, value in enumerate(self.values):
            tensor = value.get("val") if value.get("val_type") == "Tensor" else None
            if not tensor or not tensor.get("allocation_info"):
                continue
            where = tensor["allocation_info"]
            self.place[index] = (where["memory_id"], where["memory_offset_high"] << 32 | where["memory_offset_low"])
            numel = 1
            for size in tensor.get("sizes", []):
                numel *= size
            self.nbytes[index] = numel * _ELEMENT_SIZE[_scalar_type(tensor["scalar_type"])]
            self.parent[index] = index
            if tensor.get("data_buffer_idx", 0) > 0 or (tensor.get("extra_tensor_info") or {}).get(
                "fully_qualified_name"
            ):
                self.is_state.add(index)  # holds a value before the first instruction, and after the last

    def tensors_in(self, index: int) -> list[int]:
        """The planned tensors that value `index` is or lists."""
        value = self.values[index]
        if value.get("val_type") in ("TensorList", "OptionalTensorList"):
            return [i for i in value["val"]["items"] if i in self.place]
        return [index] if index in self.place else []

    def root(self, index: int) -> int:
        while self.parent[index] != index:
            index = self.parent[index]
        return index

    def join(self, a: int, b: int) -> None:
        self.parent[self.root(a)] = self.root(b)


def _scalar_type(value: int | str) -> int:
    names = {
        "BYTE": 0,
        "CHAR": 1,
        "SHORT": 2,
        "INT": 3,
        "LONG": 4,
        "HALF": 5,
        "FLOAT": 6,
        "DOUBLE": 7,
        "BOOL": 11,
        "BFLOAT16": 15,
    }
    return value if isinstance(value, int) else names[value.upper()]


def _calls(plan: dict) -> list[list[int]]:
    """Argument lists of the instructions that read and write, in order."""
    calls = []
    for chain in plan["chains"]:
        for instruction in chain.get("instructions", []):
            kind, arguments = instruction["instr_args_type"], instruction["instr_args"]
            assert kind in ("KernelCall", "DelegateCall"), f"{kind}: control flow is not what this reader is for"
            calls.append(arguments["args"])
    return calls


def method_plan(plan: dict) -> Plan:
    """Recomputes the lifetimes of one execution plan (of tables())."""
    tensors = _Tensors(plan)
    calls = _calls(plan)
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    holder: dict[tuple[int, int], int] = {}  # place -> the tensor whose bytes are there now

    def read(index: int, time: int) -> None:
        if index not in begin:  # a view of what lies there
            assert tensors.place[index] in holder, f"value {index} is read before anything is written at its place"
            tensors.join(index, holder[tensors.place[index]])
            begin[index] = time
        end[index] = max(end.get(index, time), time)

    def write(index: int, time: int) -> None:
        begin.setdefault(index, time)
        end[index] = max(end.get(index, time), time)
        holder[tensors.place[index]] = index

    last = len(calls)
    for index in tensors.is_state:
        write(index, -1)
        end[index] = last
    for index in plan.get("inputs", []):
        for tensor in tensors.tensors_in(index):
            write(tensor, -1)
    for time, arguments in enumerate(calls):
        written = tensors.tensors_in(arguments[-1])
        sources = [t for i in arguments for t in tensors.tensors_in(i) if t not in written]
        for source in sources:
            read(source, time)
        for target in written:
            for source in sources:
                if tensors.place[source] == tensors.place[target]:
                    tensors.join(target, source)
            write(target, time)
    for index in plan.get("outputs", []):
        for tensor in tensors.tensors_in(index):
            read(tensor, last)

    groups: dict[int, list[int]] = {}
    for index in begin:
        groups.setdefault(tensors.root(index), []).append(index)
    spans = [
        (min(begin[i] for i in group), max(end[i] for i in group), max(tensors.nbytes[i] for i in group))
        for group in groups.values()
    ]
    live = max((sum(n for b, e, n in spans if b <= t <= e) for t in range(-1, last + 1)), default=0)
    return Plan(plan["name"], sum(plan["non_const_buffer_sizes"]), live)


def plans(program: bytes) -> list[Plan]:
    """One entry for each method that has instructions."""
    return [method_plan(plan) for plan in tables(program)["execution_plan"] if _calls(plan)]
