"""The element types that ops.yaml lists are all that eager PyTorch takes: asked of eager itself, on the database's samples.

Each call of an ATen operator that eager completes, in whatever element type, must be one that the table lists: else a model that
runs in eager is refused here.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sweep import OPS, WITH_KERNEL

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

NAMES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
}  # fmt: skip

# Eager takes these only because it computes nothing, or in ways that no program has.
NOT_MEANT = {
    "aten::_fft_c2r",  # of a real input: complex before the operator
}


class _Asker(TorchDispatchMode):
    """Notes for each operator of the table the element types of its main tensor in calls that succeed."""

    def __init__(self, accepted: dict[str, set[str]]) -> None:
        super().__init__()
        self.accepted = accepted

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        schema = func._schema
        name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        op = OPS.get(name)
        if op is not None and op.kernel_schema.name in WITH_KERNEL and name not in NOT_MEANT:
            tensors = [leaf for leaf in tree_leaves((args, result)) if isinstance(leaf, torch.Tensor)]
            if tensors and tensors[0].dtype in NAMES:
                self.accepted[name].add(NAMES[tensors[0].dtype])
        return result


@pytest.fixture(scope="module")
def accepted() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.no_grad(), _Asker(found):
        warnings.simplefilter("ignore")
        for entry in op_db:
            for dtype in NAMES:
                if dtype not in entry.dtypes:
                    continue
                torch.manual_seed(0)
                try:
                    sample = next(entry.sample_inputs_func(entry, "cpu", dtype, requires_grad=False))
                    entry(sample.input, *sample.args, **sample.kwargs)
                except Exception:  # eager refuses this sample in this element type
                    continue
    return found


def test_every_element_type_that_eager_takes_is_listed(accepted: dict[str, set[str]]) -> None:
    missing = {name: sorted(dtypes - set(OPS[name].dtypes)) for name, dtypes in accepted.items()}
    missing = {name: dtypes for name, dtypes in sorted(missing.items()) if dtypes}
    assert not missing, "\n".join(f"{name}: {' '.join(dtypes)}" for name, dtypes in missing.items())


def test_most_operators_were_asked(accepted: dict[str, set[str]]) -> None:
    assert len(accepted) > 250
