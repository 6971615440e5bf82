"""Every kernel against eager PyTorch, on the samples of PyTorch's own operator database.

The quick part (the default) takes four samples of each database entry in float32 and one in a few other element types;
`ET_SWEEP=full` takes up to 40, in all element types.
"""

from __future__ import annotations

import os
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
from ..sweep import Call, check, record, supported  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

torch.set_num_threads(1)  # the samples are small; threads that wait for each other cost more than they give

FULL = os.environ.get("ET_SWEEP") == "full"
# element type → how many samples of each database entry
QUICK = {torch.float32: 4, torch.bfloat16: 1, torch.int64: 1, torch.bool: 1}
ALL = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
       torch.uint8, torch.bool]  # fmt: skip
SAMPLES = dict.fromkeys(ALL, 40) if FULL else QUICK

# Operators whose results are defined up to something else than rounding; each has a test of its own.
NOT_COMPARED = {
    "aten::empty.memory_format", "aten::empty_like", "aten::new_empty", "aten::empty_strided",
     # contents are not defined
    "aten::as_strided",  # addresses the storage, of which a recorded call keeps only the view
    "aten::rand", "aten::randn", "aten::rand_like", "aten::randn_like", "aten::randperm", "aten::randint",
    "aten::randint_like", "aten::randint_like.low_dtype", "aten::normal.Tensor_Tensor", "aten::normal.Tensor_float",
    "aten::normal.float_Tensor", "aten::normal.float_float",  # random numbers: conformance compares distributions
    "aten::randint.low", "aten::bernoulli", "aten::bernoulli.p", "aten::multinomial", "aten::native_dropout",
}  # fmt: skip


def calls_of(entry, dtype: torch.dtype, limit: int) -> list[Call]:
    """Distinct calls of operators with kernels that the first samples of a database entry come down to."""
    calls: dict[str, Call] = {}
    torch.manual_seed(0)
    # Not entry.sample_inputs, which inspects the whole call stack for each sample.
    for number, sample in enumerate(entry.sample_inputs_func(entry, "cpu", dtype, requires_grad=False)):
        if number >= limit:
            break
        for call in record(lambda s=sample: entry(s.input, *s.args, **s.kwargs), lambda n: n not in NOT_COMPARED):
            if supported(call):
                calls.setdefault(call.key(), call)
    return list(calls.values())


def name_of(entry) -> str:
    """Name of a database entry, unique."""
    return entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")


_done: set[str] = set()  # calls that an entry before came down to as well


@pytest.mark.parametrize("entry", op_db, ids=name_of)
def test_kernels_on_samples(entry) -> None:
    failures = []
    for dtype, limit in SAMPLES.items():
        if dtype not in entry.dtypes:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                calls = calls_of(entry, dtype, limit)
            except Exception:  # eager itself refuses the sample in this element type
                continue
        for call in calls:
            if call.key() in _done:
                continue
            _done.add(call.key())
            try:
                check(call)
            except Exception as error:  # collect all: one entry may show several operators that differ
                failures.append(f"{call.describe()}\n    {type(error).__name__}: {str(error)[:600]}")
    assert not failures, "\n".join(failures[:5])


def test_the_sweep_reaches_most_kernels() -> None:
    """Guards against a sweep that silently compares nothing."""
    if len(_done) < 500:
        pytest.skip("run the whole file")
    reached = {key.split("(")[0] for key in _done}
    assert len(reached) > 230, sorted(reached)
