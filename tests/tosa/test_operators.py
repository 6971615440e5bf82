"""The interpreter is the reference model bit for bit, operator by operator, over random shapes and attributes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import executorch_py as et
from tests.tosa.alone import as_program
from tests.tosa.tools import tosa_python

pytestmark = pytest.mark.tosa

SEED = os.environ.get("ET_SEED", "1")
# Graphs of each kind; `make tosa` runs more.
COUNT = int(os.environ.get("ET_TOSA_CASES", "4"))

KINDS = """
conv2d depthwise_conv2d transpose_conv2d matmul avg_pool2d max_pool2d rescale table clamp cast mul select add sub
intdiv maximum minimum bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor arithmetic_right_shift
logical_left_shift logical_right_shift equal greater greater_equal abs clz bitwise_not logical_not negate reduce_sum
reduce_max reduce_min reduce_all reduce_any argmax gather scatter reshape transpose reverse slice tile concat pad
identity
"""

Case = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Case]]:
    """Graphs with inputs and the reference model's outputs, by kind."""
    file = tmp_path_factory.mktemp("tosa") / "cases.npz"
    command = [tosa_python(), Path(__file__).with_name("operator_cases.py"), SEED, str(COUNT), file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[Case]] = {}
    with np.load(file) as arrays:
        for key in arrays.files:
            kind, index, name = key.split("/")
            listed = found.setdefault(kind, [{} for _ in range(COUNT)])
            listed[int(index)][name] = arrays[key]
    return found


def numbered(case: Case, beginning: str) -> list[np.ndarray]:
    return [array for name, array in case.items() if name.startswith(beginning)]


@pytest.mark.parametrize("kind", KINDS.split())
def test_every_bit_is_the_reference_models(cases: dict[str, list[Case]], kind: str) -> None:
    for index, case in enumerate(cases[kind]):
        inputs, expected = numbered(case, "in"), numbered(case, "out")
        file = as_program(case["payload"].tobytes(), inputs, expected)
        outputs = et.Runtime.get().load_program(file).load_method("forward").execute(tuple(inputs))
        for output, wanted in zip(outputs, expected, strict=True):
            assert output.dtype == wanted.dtype
            np.testing.assert_array_equal(output, wanted, err_msg=f"{kind}, case {index} of seed {SEED}")


def test_every_kind_is_tested(cases: dict[str, list[Case]]) -> None:
    assert set(cases) == set(KINDS.split())
