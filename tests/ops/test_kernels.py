"""Every kernel against eager PyTorch, on the samples of PyTorch's own operator database.

The quick part (the default) takes a few samples of each database entry in float32 and one in each other element type;
`ET_SWEEP=full` takes up to 40 in all of them.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
sys.path.insert(0, str(Path(__file__).resolve().parent))
from sweep import Call, check, record, supported  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

FULL = os.environ.get("ET_SWEEP") == "full"
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.bool]  # fmt: skip

# Operators whose results are defined up to something else than rounding; each has a test of its own.
NOT_COMPARED = {
    "aten::empty.memory_format", "aten::empty_like", "aten::new_empty", "aten::empty_strided",  # contents are not defined
    "aten::as_strided",  # addresses the storage, of which a recorded call keeps only the view
    "aten::rand", "aten::randn", "aten::rand_like", "aten::randn_like", "aten::randperm", "aten::randint",
    "aten::randint.low", "aten::bernoulli", "aten::bernoulli.p", "aten::multinomial", "aten::native_dropout",
}  # fmt: skip


def calls_of(entry, dtype: torch.dtype, limit: int) -> list[Call]:
    """Distinct calls of operators with kernels that the first samples of a database entry come down to."""
    calls: dict[str, Call] = {}
    torch.manual_seed(0)
    for number, sample in enumerate(entry.sample_inputs("cpu", dtype)):
        if number >= limit:
            break
        for call in record(lambda s=sample: entry(s.input, *s.args, **s.kwargs), lambda n: n not in NOT_COMPARED):
            if supported(call):
                calls.setdefault(call.key(), call)
    return list(calls.values())


def cases() -> list:
    out = []
    for entry in op_db:
        for dtype in DTYPES:
            if dtype in entry.dtypes:
                limit = 40 if FULL else 6 if dtype == torch.float32 else 2
                name = entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")
                out.append(pytest.param(entry, dtype, limit, id=f"{name}-{str(dtype)[6:]}"))
    return out


@pytest.mark.parametrize(("entry", "dtype", "limit"), cases())
def test_kernels_on_samples(entry, dtype: torch.dtype, limit: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            calls = calls_of(entry, dtype, limit)
        except Exception as error:  # eager itself refuses the sample in this dtype
            pytest.skip(f"eager: {type(error).__name__}: {str(error)[:80]}")
    failures = []
    for call in calls:
        try:
            check(call)
        except Exception as error:  # collect all: one sample run shows every operator that differs
            failures.append(f"{call.describe()}\n    {type(error).__name__}: {str(error)[:600]}")
    assert not failures, "\n".join(failures[:5])
