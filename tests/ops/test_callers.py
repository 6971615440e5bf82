"""Every kernel of the table is called by something: an export, a pass, files of the official exporter, a user's wish.

What Edge leaves in a graph follows from torch's table and ours. The rest says its caller in ops.yaml.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from executorch_py import EdgeCompileConfig, to_edge
from executorch_py.codegen.ops_yaml import Op, read_table
from executorch_py.export.dialect.operators import KEPT_WHOLE, decomposition_table, is_composite
from executorch_py.operator_facts import overload

ROOT = Path(__file__).resolve().parents[2]
OPS = [op for op in read_table(ROOT / "src/cpp/ops/ops.yaml") if not op.is_composite]
PUBLISHED = set((ROOT / "src/cpp/ops/published_ops.txt").read_text().split())


def is_left_by_exports(op: Op) -> bool:
    """An ATen operator that no rule takes apart, or that is kept whole."""
    target = overload(op.schema.name)
    decomposed = target in decomposition_table(frozenset(KEPT_WHOLE)) or is_composite(target)
    return bool(op.keep) or (not decomposed and "mutates" not in op.tags)


def has_caller(op: Op) -> bool:
    return not op.schema.name.startswith("aten::") or bool(op.caller) or is_left_by_exports(op)


def test_every_kernel_is_reachable():
    """Operators of our own are made by passes and the importer, which name them (test_own_operators_are_made)."""
    kernels: dict[str, list[Op]] = {}
    for op in OPS:
        kernels.setdefault(op.kernel_schema.name, []).append(op)
    lost = [name for name, ops in kernels.items() if any(op.kernel for op in ops) and not any(map(has_caller, ops))]
    assert not lost, f"no export calls these: give each `keep:` or `caller:` in ops.yaml, or delete it: {lost}"


def test_own_operators_are_made():
    """Sources that make an operator of ours name it (C++ by ops/names.h, Python by torch.ops), or `integers:` does."""
    from executorch_py.codegen.op_views import identifier

    texts = subprocess.run(
        ["git", "grep", "-hE", "op::|torch.ops|\\bet\\.", "--", "src", "backends", "quantizer"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    forms = {op.integers for op in OPS}
    own = [op.schema.name for op in OPS if op.schema.name.startswith("et::") and op.schema.name not in forms]
    lost = [name for name in own if f"op::{identifier(name)}" not in texts and name[4:] not in texts]
    assert own and not lost, lost


def test_callers_are_needed_and_published_ones_are_published():
    for op in OPS:
        if op.caller:
            assert not op.keep, f"{op.schema.name} is kept whole, so exports call it"
        if op.caller == "published":
            assert op.kernel_schema.name in PUBLISHED, op.schema.name


class Call(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def operators_of(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, preserve: tuple = ()) -> set[object]:
    exported = torch.export.export(Call(function).eval(), inputs)
    edge = to_edge(exported, compile_config=EdgeCompileConfig(preserve_ops=preserve)).exported_program()
    return {node.target for node in edge.graph.nodes if node.op == "call_function"}


aten = torch.ops.aten
X = torch.rand(3, 4) + 0.1
INTEGERS = torch.randint(1, 9, (3, 4))
KEPT = {
    aten.logaddexp.default: (torch.logaddexp, X, X),
    aten.xlogy.Tensor: (torch.xlogy, X, X),
    aten.lcm.default: (torch.lcm, INTEGERS, INTEGERS),
    aten.signbit.default: (torch.signbit, X),
    aten.all.default: (torch.all, X > 0.5),
    aten.all.dim: (lambda x: torch.all(x, 1), X > 0.5),
    aten.adaptive_max_pool3d.default: (lambda x: nn.functional.adaptive_max_pool3d(x, 2), torch.rand(1, 2, 4, 4, 4)),
    aten.max_pool3d.default: (lambda x: nn.functional.max_pool3d(x, 2), torch.rand(1, 2, 4, 4, 4)),
    aten.eye.default: (lambda x: x @ torch.eye(4), X),
    aten.linspace.default: (lambda x: x + torch.linspace(0, 1, 4), X),
    aten.index_fill.int_Scalar: (lambda x: x.index_fill(0, torch.tensor([1]), 2.0), X),
    aten.renorm.default: (lambda x: torch.renorm(x, 2, 0, 1.0), X),
    aten.frexp.Tensor: (torch.frexp, X),
    aten.as_strided_scatter.default: (lambda x: torch.as_strided_scatter(x, torch.zeros(2), (2,), (1,)), X),
    aten.uniform.default: (aten.uniform.default, X),
    aten.normal.Tensor_Tensor: (torch.normal, X, X),
    aten.normal.Tensor_float: (lambda x: torch.normal(x, 1.0), X),
    aten.normal.float_Tensor: (lambda x: torch.normal(1.0, x), X),
    aten.normal.float_float: (lambda x: x + torch.normal(1.0, 2.0, (3, 4)), X),
}


@pytest.mark.parametrize("op", KEPT, ids=str)
def test_an_export_calls_it(op):
    assert op in operators_of(*KEPT[op])


def test_callers_named_export_are_all_tried():
    assert {overload(op.schema.name) for op in OPS if op.caller == "export"} <= set(KEPT)


PRESERVED = {
    aten.sinc.default: (torch.sinc, X),
    aten.heaviside.default: (torch.heaviside, X, X),
    aten.special_entr.default: (torch.special.entr, X),
    aten.special_log_ndtr.default: (torch.special.log_ndtr, X),
    aten.special_xlog1py.default: (torch.special.xlog1py, X, X),
    aten.log_sigmoid_forward.default: (nn.functional.logsigmoid, X),
    aten.all.dims: (lambda x: torch.all(x, (0, 1)), X > 0.5),
    aten.logsumexp.default: (lambda x: x.logsumexp(1), X),
    aten.sum.default: (torch.sum, X),
    aten.clamp_min.default: (lambda x: x.clamp_min(0.2), X),
    aten.zeros_like.default: (lambda x: x + torch.zeros_like(x), X),
    aten.new_full.default: (lambda x: x + x.new_full((4,), 2.0), X),
    aten.isfinite.default: (torch.isfinite, X),
    aten.avg_pool1d.default: (lambda x: nn.functional.avg_pool1d(x, 2), X),
    aten.softmax.int: (lambda x: x.softmax(1), X),
    aten.rsub.Tensor: (torch.rsub, X, X),
}


@pytest.mark.parametrize("op", PRESERVED, ids=str)
def test_a_preserved_operator_stays(op):
    assert next(entry for entry in OPS if overload_of(entry) is op).caller == "preserve"
    assert op in operators_of(*PRESERVED[op], preserve=(op,))
    assert op not in operators_of(*PRESERVED[op])


def overload_of(op: Op) -> object:
    return overload(op.schema.name) if op.schema.name.startswith("aten::") else None
