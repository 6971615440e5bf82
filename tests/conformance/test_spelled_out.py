"""Functions that published transformers spell out are found, and 16-bit results come no further from exact ones."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
from torch.utils import _pytree as pytree

import executorch_py as et
from executorch_py.exir import EdgeProgramManager, ExecutorchBackendConfig
from tests.conformance.architectures import architecture_entries

pytest.importorskip("transformers")
PASSES = ("recognise-activations", "recognise-norms")

#: What is found in a model of two layers beyond what it calls by name.
FOUND: dict[str, dict[str, int]] = {
    "llama": {"et::rms_norm": 5},
    "gemma": {"et::rms_norm": 5},
    "t5": {"et::rms_norm": 12},
    "gpt2": {"aten::gelu": 2},
    "bloom": {"aten::gelu": 2},
    "phi": {"aten::gelu": 2},
    "clip": {"et::swish": 4},
    "bert": {},
    "opt": {},
    "vit": {},
}


def made(name: str, dtype: torch.dtype) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    model, _, inputs = architecture_entries()[f"transformers.{name}"]()
    return model.to(dtype), {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}


def lowered(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> EdgeProgramManager:
    return et.to_edge(torch.export.export(model, (), inputs, strict=False))


def kernels(program: et.ExecutorchProgramManager) -> Counter[str]:
    lines = [line for line in program.dump().splitlines() if "::" in line and " = " in line]
    return Counter(line.split(" = ")[1].split("(")[0].removesuffix(".out") for line in lines)


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    model, inputs = made(name, torch.float32)
    edge = lowered(model, inputs)
    before = kernels(edge.to_executorch(ExecutorchBackendConfig(disabled_passes=PASSES)))
    after = kernels(edge.to_executorch())
    assert {key: after[key] - before[key] for key in after if after[key] > before[key]} == FOUND[name]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["llama", "t5", "gpt2"])
def test_error_of_small_floats_is_no_larger(name: str, dtype: torch.dtype) -> None:
    model, inputs = made(name, dtype)
    edge = lowered(model, inputs)
    double = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    with torch.no_grad():
        exact = pytree.tree_leaves(copy.deepcopy(model).double()(**double))[0].double()
        eager = pytree.tree_leaves(model(**inputs))[0].double()
    program = et.Runtime.get().load_program(edge.to_executorch().buffer)
    ours = program.load_method("forward").execute(tuple(pytree.tree_leaves(inputs)))[0].double()
    assert (ours - exact).norm() < 1.05 * (eager - exact).norm()
