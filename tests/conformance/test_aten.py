"""The subset of the operator databases, instruction by instruction beside ATen (devtools/aten_check.py).

Outputs of a sample are compared with eager elsewhere; here every kernel on the way to them is compared on its own.
"""

from __future__ import annotations

import contextlib
import io
import warnings

import pytest
import torch

import executorch_py as et
from executorch_py.devtools import compare_with_aten
from executorch_py.errors import ExecutorchError
from tests.conformance.adapters import samples_of
from tests.conformance.case import _copied, _export
from tests.conformance.exceptions import expected_failure
from tests.conformance.samples import Item
from tests.conformance.test_subset import CHOSEN


@pytest.mark.parametrize("item", [one for one in CHOSEN if one.group != "special"], ids=lambda item: item.key)
def test_each_kernel_as_aten(item: Item) -> None:
    if expected_failure(f"{item.key}/0") is not None:
        pytest.skip("expected to fail, see exceptions.py")
    with warnings.catch_warnings(), torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            sample = next(samples_of(item, 0), None)
            exported = None if sample is None else sample.exported or _export(sample)
        except Exception as refusal:  # whatever the database or torch.export raises
            pytest.skip(f"no sample, or torch.export refuses: {refusal!r:.100}")
        if sample is None or exported is None:
            pytest.skip("the database has no sample")
        try:
            program = et.to_edge_transform_and_lower(exported).to_executorch()
        except ExecutorchError as refusal:
            pytest.skip(f"refused when it is compiled, which test_subset.py looks at: {refusal!s:.100}")
        args, kwargs = _copied((sample.args, sample.kwargs))
        report = compare_with_aten(program, args, kwargs=kwargs)
    assert report.passed, str(report)
