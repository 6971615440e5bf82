"""Kernels get what a hostile program may give them: damaged arguments are refused or computed, nothing crashes or
hangs.

The calls are those of PyTorch's operator database and of own_calls.py; each is damaged in many ways: numbers, lists,
element types, shapes, values of indices, outputs that are inputs. Each goes to every kernel of its operator: the
portable or quantized one, and those that a load prepares (vector kernels, backends' kernels). The latter also get other
sizes and numbers in a call than at load. What is computed is not looked at. Under sanitizers (make sanitize) a read or
a write beside a tensor ends the process, which is a child for each entry, so that the call can be named. ET_DAMAGED
sets how many of each, ET_DAMAGED_TYPES the element types that calls are taken in (names of torch's, after commas),
which damage then changes at times, and ET_DAMAGED_SEED other damage than that of every day.
"""

from __future__ import annotations

import contextlib
import copy
import os
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
from ..call_text import text  # noqa: E402
from ..damage import called, damaged, each_emptied, each_ranked, emptied, twins_resized, varied  # noqa: E402
from ..kernel_runner import (  # noqa: E402
    KernelError,
    MissingKernelError,
    Unbound,
    kernel_count,
    prepare_and_run,
    run_kernel,
)
from ..own_calls import own_calls  # noqa: E402
from ..sweep import OPS, Call, dense_strides, kernel_arguments, record, supported  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

torch.set_num_threads(1)
pytestmark = pytest.mark.slow

DAMAGED = int(os.environ.get("ET_DAMAGED", "4"))
TYPES = [getattr(torch, name) for name in os.environ.get("ET_DAMAGED_TYPES", "float32,int64").split(",")]
SEED = os.environ.get("ET_DAMAGED_SEED", "")
SECONDS = 60  # an entry's calls take less than one
WRITTEN = {
    op.kernel_schema.name: {i for i, a in enumerate(op.kernel_schema.arguments) if a.is_out or a.mutated}
    for op in OPS.values()
    if not op.is_composite  # they have no kernels
}


def constants(name: str, arguments: list[Any], rng: random.Random) -> set[int]:
    """Which arguments are constants of the program: mostly all numbers, and all tensors but one."""
    written = [arguments[i] for i in WRITTEN[name]]
    kind = rng.randrange(3)
    found: set[int] = set()
    seen_tensor = False
    for i, a in enumerate(arguments):
        if any(a is b for b in written):
            continue
        is_tensor = isinstance(a, torch.Tensor)
        if rng.randrange(2) if kind == 0 else not is_tensor or (kind == 1 and seen_tensor):
            found.add(i)
        seen_tensor = seen_tensor or is_tensor
    return found


def run_damaged(name: str, given: list[Any], letters: str, rng: random.Random, log: Path) -> None:
    """Damages a call and runs it on every kernel of its operator; `log` then says which it was."""
    if not given:
        return
    arguments = list(given)
    for _ in range(rng.randrange(3)):
        arguments = varied(arguments, rng)
    if rng.randrange(4) == 0:
        arguments = twins_resized(arguments, rng)
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    for _ in range(rng.choice([0, 1, 1, 2])):
        at = rng.randrange(len(arguments))
        if not isinstance(arguments[at], Unbound):
            arguments[at] = damaged(arguments[at], tensors, rng)
    if rng.randrange(4) == 0:
        arguments = emptied(arguments, rng)
    call = f"{name}({', '.join(map(text, arguments))})"
    log.write_text(call)
    with contextlib.suppress(KernelError, MissingKernelError):
        run_kernel(name, arguments, letters)
    for place in range(kernel_count(name) - 1):  # the last is the one that ran
        constant = constants(name, arguments, rng)
        now = called(arguments, rng) if rng.randrange(2) else None
        shown = "" if now is None else f", then ({', '.join(map(text, now))})"
        log.write_text(f"kernel {place} of {call}, of which {sorted(constant)} are constant{shown}")
        with contextlib.suppress(KernelError):
            prepare_and_run(name, place, arguments, letters, constant, now)


def run_reshaped(name: str, given: list[Any], letters: str, rng: random.Random, log: Path) -> None:
    """Runs a call on every kernel of its operator with no elements and large sizes, in all ways, and in other ranks."""
    for arguments in (*each_emptied(given), *each_ranked(given)):
        log.write_text(f"{name}({', '.join(map(text, arguments))})")
        with contextlib.suppress(KernelError, MissingKernelError):
            run_kernel(name, arguments, letters)
        for place in range(kernel_count(name) - 1):
            for constant in (set(), constants(name, arguments, rng)):
                with contextlib.suppress(KernelError):
                    prepare_and_run(name, place, arguments, letters, constant)


def calls_of(entry, types: list[torch.dtype]) -> list[Call]:
    """The calls of a few samples in each of the element types."""
    calls: dict[str, Call] = {}
    torch.manual_seed(0)
    for dtype in types:
        if dtype not in entry.dtypes:
            continue
        try:
            for number, sample in enumerate(entry.sample_inputs_func(entry, "cpu", dtype, requires_grad=False)):
                if number == 3:
                    break
                for call in record(lambda s=sample: entry(s.input, *s.args, **s.kwargs)):
                    if supported(call):
                        calls.setdefault(call.key(), call)
        except Exception:  # eager itself refuses the sample in this element type
            continue
    return list(calls.values())


def in_child(function: Callable[[], None]) -> int:
    """Runs a function in a child of this process; gives how it ended, as os.waitstatus_to_exitcode."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            function()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


_done: set[str] = set()


@pytest.mark.parametrize("entry", op_db, ids=lambda e: f"{e.name}.{e.variant_test_name}".rstrip("."))
def test_damaged_calls(entry, tmp_path) -> None:
    log = tmp_path / "call.txt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = [call for call in calls_of(entry, TYPES) if call.key() not in _done]
        _done.update(call.key() for call in calls)
    rng = random.Random(f"{SEED}{entry.name}.{entry.variant_test_name}")

    def run() -> None:
        for call in calls:
            for _ in range(DAMAGED):
                arguments, letters, _outs = kernel_arguments(call, dense_strides)
                run_damaged(call.op.kernel_schema.name, arguments, letters, rng, log)
            arguments, letters, _outs = kernel_arguments(call, dense_strides)
            run_reshaped(call.op.kernel_schema.name, arguments, letters, rng, log)

    status = in_child(run) if calls else 0
    assert status == 0, f"ended with {status} at {log.read_text()}"


OWN_CALLS = [pytest.param(*call, id=f"{number}.{call[0]}") for number, call in enumerate(own_calls())]


@pytest.mark.parametrize(("name", "arguments", "letters"), OWN_CALLS)
def test_damaged_own_calls(name, arguments, letters, tmp_path) -> None:
    log = tmp_path / "call.txt"
    rng = random.Random(SEED + name)

    def run() -> None:
        for _ in range(4 * DAMAGED):
            run_damaged(name, copy.deepcopy(arguments), letters, rng, log)
        run_reshaped(name, arguments, letters, rng, log)

    status = in_child(run)
    assert status == 0, f"ended with {status} at {log.read_text()}"


def test_all_kernels_are_damaged() -> None:
    # What runs in no kernel, or takes over memory, cannot be called here.
    apart = {"aten::_local_scalar_dense", "aten::resize_", "aten::sym_is_contiguous", "aten::sym_numel",
             "aten::sym_size.int",
             "aten::sym_storage_offset", "aten::sym_stride.int"}  # fmt: skip
    reached = {name for name, *_ in own_calls()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in op_db:
            reached.update(call.op.kernel_schema.name for call in calls_of(entry, [torch.float32, torch.int64]))
    assert set(WRITTEN) - reached == apart
