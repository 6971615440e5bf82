"""Kernels get what a hostile program may give them: damaged arguments are refused or computed, nothing crashes or hangs.

The calls are those of PyTorch's operator database; each is damaged in many ways: numbers, lists, element types, shapes,
values of indices, outputs that are inputs. What is computed is not looked at. Under sanitizers (make sanitize) a read or a
write beside a tensor ends the process, which is a child for each entry, so that the call can be named. ET_DAMAGED sets how
many of each.
"""

from __future__ import annotations

import contextlib
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
sys.path.insert(0, str(Path(__file__).resolve().parent))
from kernel_runner import DTYPE_CODES, KernelError, MissingKernelError, Unbound, run_kernel  # noqa: E402
from sweep import Call, dense_strides, kernel_arguments, record, supported  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

torch.set_num_threads(1)
pytestmark = pytest.mark.slow

DAMAGED = int(os.environ.get("ET_DAMAGED", "4"))
SECONDS = 60  # an entry's calls take less than one
INTEGERS = [0, 1, -1, 2, 3, 7, -7, 16, 127, -128, 255, 65536, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63)]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 1e-320, float("inf"), float("-inf"), float("nan")]
DTYPES = [d for d in DTYPE_CODES if d not in (torch.uint16, torch.uint32, torch.uint64)]


def integer(rng: random.Random, around: int = 0) -> int:
    kind = rng.randrange(3)
    near = max(-(2**63), min(2**63 - 1, around + rng.randrange(-3, 4)))
    return rng.choice(INTEGERS) if kind == 0 else near if kind == 1 else rng.randrange(-4, 12)


def damaged_tensor(t: torch.Tensor, others: list[torch.Tensor], rng: random.Random) -> torch.Tensor:
    kind = rng.randrange(9)
    if kind == 0:
        return t.to(rng.choice(DTYPES))
    if kind == 1 and others:
        return rng.choice(others)  # itself: an output that is an input
    if kind == 2:
        return t.new_zeros([integer(rng) % 5 for _ in range(rng.randrange(6))])
    if kind == 3 and t.dim():
        return t.select(rng.randrange(t.dim()), 0).clone() if 0 not in t.shape else t.reshape(-1)
    if kind == 4:
        return t.unsqueeze(rng.randrange(t.dim() + 1)).clone()
    if kind == 5 and t.dim():
        return t.transpose(rng.randrange(t.dim()), rng.randrange(t.dim())).contiguous()
    if kind == 6 and t.dim():  # another size, the same elements again or fewer
        d = rng.randrange(t.dim())
        n = rng.randrange(t.shape[d] + 3)
        return t.index_select(d, torch.arange(n) % t.shape[d]) if t.shape[d] else t.clone()
    t = t.clone(memory_format=torch.contiguous_format)
    flat = t.view(-1)
    for _ in range(min(flat.numel(), rng.randrange(1, 5))):
        at = rng.randrange(flat.numel())
        if t.dtype.is_floating_point or t.dtype.is_complex:
            flat[at] = torch.tensor(rng.choice(NUMBERS), dtype=torch.float64).to(t.dtype)
        elif t.dtype != torch.bool:
            info = torch.iinfo(t.dtype)
            flat[at] = max(info.min, min(info.max, integer(rng, int(flat[at]))))
    return t


def damaged(value: Any, others: list[torch.Tensor], rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return integer(rng, value)
    if isinstance(value, float):
        return rng.choice(NUMBERS)
    if isinstance(value, str):
        return rng.choice(["", "x", "nonsense" * 20])
    if isinstance(value, torch.Tensor):
        return damaged_tensor(value, others, rng)
    if isinstance(value, (list, tuple)) and value:
        items = list(value)
        at, kind = rng.randrange(len(items)), rng.randrange(6)
        if kind == 0:
            del items[at]
        elif kind == 4:  # longer than any rank
            items = items * 40
        elif kind == 1:
            items.insert(at, items[at])
        else:
            items[at] = damaged(items[at], others, rng)
        return items
    if value is None and others:
        return rng.choice([None, *others])
    return value


def text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}={value.flatten()[:64].tolist()}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text, value)) + "]"
    return repr(value)


def run_damaged(call: Call, rng: random.Random, log: Path) -> None:
    """Damages a call and runs it; `log` then says which it was."""
    arguments, letters, _ = kernel_arguments(call, dense_strides)
    if not arguments:
        return
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(arguments))
        if not isinstance(arguments[at], Unbound):
            arguments[at] = damaged(arguments[at], tensors, rng)
    name = call.op.kernel_schema.name
    log.write_text(f"{name}({', '.join(map(text, arguments))})")
    with contextlib.suppress(KernelError, MissingKernelError):
        run_kernel(name, arguments, letters)


def calls_of(entry) -> list[Call]:
    """One sample's calls in one floating and one integer type."""
    calls: dict[str, Call] = {}
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.int64):
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
        calls = [call for call in calls_of(entry) if call.key() not in _done]
        _done.update(call.key() for call in calls)
        rng = random.Random(f"{entry.name}.{entry.variant_test_name}")
        status = (
            in_child(lambda: [run_damaged(call, rng, log) for call in calls for _ in range(DAMAGED)]) if calls else 0
        )
    assert status == 0, f"ended with {status} at {log.read_text()}"
