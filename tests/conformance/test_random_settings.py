"""Random networks under random settings: how they are quantized, who runs them, and what the file is like.

Each option has its own tests; here they meet. The same draws in every run; ET_RANDOM_SETTINGS=1000 makes that many new
ones.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from hypothesis import reject
from hypothesis import strategies as st

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidStateError, OperatorMissingError
from executorch_py.exir import MemoryPlanningPass
from tests.conformance.drawn import drawn
from tests.conformance.random_networks import Draw, Network, exported, networks

FLOWS: dict[str, Any] = {
    "float": None,
    **{name: name for name in ("static_int8", "dynamic_int8", "dynamic_int4", "int8_weight_only", "int4_weight_only",
                               "fp16")},
    "uint8": quantizer.quantization_config("uint8"),
    "int16": quantizer.quantization_config("int16"),
    "symmetric": quantizer.quantization_config(symmetric_activations=True, per_channel=False),
    "static_int4": quantizer.quantization_config("int8", "int4"),
}  # fmt: skip
PARTITIONERS: dict[str, dict[str, bool] | None] = {
    "own kernels": None,
    "delegate": {},
    "delegate, one part an operator": {"per_op_mode": True},
    "delegate, always": {"always": True},
}


@dataclass(frozen=True)
class Settings:
    """What a user may choose between a model and its outputs."""

    flow: str
    partitioner: str
    through_archive: bool
    on_disk: bool
    mmap: bool
    planning: dict[str, Any]
    options: dict[str, Any]


@st.composite
def settings(draw: Draw) -> Settings:
    """Any combination; none of them excludes another."""
    yes = st.booleans()
    planning = {
        "memory_planning_algo": draw(st.sampled_from(["greedy", "best", "naive"])),
        "alloc_graph_input": draw(yes),
        "alloc_graph_output": draw(yes),
        "alignment": draw(st.sampled_from([16, 64])),
    }
    options = {
        "compatible": draw(yes),
        "debug_info": draw(yes),
        "extract_delegate_segments": draw(yes),
        "external_constants": draw(yes),
        "sparse_weights": draw(yes),
        "segment_alignment": draw(st.sampled_from([16, 128, 4096])),
    }
    names = st.sampled_from([*FLOWS]), st.sampled_from([*PARTITIONERS])
    return Settings(*(draw(one) for one in names), draw(yes), draw(yes), draw(yes), planning, options)


def _program(network: Network, settings: Settings) -> torch.export.ExportedProgram:
    """The network, exported and quantized; the float one where the flow finds nothing to quantize."""
    program = exported(network)
    if FLOWS[settings.flow] is not None:
        samples = [(torch.randn(network.inputs[0].shape), torch.tensor(i % 2 == 0)) for i in range(3)]
        try:
            program = quantizer.quantize(program, config_or_quantizer=FLOWS[settings.flow], calibration_data=samples)
        except InvalidStateError as error:
            assert "nothing to quantize" in str(error)
    if settings.through_archive:
        archive = io.BytesIO()
        torch.export.save(program, archive)
        archive.seek(0)
        program = torch.export.load(archive)
    return program


def _method(program: torch.export.ExportedProgram, settings: Settings, folder: Path) -> Any:
    options = PARTITIONERS[settings.partitioner]
    partitioners = [] if options is None else [XnnpackPartitioner(**{"largest": True, **options})]
    config = et.ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(**settings.planning), **settings.options
    )
    manager = et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch(config)
    path = folder / "network.pte"
    manager.save(path)
    data = manager.write_tensor_data_to_file(folder) if settings.options["external_constants"] else []
    source = path if settings.on_disk else path.read_bytes()
    return et.Runtime.get().load_program(source, data_path=data, mmap=settings.mmap).load_method("forward")


@drawn("ET_RANDOM_SETTINGS", 25, network=networks(), settings=settings())
def test_random_settings(network: Network, settings: Settings) -> None:
    with torch.no_grad(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        program = _program(network, settings)
        reference = program.module()
        try:
            method = _method(program, settings, Path(folder))
        except OperatorMissingError as error:
            assert settings.options["compatible"] and "the official runtime has no" in str(error), str(error)
            reject()
        for turn in range(3):
            x, flag = torch.randn(network.inputs[0].shape), torch.tensor(turn % 2 == 0)
            expected = reference(x.clone(), flag)
            out = None if settings.planning["alloc_graph_output"] else [torch.empty_like(expected).contiguous()]
            actual = method.execute([x, flag], **({} if out is None else {"out": out}))[0]
            assert actual.shape == expected.shape and actual.dtype == expected.dtype
            error = (actual.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-6)
            allowed = 1e-4 if settings.flow == "float" else 0.05
            assert error < allowed, f"relative error {error:.5f}, {settings}\n{network!r}"
