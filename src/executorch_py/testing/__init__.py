"""Assertions for tests of models and backends, and pytest fixtures.

Example:
    >>> def test_my_model():
    ...     assert_matches_eager(MyModel().eval(), (torch.randn(1, 3, 32, 32),), partitioner=[MyPartitioner()])

    In a ``conftest.py``, for the fixtures ``runtime`` and ``lower``:

    >>> pytest_plugins = ["executorch_py.testing.fixtures"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from executorch_py.devtools.comparison import Tolerance, compare
from executorch_py.devtools.validate import ValidationReport, validate

__all__ = ["Tolerance", "assert_close", "assert_matches_eager", "lower"]


def assert_close(actual: Any, expected: Any, tolerance: Tolerance | None = None, *, name: str = "output") -> None:
    """Fails, with the numbers, unless two tensors, arrays or numbers are as close as the tolerance says. Needs no
    torch.

    Raises:
        AssertionError: They are not.
    """
    found = compare(actual, expected, tolerance)
    if not found.passed:
        numbers = f"max error {found.max_error:.3e}, relative {found.relative_error:.3e}, SQNR {found.sqnr_db:.1f} dB"
        raise AssertionError(f"{name} differs: {found.note or numbers}")


def lower(
    model: Any,
    inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    partitioner: Sequence[Any] | None = None,
    compile_config: Any = None,
    backend_config: Any = None,
) -> Any:
    """Exports and lowers a model: ``torch.export.export``, ``to_edge_transform_and_lower``, ``to_executorch``.

    Returns:
        The ExecutorchProgramManager.
    """
    import torch

    from executorch_py.graphs.torch_quantized import require_exportable
    from executorch_py.lowering.edge import to_edge_transform_and_lower

    require_exportable(model)
    exported = torch.export.export(model, inputs, dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    edge = to_edge_transform_and_lower(
        exported, partitioner=list(partitioner) if partitioner else None, compile_config=compile_config
    )
    return edge.to_executorch(backend_config)


def assert_matches_eager(
    model: Callable[..., Any],
    inputs: tuple[Any, ...] | list[tuple[Any, ...]],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    partitioner: Sequence[Any] | None = None,
    tolerance: Tolerance | None = None,
    delegates: int | None = None,
    backend_config: Any = None,
) -> ValidationReport:
    """Lowers a model, runs it and fails unless every output matches eager, with and without delegates.

    Args:
        model: An ``nn.Module``.
        inputs: Positional arguments, or a list of several sets; the first is the one exported with.
        kwargs: Keyword arguments.
        dynamic_shapes: As in ``torch.export.export``.
        partitioner: Partitioners of the backends to use.
        tolerance: What passes; by default depends on the dtype.
        delegates: How many delegates the program must have; ``None``: any number.
        backend_config: An ``ExecutorchBackendConfig``.

    Raises:
        AssertionError: An output differs (the text is the table of the report), or the number of delegates does.
    """
    first = inputs[0] if isinstance(inputs, list) else inputs
    program = lower(
        model,
        first,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        partitioner=partitioner,
        backend_config=backend_config,
    )
    report = validate(program, model, inputs, example_kwargs=kwargs, tolerance=tolerance, verbose=False)
    if delegates is not None:
        from executorch_py.module import load

        found = load(program.buffer).program.metadata("forward").backends()
        assert len(found) == delegates, f"the program has {len(found)} delegates {found}, expected {delegates}"
    assert report.passed, "\n" + report.table()
    return report
