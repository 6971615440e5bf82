"""One case: eager, torch.export, Edge, ``.pte``, runtime, comparison; what came of it is an Outcome."""

from __future__ import annotations

import contextlib
import copy
import io
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any
from unittest import mock

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import executorch_py as et
from executorch_py.errors import ExecutorchError

from .adapters import Sample, samples_of
from .canonical import canonical
from .closeness import difference, distribution_difference, is_random, is_undefined
from .exceptions import undefined
from .samples import Item
from .special import class_difference, largest_of, variants, zeros_have_signs


class Status(str, Enum):
    """How a case ended. The first three do not count as failures."""

    PASSED = "passed"
    NOT_EXPORTABLE = "not exportable"  # torch.export refuses, or its program does not compute what eager does
    EAGER_REFUSES = "eager refuses"  # this sample in this element type
    WRONG = "wrong"  # other values than eager
    REFUSED = "refused"  # an error that says why, when the program is compiled
    FAILED = "failed"  # an error that says why, when it runs
    BROKEN = "broken"  # an exception of another kind
    CRASHED = "crashed"
    HANGS = "hangs"


FINE = frozenset({Status.PASSED, Status.NOT_EXPORTABLE, Status.EAGER_REFUSES})


@dataclass(frozen=True)
class Outcome:
    """What came of one case.

    Attributes:
        key: "op/add/float32/0".
        status: How it ended.
        detail: Why, in a line or two; when it passed, what was special or nothing.
        seconds: It took.
    """

    key: str
    status: Status
    detail: str = ""
    seconds: float = 0.0


def run_item(item: Item, seed: int, start: int = 0) -> Iterator[tuple[str, Outcome | None]]:
    """Runs an item's cases from ``start`` on: yields (key, None) before and (key, Outcome) after each."""
    samples = samples_of(item, seed)
    for index in range(item.limit):
        key = f"{item.key}/{index}"
        if index >= start:
            yield key, None
        began = time.monotonic()
        try:
            sample = next(samples, None)
        except Exception as error:  # the database makes no such samples, or no more
            if index >= start:
                yield key, Outcome(key, Status.EAGER_REFUSES, f"no sample: {_line(error)}")
            return
        if sample is None:
            return
        if index >= start:
            status, detail = run_sample(item, sample)
            yield key, Outcome(key, status, detail, time.monotonic() - began)


def run_sample(item: Item, sample: Sample) -> tuple[Status, str]:
    """Exports, compiles, runs and compares one sample."""
    with warnings.catch_warnings(), torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            expected = _eager(copy.deepcopy(sample.model), sample)
        except Exception as error:
            return Status.EAGER_REFUSES, _line(error)
        try:
            exported = sample.exported = sample.exported or _export(sample)
        except Exception as error:
            return Status.NOT_EXPORTABLE, _line(error)
        try:
            partitioners = [XnnpackPartitioner(largest=True)] if sample.is_delegated else []
            manager = et.to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch()
        except ExecutorchError as error:
            return Status.REFUSED, _line(error)
        except Exception as error:
            return Status.BROKEN, _line(error)
        if item.group == "special":
            return _run_special(item, sample, exported, manager.buffer)
        status, detail = _run(item, sample, exported, manager.buffer, expected)
        return status, detail or sample.note


def _export(sample: Sample) -> ExportedProgram:
    """The sample's exported program. Another way than torch.export's may give the sample other inputs."""
    try:
        return torch.export.export(
            sample.model,
            *_copied((sample.args, sample.kwargs)),
            dynamic_shapes=sample.dynamic_shapes,
            strict=sample.strict,
        )
    except Exception as refusal:
        if sample.other_export is None:
            raise
        try:
            program, sample.kwargs = sample.other_export(sample.model, _copied(sample.kwargs))
        except Exception:
            raise refusal from None  # the first reason says more of the model
        sample.note = "not torch.export but another exporter"
        return program


def _eager(model: torch.nn.Module, sample: Sample) -> list[Any]:
    args, kwargs = _copied((sample.args, sample.kwargs))
    return pytree.tree_leaves(model(*args, **kwargs))


def _copied(inputs: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), inputs)


@contextlib.contextmanager
def _without_fixed_seed() -> Iterator[None]:
    """The operator database sets the seed in each call of a random operator; here two calls shall differ."""
    from torch.testing._internal import common_methods_invocations as database

    with mock.patch.object(database, "wrapper_set_seed", lambda op, *args, **kwargs: op(*args, **kwargs)):
        yield


def _eager_draw(sample: Sample) -> list[Any]:
    with _without_fixed_seed():
        return _eager(sample.model, sample)


def _in_double(sample: Sample, expected: list[Any]) -> list[Any] | None:
    """What eager computes in float64 throughout, in the types of its own outputs; None where the sample does not allow
    it.

    Near a pole, or after a cancellation, eager's own rounding is the larger error.
    """

    def widened(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.clone()

    try:
        args, kwargs = pytree.tree_map_only(torch.Tensor, widened, (sample.args, sample.kwargs))
        wide = pytree.tree_leaves(copy.deepcopy(sample.model).double()(*args, **kwargs))
    except Exception:
        return None
    if len(wide) != len(expected):
        return None
    return [
        w.to(e.dtype) if isinstance(w, torch.Tensor) and isinstance(e, torch.Tensor) else w
        for w, e in zip(wide, expected, strict=True)
    ]


def _run(
    item: Item, sample: Sample, exported: ExportedProgram, buffer: bytes, expected: list[Any]
) -> tuple[Status, str]:
    try:
        method = et.Runtime.get().load_program(buffer).load_method("forward")
        method_inputs = pytree.tree_leaves((sample.args, sample.kwargs))

        def ours() -> list[Any]:
            return method.execute(_copied(method_inputs))

        actual = ours()
    except ExecutorchError as error:
        refused = _refusal_of_torch(exported, sample)
        return (Status.NOT_EXPORTABLE, refused) if refused else (Status.FAILED, _line(error))
    except Exception as error:
        return Status.BROKEN, _line(error)
    wrong = _difference(item, sample, exported, actual, expected)
    if wrong and is_random(exported):
        wrong = distribution_difference(ours, lambda: _eager_draw(sample), actual, _eager_draw(sample))
    elif wrong and (exact := _in_double(sample, expected)) is not None:
        wrong = wrong if _difference(item, sample, exported, actual, exact) else ""
    if not wrong:
        return Status.PASSED, ""
    if refused := _refusal_of_torch(exported, sample):
        return Status.NOT_EXPORTABLE, refused
    theirs = _eager(exported.module(), sample)
    if not is_random(exported) and _difference(item, sample, exported, theirs, expected):
        # Nobody's fault but torch's, as long as ours computes what torch's program says.
        if unlike := _difference(item, sample, exported, actual, theirs):
            return Status.WRONG, f"neither eager's values nor those of torch's program: {unlike}"
        return Status.NOT_EXPORTABLE, "torch's program gives other values than eager"
    return Status.WRONG, wrong


def _run_special(item: Item, sample: Sample, exported: ExportedProgram, buffer: bytes) -> tuple[Status, str]:
    """The sample with each kind of special values: the class of each element."""
    method = et.Runtime.get().load_program(buffer).load_method("forward")
    rule, with_signs = canonical(item.name), zeros_have_signs(item.name)
    for variant, special in variants(sample, item.key):
        compares = not undefined(item.name, variant) and not is_random(exported)
        try:
            expected = _eager(copy.deepcopy(special.model), special) if compares else []
        except Exception:
            continue  # eager refuses these values
        try:
            actual = method.execute(_copied(pytree.tree_leaves((special.args, special.kwargs))))
        except ExecutorchError as error:
            if compares:
                return Status.FAILED, f"{variant}: {_line(error)}"
        if not compares:
            continue
        references = [expected]
        if (exact := _in_double(special, expected)) is not None:
            references.append(exact)
        with contextlib.suppress(Exception):
            references.append(_eager(exported.module(), special))
        references = [r for r in references if len(r) == len(expected)]
        if rule is not None:
            actual, *references = (rule(special, outputs) for outputs in (actual, *references))
        for index, mine in enumerate(actual):
            wrong = class_difference(mine, [r[index] for r in references], largest_of(special, variant), with_signs)
            if wrong and not is_undefined(exported, index):
                return Status.WRONG, f"{variant}: output {index}: {wrong}"
    return Status.PASSED, ""


def _refusal_of_torch(exported: ExportedProgram, sample: Sample) -> str:
    """Why torch's exported program does not run on the inputs that it was made with; "" when it does."""
    try:
        _eager(exported.module(), sample)
    except Exception as error:
        return f"torch's program fails: {_line(error)}"
    return ""


#: Whole networks add up what their layers round: 1e-4 of each value, and half of that of the largest one.
_LOOSER = {"architecture": 5.0}


def _difference(item: Item, sample: Sample, exported: ExportedProgram, actual: list[Any], expected: list[Any]) -> str:
    if len(actual) != len(expected):
        return f"{len(actual)} outputs, expected {len(expected)}"
    looser = _LOOSER.get(item.group, 1.0)
    plain = [difference(mine, theirs, looser) for mine, theirs in zip(actual, expected, strict=True)]
    for index, wrong in enumerate(plain):
        if wrong and is_undefined(exported, index):
            plain[index] = difference(torch.zeros_like(actual[index]), torch.zeros_like(expected[index]))
    first = next((f"output {index}: {wrong}" for index, wrong in enumerate(plain) if wrong), "")
    if not first or item.group != "op":
        return first
    rule = canonical(item.name)
    if rule is None:
        return first
    pairs = zip(rule(sample, actual), rule(sample, expected), strict=True)
    return next((f"canonical form: {wrong}" for mine, theirs in pairs if (wrong := difference(mine, theirs, 10.0))), "")


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"
