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
identity resize
"""

FLOATS = "float_conv2d float_matmul float_pool float_mul float_cast float_unary float_binary float_reduce float_resize"

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


def run(case: Case) -> list[np.ndarray]:
    """What the interpreter makes of a graph."""
    inputs = numbered(case, "in")
    file = as_program(case["payload"].tobytes(), inputs, numbered(case, "out"))
    return et.Runtime.get().load_program(file).load_method("forward").execute(tuple(inputs))


@pytest.mark.parametrize("kind", KINDS.split())
def test_every_bit_is_the_reference_models(cases: dict[str, list[Case]], kind: str) -> None:
    for index, case in enumerate(cases[kind]):
        for output, wanted in zip(run(case), numbered(case, "out"), strict=True):
            assert output.dtype == wanted.dtype
            np.testing.assert_array_equal(output, wanted, err_msg=f"{kind}, case {index} of seed {SEED}")


@pytest.mark.parametrize("kind", FLOATS.split())
def test_floats_are_close_to_the_reference_models(cases: dict[str, list[Case]], kind: str) -> None:
    """Sums in another order and other libraries of functions: the last bits differ."""
    for index, case in enumerate(cases[kind]):
        for output, wanted in zip(run(case), numbered(case, "out"), strict=True):
            assert output.dtype == wanted.dtype
            np.testing.assert_allclose(
                output, wanted, rtol=1e-5, atol=1e-5, err_msg=f"{kind}, case {index} of seed {SEED}"
            )


def test_every_kind_is_tested(cases: dict[str, list[Case]]) -> None:
    assert set(cases) == {*KINDS.split(), *FLOATS.split()}
