"""``validate``: is a program still its model? Delegated, without delegates and eager, output by output.

Example:
    >>> report = validate(program, model, example_inputs)  # doctest: +SKIP
    method forward, 1 set of inputs
    output  program    max error  mean error  relative   SQNR dB    cosine
    0       delegated   1.19e-07    2.98e-08  4.21e-08     141.2  1.000000  pass
    0       portable    5.96e-08    1.49e-08  2.10e-08     147.0  1.000000  pass
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from executorch_py._shown import Told
from executorch_py.devtools.comparison import Comparison, Tolerance, compare
from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from executorch_py.module import Module, load
from executorch_py.runtime import Program, Runtime
from executorch_py.text_table import aligned

__all__ = ["OutputReport", "Tolerance", "ValidationReport", "validate"]

_COLUMNS = (
    ("max error", lambda c: f"{c.max_error:.2e}"),
    ("mean error", lambda c: f"{c.mean_error:.2e}"),
    ("relative", lambda c: f"{c.relative_error:.2e}"),
    ("SQNR dB", lambda c: f"{c.sqnr_db:.1f}"),
    ("cosine", lambda c: f"{c.cosine:.6f}"),
)


@dataclass(frozen=True)
class OutputReport:
    """One output of one program, over all sets of inputs; the worst set decides.

    Attributes:
        output: Its place in the model's result: ``0``, ``['logits']``.
        program: Which program: ``program``, ``delegated`` or ``portable``.
        comparison: The worst comparison with eager.
        inputs: Index of the set of inputs that gave it.
    """

    output: str
    program: str
    comparison: Comparison
    inputs: int


@dataclass(frozen=True, repr=False)
class ValidationReport(Told):
    """What :func:`validate` found.

    Attributes:
        method: Name of the method.
        outputs: A line for each output and program.
        num_inputs: How many sets of inputs were run.
    """

    method: str
    outputs: tuple[OutputReport, ...]
    num_inputs: int = 1
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """True when every output of every program passes."""
        return all(line.comparison.passed for line in self.outputs)

    def __bool__(self) -> bool:
        return self.passed

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        outputs = [
            {"output": one.output, "program": one.program, "inputs": one.inputs, **vars(one.comparison)}
            for one in self.outputs
        ]
        facts = {"method": self.method, "inputs": self.num_inputs, "notes": list(self.notes)}
        return {**facts, "passed": self.passed, "outputs": outputs}

    def table(self) -> str:
        """The report as text."""
        rows = [["output", "program", *(title for title, _ in _COLUMNS), ""]]
        for line in self.outputs:
            verdict = "pass" if line.comparison.passed else "FAIL"
            if line.comparison.note:
                verdict += f" {line.comparison.note}"
            if self.num_inputs > 1:
                verdict += f" (inputs {line.inputs})"
            rows.append([line.output, line.program, *(text(line.comparison) for _, text in _COLUMNS), verdict])
        sets = f"{self.num_inputs} set{'s' if self.num_inputs != 1 else ''} of inputs"
        lines = [f"method {self.method}, {sets}", *self.notes]
        lines += aligned(rows[0], rows[1:], right=range(2, 2 + len(_COLUMNS)), indent="")
        return "\n".join(lines)

    __str__ = table


def validate(
    program: Any,
    model: Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    method: str = "forward",
    tolerance: Tolerance | None = None,
    portable: Any = None,
    verbose: bool = True,
) -> ValidationReport:
    """Runs a program and its model on the same inputs and compares output by output.

    A program with delegates is also compared as it would be without them: the model is exported and lowered again
    with no partitioner, which tells a fault of a backend from one of the rest.

    Args:
        program: What ``to_executorch()`` gave, the bytes or path of a ``.pte``, a Program or a Module.
        model: The eager model, or any function with the same arguments and results; runs without gradients.
        example_inputs: Positional arguments of one call (a tuple), or several sets of them (a list of tuples).
        example_kwargs: Keyword arguments, the same for every set.
        method: Name of the method.
        tolerance: What passes; the default depends on the dtype (1e-4 of the largest value for float32).
        portable: The program without delegates; ``None`` lowers it here when ``program`` has delegates and ``model``
        can be
            exported; ``False`` leaves it out.
        verbose: Print the table.

    Returns:
        The report; true when everything passes.

    Raises:
        InvalidArgumentError: There is no set of inputs.
        Others: What loading and running the program raise.
    """
    sets = _input_sets(example_inputs)
    kwargs = dict(example_kwargs or {})
    module = as_module(program)
    delegated = bool(module.program.metadata(method).backends())
    notes: list[str] = []
    runs: list[tuple[str, Module]] = [("delegated" if delegated else "program", module)]
    if portable is not None and portable is not False:
        runs.append(("portable", as_module(portable)))
    elif delegated and portable is None:
        without, why = _lower_without_delegates(model, sets[0], kwargs)
        if without is None:
            notes.append(f"not compared without delegates: {why}")
        else:
            runs.append(("portable", without))
    expected = [_leaves(_eager(model, inputs, kwargs)) for inputs in sets]
    lines = []
    for name, run in runs:
        callable_method = run.method(method if name != "portable" or method in run.method_names else "forward")
        for place, worst, index in _compare_all(callable_method, sets, kwargs, expected, tolerance):
            lines.append(OutputReport(place, name, worst, index))
    lines.sort(key=lambda line: [place for place, _ in expected[0]].index(line.output))
    report = ValidationReport(method, tuple(lines), len(sets), tuple(notes))
    if verbose:
        print(report.table())
    return report


def _input_sets(example_inputs: Sequence[Any]) -> list[tuple[Any, ...]]:
    if isinstance(example_inputs, tuple):
        return [example_inputs]
    if not isinstance(example_inputs, list) or not all(isinstance(item, tuple) for item in example_inputs):
        raise InvalidTypeError("example_inputs is a tuple of positional arguments, or a list of such tuples")
    if not example_inputs:
        raise InvalidArgumentError("example_inputs has no set of inputs")
    return list(example_inputs)


def as_module(program: Any) -> Module:
    """What ``to_executorch()`` gave, the bytes or path of a ``.pte``, a Program or a Module, as a Module."""
    if isinstance(program, Module):
        return program
    if isinstance(program, Program):
        return Module(program)
    if isinstance(program, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(program, "read"):
        return load(program)  # type: ignore[arg-type]
    if getattr(program, "buffer", None) is None:
        raise InvalidTypeError(f"a program is what to_executorch() gives, bytes, a path or a Program, not {program!r}")
    return Module(load_compiled(program))


def load_compiled(program: Any, **options: Any) -> Program:
    """What ``to_executorch()`` gave, loaded together with its weights that go to other files."""
    compiled = getattr(program, "_compiled", None)
    if compiled is None or not compiled.external_files:
        return Runtime.get().load_program(program.buffer, **options)
    with tempfile.TemporaryDirectory() as folder:
        return Runtime.get().load_program(
            program.buffer, data_path=program.write_tensor_data_to_file(folder), **options
        )


def _lower_without_delegates(
    model: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Module | None, str]:
    try:
        import torch
    except ImportError:
        return None, "torch is not installed"
    if not isinstance(model, torch.nn.Module):
        return None, "the model is no torch.nn.Module"
    from executorch_py.lowering.edge import to_edge_transform_and_lower

    try:
        exported = torch.export.export(model, inputs, kwargs or None)
        return load(to_edge_transform_and_lower(exported).to_executorch().buffer), ""
    except Exception as error:  # the comparison with the delegated program is still worth having
        return None, f"{type(error).__name__}: {error}"


def _eager(model: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model's result on copies of the inputs, so that a model which changes them leaves ours as they are."""
    try:
        import torch
    except ImportError:
        return model(*copy.deepcopy(inputs), **copy.deepcopy(kwargs))
    with torch.no_grad():
        # State of a module (a KV cache) must not travel from one run to the next.
        runner = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model
        return runner(*_clones(inputs), **_clones(kwargs))


def _clones(tree: Any) -> Any:
    from torch.utils import _pytree

    return _pytree.tree_map(lambda leaf: leaf.detach().clone() if hasattr(leaf, "detach") else copy.copy(leaf), tree)


def _leaves(result: Any) -> list[tuple[str, Any]]:
    """The leaves of a result with their places."""
    try:
        from torch.utils import _pytree
    except ImportError:
        return _leaves_of_builtins(result, "")
    found, _ = _pytree.tree_flatten_with_path(result)
    return [(_pytree.keystr(path) or "0", leaf) for path, leaf in found]


def _leaves_of_builtins(result: Any, place: str) -> list[tuple[str, Any]]:
    if isinstance(result, dict):
        items: list[tuple[Any, Any]] = list(result.items())
    elif isinstance(result, (tuple, list)):
        items = list(enumerate(result))
    else:
        return [(place or "0", result)]
    return [leaf for key, value in items for leaf in _leaves_of_builtins(value, f"{place}[{key!r}]")]


def _compare_all(
    method: Any,
    sets: list[tuple[Any, ...]],
    kwargs: dict[str, Any],
    expected: list[list[tuple[str, Any]]],
    tolerance: Tolerance | None,
) -> list[tuple[str, Comparison, int]]:
    """For each output its place, the worst comparison and the set of inputs that gave it."""
    worst: dict[str, tuple[Comparison, int]] = {}
    for index, (inputs, wanted) in enumerate(zip(sets, expected, strict=True)):
        if method.method.metadata.uses_state():
            method.method.reset_state()
        outputs = _leaves(method(*_detached(inputs), **_detached(kwargs)))
        if len(outputs) != len(wanted):
            raise InvalidArgumentError(f"the program has {len(outputs)} outputs, the model {len(wanted)}")
        for (place, value), (_, actual) in zip(wanted, outputs, strict=True):
            found = compare(actual, value, tolerance)
            known = worst.get(place)
            if known is None or (known[0].passed, -known[0].relative_error) > (found.passed, -found.relative_error):
                worst[place] = (found, index)
    return [(place, comparison, index) for place, (comparison, index) in worst.items()]


def _detached(tree: Any) -> Any:
    """Inputs for the program: copies, since a program writes to an input where its model does."""
    try:
        return _clones(tree)
    except ImportError:
        return copy.deepcopy(tree)
