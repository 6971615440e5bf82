"""ET_MAX_ISA limits what own kernels and XNNPACK use of the processor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from executorch_py.cli.instruction_sets import machine_isas

# Multiplied and added in one step, x * w - 1 keeps the last bit of the product, 2 to the power of -24. In two steps the
# product is rounded first, and nothing is left. Only processors with AVX2 have the one step.
PROGRAM = """
import sys
import torch
import executorch_py as et
from executorch_py.backends.xnnpack import XnnpackPartitioner

model = torch.nn.Linear(1, 16)
with torch.no_grad():
    model.weight.fill_(1 + 2**-12)
    model.bias.fill_(-(1 + 2**-11))
example = (torch.full((16, 1), 1 + 2**-12),)
partitioner = [XnnpackPartitioner(always=True)] if sys.argv[1] == "delegate" else None
program = et.to_edge_transform_and_lower(torch.export.export(model.eval(), example), partitioner=partitioner)
method = et.Runtime.get().load_program(program.to_executorch().buffer).load_method("forward")
print(set(method.execute(example)[0].flatten().tolist()))
"""
# Layers of integers: windows, 1x1 and rows of more columns and depth than a panel has, and odd ones.
INTEGERS = """
import sys
import torch
import executorch_py as et
from executorch_py import quantizer

torch.manual_seed(0)
image = torch.nn.Sequential(
    torch.nn.Conv2d(3, 36, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(36, 130, 1), torch.nn.Conv2d(130, 20, 3, 1, 1)
)
wide, row = torch.nn.Linear(203, 117), torch.nn.Linear(203, 9)
for module, shape in ((image, (2, 3, 21, 23)), (wide, (13, 203)), (row, (1, 203))):
    inputs = (torch.randn(shape),)
    exported = quantizer.quantize(module.eval(), inputs, sys.argv[1], [inputs])
    program = et.to_edge_transform_and_lower(exported).to_executorch()
    method = et.Runtime.get().load_program(program.buffer).load_method("forward")
    print(*method.execute(inputs)[0].flatten().tolist())
"""
# The registries of a process are made once; each call that needs them says why there are none.
AGAIN = """
from executorch_py import InvalidArgumentError, Runtime, _core

for call in (_core.operator_names, _core.backend_names, *[lambda: Runtime.get().load_program(b"")] * 2):
    try:
        call()
    except InvalidArgumentError as error:
        print(error)
"""
MESSAGE = "ET_MAX_ISA is 'avx3', must be sse4.1, avx2, avxvnni, avx512 or amx"


def run(where: str, limit: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ET_MAX_ISA": limit}
    return subprocess.run(
        [sys.executable, "-c", program, where], capture_output=True, text=True, env=environment, timeout=120
    )


def has_avx2() -> bool:
    flags = Path("/proc/cpuinfo")
    return flags.is_file() and " avx2 " in flags.read_text()


@pytest.mark.parametrize("where", ["kernels", "delegate"])
@pytest.mark.skipif(not has_avx2(), reason="this processor has no instructions above the lowest limit")
def test_the_lowest_limit_takes_the_fused_product_away(where: str) -> None:
    assert run(where, "sse4.1").stdout.strip() == "{0.0}"
    assert run(where, "avx2").stdout.strip() == f"{{{2**-24}}}"


@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8"])
def test_integers_are_the_same_under_each_limit(preset: str) -> None:
    results = {}
    for isa in machine_isas():
        done = run(preset, isa, INTEGERS)
        assert done.returncode == 0, done.stderr
        results[isa] = [torch.tensor([float(number) for number in line.split()]) for line in done.stdout.splitlines()]
    # Sums are equal; layers that quantize at the call multiply them by floats, in one step or two.
    tolerance = 0 if preset == "static_int8" else 1e-6
    for first, *others in zip(*results.values(), strict=True):
        for other in others:
            torch.testing.assert_close(other, first, rtol=tolerance, atol=tolerance)


def test_another_word_is_an_error_that_names_the_words() -> None:
    result = run("kernels", "avx3")
    assert result.returncode != 0
    assert MESSAGE in result.stderr


def test_each_load_names_the_words() -> None:
    result = run("kernels", "avx3", AGAIN)
    assert result.stdout.splitlines() == [MESSAGE] * 4, result.stderr
