"""What the compiler made of XNNPACK's kernels and of ours.

A sum on the stack makes a product half as fast, on some processors only.
"""

import platform
import re
import subprocess
from collections.abc import Iterator

import pytest
from repository import ROOT

BUILD = ROOT / "build" / "dev" / "build.ninja"

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels of x86-64")


def _library() -> str:
    """The library that the build links."""
    return re.search(r"\S+/libmicrokernels-prod\.a", BUILD.read_text()).group()


def _listing(*arguments: str) -> str:
    return subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", *arguments], check=True, capture_output=True, text=True
    ).stdout


def _inner_loops(listing: str) -> Iterator[list[str]]:
    """The instructions of each loop of a function without another loop in it."""
    code = [(int(at, 16), text) for at, text in re.findall(r"^ +([0-9a-f]+):\s+(.*)$", listing, re.MULTILINE)]
    index = {at: i for i, (at, _) in enumerate(code)}
    loops = []
    for i, (at, text) in enumerate(code):
        jump = re.match(r"j\w+\s+([0-9a-f]+) ", text)
        if jump and (target := int(jump.group(1), 16)) <= at and target in index:
            loops.append((index[target], i))
    for start, end in loops:
        if not any((s, e) != (start, end) and start <= s and e <= end for s, e in loops):
            yield [text for _, text in code[start : end + 1]]


def _on_stack(loop: list[str], function: str) -> list[str]:
    base = "r[sb]p" if re.search(r"mov +%rsp,%rbp", function) else "rsp"  # without a frame, rbp is any register
    return [line for line in loop if re.search(rf"\(%{base}.*mm|mm.*\(%{base}", line)]


@pytest.mark.parametrize(
    "function",
    [
        "xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast",
        "xnn_f32_igemm_minmax_ukernel_5x16__fma3_broadcast_prfm",
        "xnn_f32_gemm_minmax_ukernel_7x32__avx512f_broadcast",
        "xnn_f32_qc8w_gemm_minmax_ukernel_5x16__avx2_broadcast",
        "xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32",
        "xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p32c__avx512skx_mul32",
    ],
)
def test_inner_loops_keep_vectors_in_registers(function):
    listing = _listing(f"--disassemble={function}", _library())
    loops = list(_inner_loops(listing))
    assert loops, f"{function} is not in the library, or has no loop"
    assert not [line for loop in loops for line in _on_stack(loop, listing)]


@pytest.mark.parametrize("file", ["byte_loop", "chain_loop", "pair_loop", "quad_loop"])
def test_sums_of_int8_products_stay_in_registers(file):
    folder = BUILD.parent / "src/cpp/kernels/optimized/quantized/CMakeFiles/et_kernels_optimized_quantized.dir"
    functions = _listing(str(folder / f"{file}.cpp.o")).split("\n\n")
    # ByteRows multiplies no weights: it goes over numbers of rows that stand in an array.
    functions = [function for function in functions if "ByteRows" not in function.strip().split("\n")[0]]
    loops = [(loop, function) for function in functions for loop in _inner_loops(function)]
    # What stands behind a function and jumps back into it is no loop.
    loops = [pair for pair in loops if not any(line.startswith("jmp ") for line in pair[0])]
    products = [pair for pair in loops if any(re.match("vpdpbusd|v?pmaddwd", line) for line in pair[0])]
    assert len(products) > (10 if file == "quad_loop" else 30)
    assert not [line for loop, function in products for line in _on_stack(loop, function)]
