"""Inputs that eager takes and the official runtime's kernels do not by themselves: files of ours run there all the
same.

Every operator case with numbers, lines, nothing and other element types in place of its inputs, where eager takes them
and we lower them. Also calls that were found to fail, to end the process or to be computed wrongly there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import executorch_py as et
from executorch_py.exir import ExecutorchBackendConfig

from . import op_cases
from .compare import assert_close, flat

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

X = op_cases._floats(3, 4)
LINE, NUMBER, NO_ROWS, NO_COLUMNS = X[0], X[0, 0].clone(), X[:0].clone(), torch.zeros(4, 0)
WEIGHT, BIAS = op_cases._floats(5, 4), op_cases._floats(5)
DOUBLE = torch.tensor(2.0, dtype=torch.float64)

#: Found by a sweep over dims, ranks and element types.
FOUND: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
    "linear_vector": (lambda s: F.linear(s, WEIGHT, BIAS), (LINE,)),
    "linear_vector_plain": (lambda s: F.linear(s, WEIGHT), (LINE,)),
    "linear_one_output": (lambda s, w: F.linear(s, w), (X, LINE)),
    "sum_of_a_number": (lambda s: (s.sum(0), s.sum(-1, keepdim=True), s.sum(())), (NUMBER,)),
    "logsumexp_of_a_number": (lambda s: torch.logsumexp(s, 0), (NUMBER,)),
    "cumsum_of_a_number": (lambda s: torch.cumsum(s, -1), (NUMBER,)),
    "amax_of_no_rows": (lambda s: (s.amax(-1), s.amin(-1, keepdim=True)), (NO_ROWS,)),
    "amax_of_no_columns": (lambda s: s.amax(0), (NO_COLUMNS,)),
    "log_softmax_of_nothing": (lambda s: (s.log_softmax(-1), s.log_softmax(0)), (NO_COLUMNS,)),
    "cat_of_nothing": (lambda s: (torch.cat([s, s], 1), torch.cat([s, s])), (NO_ROWS,)),
    "roll_flat": (lambda s: torch.roll(s, 3), (X,)),
    "roll_flat_number": (lambda s: torch.roll(s, 3), (NUMBER,)),
    "pad_less": (lambda s: (F.pad(s, (1, -1)), F.pad(s, (-1, -2, 0, 1)), F.pad(s, (-1, 0))), (X,)),
    "where_of_two_types": (lambda s: torch.where(s > 0, s, DOUBLE), (X,)),
    "cat_of_two_types": (lambda s, t: torch.cat([s, t]), (X, (X * 3).to(torch.int32))),
    "add_to_a_number": (lambda s, t: torch.add(s, t, alpha=2), (NUMBER, X)),
    "sub_from_a_line": (lambda s, t: torch.sub(s, t, alpha=2), (LINE.clone(), X.clone())),
    "add_bool": (lambda s: s + 3, (X > 0,)),
    "log_softmax_double": (lambda s: s.log_softmax(-1), (X.double(),)),
    "hardtanh_bytes": (lambda s: F.hardtanh(s, 1, 3), ((X.abs() * 3).to(torch.uint8),)),
    "logit_half": (lambda s: torch.logit(s, eps=1e-2), (X.sigmoid().half(),)),
    "remainder": (lambda s, t: (s % t, s % -3), (op_cases._ints(3, 4), op_cases._ints(3, 4) * 2 + 1)),
}

FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "number": lambda t: t.reshape(-1)[0].clone(),
    "line": lambda t: t.reshape(-1)[:4].clone(),
    "nothing": lambda t: t[:0].clone(),
    "double": lambda t: t.double() if t.is_floating_point() else t,
    "int32": lambda t: (t * 3).to(torch.int32),
}

#: What the official runtime cannot do or does wrongly, whatever the form of the file.
PEER_CANNOT = {
    "masked_select~number": "its kernel wants a result of rank 1 whose bound is above 0 at load",
    "masked_select~nothing": "its kernel wants a result of rank 1 whose bound is above 0 at load",
    "pow~int32": "integers to negative powers",
}


#: What has no one right answer.
NOT_DEFINED = {
    "topk~int32": "which of equal values comes first",
    "pixel_unshuffle~nothing": "eager keeps the sizes, the types of torch.export do not",
}


def _cases() -> dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]:
    made = {name: (op_cases.OpCase(name, *case).module(), case[1]) for name, case in FOUND.items()}
    for case in op_cases.cases():
        for form, change in FORMS.items():
            try:
                inputs = tuple(change(tensor) for tensor in case.inputs)
                with torch.no_grad():
                    case.module()(*inputs)
            except Exception:  # eager does not take them either
                continue
            made[f"{case.name}~{form}"] = (case.module(), inputs)
    return {name: made[name] for name in made if name not in NOT_DEFINED}


CASES = _cases()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, peer: Callable[[str, Path], None]) -> Path:
    """A folder with every case lowered for the official runtime, and what it made of it."""
    folder = tmp_path_factory.mktemp("strict")
    for name, (module, inputs) in CASES.items():
        try:
            with torch.no_grad():
                exported = torch.export.export(module, inputs)
        except Exception:
            (folder / f"{name}.refused").write_text("torch.export")
            continue
        try:
            program = et.to_edge(exported).to_executorch(ExecutorchBackendConfig(compatible=True))
        except et.ExecutorchError as error:
            (folder / f"{name}.refused").write_text(str(error))
            continue
        program.save(folder / f"{name}.pte")
        torch.save([list(inputs)], folder / f"{name}.inputs.pt")
    peer("run", folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_both_runtimes(name: str, ran: Path) -> None:
    refused, error = ran / f"{name}.refused", ran / f"{name}.error"
    if refused.exists():
        reason = refused.read_text()
        assert name not in FOUND, reason
        # With the operator and where it stands.
        assert reason == "torch.export" or "aten" in reason, reason
        return
    module, inputs = CASES[name]
    with torch.no_grad():
        expected = flat(module(*inputs))
    assert_close(et.Runtime.get().load_program(ran / f"{name}.pte").load_method("forward").execute(inputs), expected)
    if name in PEER_CANNOT:
        if not error.exists():
            with pytest.raises(AssertionError):
                assert_close(torch.load(ran / f"{name}.outputs.pt")[0], expected)
        return
    assert not error.exists(), error.read_text()
    assert_close(torch.load(ran / f"{name}.outputs.pt")[0], expected)
