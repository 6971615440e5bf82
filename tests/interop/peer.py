"""Runs inside the environment that has the official package: lowers exported programs with it, and runs files in it.

    python peer.py lower FOLDER    every NAME.pt2 becomes NAME.pte by the official exporter, portable operators only
    python peer.py delegate FOLDER every NAME.pt2 becomes NAME.pte by the official exporter, delegated to XNNPACK
    python peer.py quantize FOLDER every NAME.float (a .pt2 of floats) becomes NAME.pt2, quantized on NAME.inputs.pt
                                   with the official XNNPACKQuantizer (NAME ends in the mode: static, channel or
                                   dynamic), and NAME.eager.pt, what that program computes
    python peer.py groups FOLDER   every NAME.module (a pickled module of linear layers) becomes NAME.pte, delegated,
                                   quantized by torchao: inputs at run time, weights of 4 bits with a scale for 32
                                   columns
    python peer.py external FOLDER as delegate, with the weights in NAME.ptd
    python peer.py run_external FOLDER  as run, for files with NAME.ptd beside them
    python peer.py record FOLDER   as delegate (NAME begins with "delegated") or lower, with NAME.etrecord, and
                                   NAME.peer.etdp with NAME.peer.bin of one run in the official runtime
    python peer.py inspect FOLDER  every NAME.etdp, with the values in NAME.bin, read by the official Inspector with the
                                   ETRecord of the model, gives NAME.events.pt
    python peer.py run FOLDER      every NAME.pte runs on NAME.inputs.pt in the official runtime, giving NAME.outputs.pt

    python peer.py serve           reads lines of JSON, ["LOG", commands …, "FOLDER"]; a fork for each does what it says
                                   and writes LOG; answers with exit codes. The package is imported once. In place of
                                   commands and folder: "script", "PATH", and what the script's command line has

Several commands before the folder run one after the other. What fails writes NAME.error (one line) instead, and the
others go on. The package is used as a black box through its public API. Torch is the same version on both sides, so
`.pt2` and `.pt` files can be exchanged.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import torch


def lower(path: Path) -> None:
    """Writes path's program as a `.pte` of the official exporter."""
    from executorch.exir import to_edge

    importlib.import_module("executorch.kernels.quantized")  # the out variants of quantized_decomposed
    exported = torch.export.load(path)
    program = to_edge(exported).to_executorch()
    path.with_suffix(".pte").write_bytes(program.buffer)


def delegate(path: Path) -> None:
    """Writes path's program as a `.pte` of the official exporter whose operators go to XNNPACK."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # the operators that quantized programs name
    _delegate(torch.export.load(path), path)


def _delegate(exported: torch.export.ExportedProgram, path: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    importlib.import_module("executorch.kernels.quantized")  # the out variants of what is not delegated
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    path.with_suffix(".pte").write_bytes(program.buffer)


def external(path: Path) -> None:
    """As `delegate`, with the weights in a `.ptd` of the same name."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.passes.external_constants_pass import delegate_external_constants_pass_unlifted

    module, inputs = torch.export.load(path).module(), torch.load(path.with_suffix(".inputs.pt"))[0]
    delegate_external_constants_pass_unlifted(module=module, gen_tag_fn=lambda node: path.stem)
    exported = torch.export.export(module, tuple(inputs), strict=True)
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    path.with_suffix(".pte").write_bytes(program.buffer)
    program.write_tensor_data_to_file(str(path.parent))


def run_external(path: Path) -> None:
    """Runs `forward` of a `.pte` file whose weights are in a `.ptd`."""
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch(str(path), str(path.with_suffix(".ptd")))
    outputs = [module.forward(list(call)) for call in torch.load(path.with_suffix(".inputs.pt"))]
    torch.save([[o.clone() for o in call] for call in outputs], path.with_suffix(".outputs.pt"))


def quantize(path: Path) -> None:
    """Quantizes a program after training, exports it, and says what it computes."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    mode = path.stem.rsplit("-", 1)[1]
    inputs = tuple(torch.load(path.with_suffix(".inputs.pt"))[0])
    config = get_symmetric_quantization_config(is_per_channel=mode != "static", is_dynamic=mode == "dynamic")
    prepared = prepare_pt2e(torch.export.load(path).module(), XNNPACKQuantizer().set_global(config))
    prepared(*inputs)
    converted = convert_pt2e(prepared)
    torch.export.save(torch.export.export(converted, inputs), path.with_suffix(".pt2"))
    torch.save(torch.utils._pytree.tree_leaves(converted(*inputs)), path.with_suffix(".eager.pt"))


def groups(path: Path) -> None:
    """Writes a module's linear layers as a `.pte` with 4-bit weights, delegated to XNNPACK."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerGroup, quantize_

    module = torch.load(path, weights_only=False)
    inputs = tuple(torch.load(path.with_suffix(".inputs.pt"))[0])
    quantize_(module, Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)))
    torch.save(torch.utils._pytree.tree_leaves(module(*inputs)), path.with_suffix(".eager.pt"))
    _delegate(torch.export.export(module, inputs), path)


def record(path: Path) -> None:
    """Writes a program, its ETRecord, and what the official runtime records of a run."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.extension.pybindings import portable_lib

    partitioner = [XnnpackPartitioner()] if path.stem.startswith("delegated") else []
    edge = to_edge_transform_and_lower(torch.export.load(path), partitioner=partitioner, generate_etrecord=True)
    program = edge.to_executorch()
    program.get_etrecord().save(str(path.with_suffix(".etrecord")))
    path.with_suffix(".pte").write_bytes(program.buffer)
    module = portable_lib._load_for_executorch(
        str(path.with_suffix(".pte")), enable_etdump=True, debug_buffer_size=1 << 20
    )
    module.forward(list(torch.load(path.with_suffix(".inputs.pt"))[0]))
    module.write_etdump_result_to_file(str(path.with_suffix(".peer.etdp")), str(path.with_suffix(".peer.bin")))


def inspect(path: Path) -> None:
    """Stores what the official Inspector finds in an ETDump: a dict an event."""
    from executorch.devtools import Inspector

    record = path.with_name(path.name.partition(".")[0] + ".etrecord")
    inspector = Inspector(etdump_path=str(path), etrecord=str(record), debug_buffer_path=str(path.with_suffix(".bin")))
    inspector.print_data_tabular()
    events = [
        {
            "block": block.name,
            "name": event.name,
            "times": event.perf_data.raw,
            "handles": event.debug_handles,
            "operators": event.op_types,
            "is_delegated": event.is_delegated_op,
            "backend": event.delegate_backend_name,
            "values": list(event.debug_data),
        }
        for block in inspector.event_blocks
        for event in block.events
    ]
    torch.save(events, path.with_suffix(".events.pt"))


def run(path: Path) -> None:
    """Runs `forward` of a `.pte` file on its stored inputs and stores the flat list of outputs."""
    from executorch.runtime import Runtime, Verification

    importlib.import_module("executorch.kernels.quantized")  # kernels of quantized_decomposed
    inputs = torch.load(path.with_suffix(".inputs.pt"))
    program = Runtime.get().load_program(path, verification=Verification.InternalConsistency)
    method = program.load_method("forward")
    outputs = [method.execute(list(call)) for call in inputs]
    outputs = [[o.clone() if isinstance(o, torch.Tensor) else o for o in call] for call in outputs]
    torch.save(outputs, path.with_suffix(".outputs.pt"))


def for_each(paths: list[Path], action: Callable[[Path], None]) -> None:
    for path in paths:
        error = path.with_suffix(".error")
        error.unlink(missing_ok=True)
        try:
            action(path)
        except Exception as problem:  # any failure of a peer is a result to report, and must not stop the others
            error.write_text(f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}\n")


def serve() -> int:
    """Does what the lines of standard input say, each in a fork."""
    importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
    importlib.import_module("executorch.exir")
    for module in ("partition.xnnpack_partitioner", "quantizer.xnnpack_quantizer"):
        importlib.import_module(f"executorch.backends.xnnpack.{module}")
    for line in sys.stdin:
        log, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(stream, 1)
            os.dup2(stream, 2)
            code = 1
            try:
                code = main(arguments)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return 0


def main(arguments: list[str]) -> int:
    commands = {
        "lower": (lower, "*.pt2"),
        "delegate": (delegate, "*.pt2"),
        "quantize": (quantize, "*.float"),
        "groups": (groups, "*.module"),
        "external": (external, "*.pt2"),
        "record": (record, "*.pt2"),
        "inspect": (inspect, "*.etdp"),
        "run": (run, "*.pte"),
        "run_external": (run_external, "*.pte"),
    }
    if arguments == ["serve"]:
        return serve()
    if arguments[:1] == ["script"]:
        sys.argv = arguments[1:]
        runpy.run_path(arguments[1], run_name="__main__")
        return 0
    *names, folder = arguments or [""]
    if not names or not set(names) <= set(commands):
        print(__doc__, file=sys.stderr)
        return 2
    warnings.filterwarnings("ignore")
    for name in names:
        action, pattern = commands[name]
        for_each(sorted(Path(folder).glob(pattern)), action)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
