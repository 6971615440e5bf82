"""Every backend's own conformance suite: delegated = eager, as many delegates as promised, refusals refused."""

import importlib
import pkgutil

import executorch_py.backends as backends
import pytest
import torch
from executorch_py.backends.conformance import Case, Suite
from torch.utils import _pytree as pytree

import executorch_py as et


def _suites() -> list[Suite]:
    """The suites of all backends that this build can run and that have one."""
    found = []
    for module in pkgutil.iter_modules(backends.__path__):
        name = f"{backends.__name__}.{module.name}.conformance"
        if module.ispkg and importlib.util.find_spec(name) is not None:
            found.append(importlib.import_module(name).SUITE)
    return found


def _parameters(kind: str) -> list:
    parameters = []
    for suite in _suites():
        for case in getattr(suite, kind):
            marks = [pytest.mark.xfail(reason=case.expected_failure, strict=True)] if case.expected_failure else []
            parameters.append(pytest.param(suite, case, id=f"{suite.backend}-{case.name}", marks=marks))
    return parameters


def _check(suite: Suite, case: Case) -> None:
    torch.manual_seed(0)
    model = case.make().eval()
    exported = torch.export.export(model, case.inputs, dynamic_shapes=case.dynamic_shapes)
    manager = et.to_edge_transform_and_lower(exported, partitioner=[suite.partitioner()]).to_executorch()
    program = et.Runtime.get().load_program(manager.buffer)
    method = program.load_method("forward")
    assert manager.dump().count("= delegate @") == case.num_delegates
    tolerance = suite.tolerance if case.tolerance is None else case.tolerance
    for inputs in (case.inputs, *case.more_inputs):
        actual = method.execute(pytree.tree_leaves(inputs))
        with torch.no_grad():
            expected = pytree.tree_leaves(model(*inputs))
        assert len(actual) == len(expected)
        for ours, eager in zip(actual, expected, strict=True):
            assert ours.shape == eager.shape and ours.dtype == eager.dtype
            if eager.numel():
                assert (ours - eager).abs().max() <= tolerance * eager.abs().max()


@pytest.mark.parametrize(("suite", "case"), _parameters("cases"))
def test_taken(suite, case):
    _check(suite, case)


@pytest.mark.parametrize(("suite", "case"), _parameters("refused"))
def test_refused_but_runs(suite, case):
    _check(suite, case)
