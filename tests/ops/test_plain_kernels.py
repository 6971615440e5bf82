"""The plain kernels are an oracle: their bytes are the same whatever else a process registered, on every instruction
set.

Constants are folded with them, so a file does not depend on the process that compiled it either.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import executorch_py as et  # noqa: E402

from .kernel_runner import kernel_count, run_kernel  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
THIS_FILE = [sys.executable, "-m", "tests.ops.test_plain_kernels"]


def matrix(seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(64, 64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def definite() -> torch.Tensor:
    """Of small whole numbers, so that no product of torch's depends on the machine."""
    a = torch.randint(-2, 3, (64, 64), generator=torch.Generator().manual_seed(0)).float()
    return a @ a.T + 64 * torch.eye(64)


def narrow(dtype: torch.dtype) -> torch.Tensor:
    """All bit patterns of a float of 16 bits, NaN of every kind among them."""
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


FOLDABLE: dict[str, tuple[Callable[[torch.Tensor], object], torch.Tensor]] = {
    "cholesky": (torch.linalg.cholesky, definite()),
    "matmul": (lambda a: (a @ a)[0], matrix()),
    "softmax": (lambda a: a.softmax(-1), matrix()),
    "lu": (lambda a: torch.linalg.lu_factor(a)[0], matrix()),
    "inv": (torch.linalg.inv, definite()),
    "solve": (lambda a: torch.linalg.solve(a, a[:, :3]), definite()),
    "qr": (lambda a: torch.linalg.qr(a)[1], matrix()),
    "svd": (lambda a: torch.linalg.svd(a)[1], matrix()),
    "eigh": (torch.linalg.eigvalsh, definite()),
    "matrix_exp": (torch.linalg.matrix_exp, matrix() / 64),
    "ldl": (lambda a: torch.linalg.ldl_factor(a)[0], definite()),
    "half": (lambda a: a.float().neg(), narrow(torch.float16)),
    "bfloat16": (lambda a: a.float().neg(), narrow(torch.bfloat16)),
    "to half": (lambda a: (a * 3).half(), narrow(torch.bfloat16).float()),
    "sum of bfloat16": (lambda a: a.sum(-1), matrix(dtype=torch.bfloat16)),
    "erf of half": (torch.erf, narrow(torch.float16)),
}


class Folded(torch.nn.Module):
    """Adds a number that is computed from a constant to the input."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.function, constant = FOLDABLE[name]
        self.register_buffer("constant", constant)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, object]:
        return x + 1, self.function(self.constant)


def compiled(name: str) -> bytes:
    exported = torch.export.export(Folded(name), (torch.ones(2),))
    return bytes(et.to_edge(exported).to_executorch().buffer)


def kernels() -> dict[str, str]:
    """Digests of what some plain kernels give."""

    def calls() -> dict[str, tuple[str, list, str, int]]:
        a = definite()
        n = len(a)

        def square() -> torch.Tensor:
            return torch.empty(n, n)

        def integers(*size: int) -> torch.Tensor:
            return torch.empty(size, dtype=torch.int32)

        return {
            "cholesky": ("aten::linalg_cholesky_ex.L", [a, False, False, square(), integers()], "TbbTT", 3),
            "lu": ("aten::linalg_lu_factor_ex.out", [a, True, False, square(), integers(n), integers()], "TbbTTT", 3),
            "qr": ("aten::linalg_qr.out", [a, "reduced", square(), square()], "", 3),
            "svd": ("aten::_linalg_svd.U", [a, False, True, None, square(), torch.empty(n), square()], "TbbSTTT", 5),
            "eigh": ("aten::_linalg_eigh.eigenvalues", [a, "L", True, torch.empty(n), square()], "", 4),
            "mm": ("aten::mm.out", [a, a, square()], "", 2),
            "softmax": ("aten::_softmax.out", [matrix(), 1, False, square()], "", 3),
            "neg of half": ("aten::neg.out", [narrow(torch.float16), narrow(torch.float16).clone()], "", 1),
            "erf of bfloat16": ("aten::erf.out", [narrow(torch.bfloat16), narrow(torch.bfloat16).clone()], "", 1),
        }  # fmt: skip

    digests = {}
    for name, (kernel, arguments, letters, output) in calls().items():
        run_kernel(kernel, arguments, letters)
        result = arguments[output].contiguous()
        digests[name] = hashlib.sha256(result.view(torch.uint8).numpy().tobytes()).hexdigest()
    return digests


@pytest.mark.parametrize("name", list(FOLDABLE))
def test_files_do_not_depend_on_the_process(name: str) -> None:
    here = compiled(name)
    et.Runtime.get()
    assert compiled(name) == here
    fresh = subprocess.run(
        [*THIS_FILE, "compile", name], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True
    )
    assert fresh.stdout.split() == [hashlib.sha256(here).hexdigest()]


@pytest.mark.parametrize("name", ["cholesky", "matmul", "softmax"])
def test_the_constants_are_folded(name: str) -> None:
    manager = et.to_edge(torch.export.export(Folded(name), (torch.ones(2),))).to_executorch()
    assert f"aten::{name}" not in manager.dump()
    assert "aten::mm" not in manager.dump()


def test_plain_kernels_do_not_depend_on_others() -> None:
    found = []
    for instruction_set in ("", "AVX2", "SSE4"):
        environment = {**os.environ, "ET_INSTRUCTION_SET": instruction_set}
        lines = subprocess.run(
            [*THIS_FILE, "kernels"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if "no such instructions" in lines.stderr:
            continue
        assert lines.returncode == 0, lines.stderr
        found += lines.stdout.splitlines()
    assert len(found) >= 2
    assert len(set(found)) == 1, found


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        print(hashlib.sha256(compiled(sys.argv[2])).hexdigest())
    else:
        print(kernels())
        assert kernel_count("aten::mm.out") > 1, "this registers the vector kernels"
        print(kernels())
