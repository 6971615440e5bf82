"""The processors that this repository is built for and run on in emulators, beside x86-64: the one list of them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

#: What runs on a target, in the order of the page's columns.
SUITES = {
    "tests": "C++ tests",
    "float32": "networks, float32",
    "int8": "networks, int8",
    "xnnpack": "networks, XNNPACK",
    "xnnpack_int8": "networks, XNNPACK int8",
}

#: C++ tests that need no operator and no file of this machine's own: et_test_<name>.
TESTS = (
    "base", "numerics", "ops", "schema", "runtime", "devtools", "threads", "platform_posix", "platform_uart",
    "platform_linked", "platform_freertos", "platform_zephyr", "robustness",
)  # fmt: skip

_VECTORS = "kernels_optimized"
#: Kernels of microcontrollers, faked on pthreads, which WebAssembly has not in each build.
_FAKES = ("platform_freertos", "platform_zephyr")


@dataclass(frozen=True)
class Build:
    """A tree in build/targets; several targets may run what it makes."""

    toolchain: str  # cmake/toolchains/<toolchain>.cmake
    packages: str  # set of Debian packages in tools/provision_system.py
    programs: tuple[str, ...]  # that these bring
    options: tuple[str, ...] = ("-DET_BUILD_OPTIMIZED=OFF",)
    suffix: str = ""  # of programs
    tests: tuple[str, ...] = TESTS
    tree: str = ""  # folder of build/targets, where it is not named after the toolchain file
    has_xnnpack: bool = False  # in all suites
    threads: int = 1  # that networks run with

    def missing(self) -> list[str]:
        return [program for program in self.programs if shutil.which(program) is None]


@dataclass(frozen=True)
class Target:
    """A processor, and the command that runs a program on it."""

    name: str
    processor: str
    build: Build
    emulator: tuple[str, ...]
    absent: Mapping[str, str] = field(default_factory=dict)  # suite -> why it is not to be had here


_NO_XNNPACK = dict.fromkeys(
    ("xnnpack", "xnnpack_int8"), "third_party.txt has cpuinfo, which XNNPACK needs, for x86-64 and arm64 alone"
)
_AARCH64 = Build("aarch64-linux", "aarch64", ("aarch64-linux-gnu-g++", "qemu-aarch64-static"))
#: With all kernels: tests of the vector ones compare with others than networks call.
_NEON = replace(_AARCH64, options=("-DET_SELECT_OPS=",), tests=(_VECTORS,), tree="aarch64-neon", has_xnnpack=True)
_ARMHF = Build("armhf-linux", "armhf", ("arm-linux-gnueabihf-g++", "qemu-arm-static"))
_RISCV64 = Build("riscv64-linux", "riscv64", ("riscv64-linux-gnu-g++", "qemu-riscv64-static"))
_RVV = Build("riscv64-rvv-linux", "riscv64", ("clang++", "riscv64-linux-gnu-g++", "qemu-riscv64-static"))
_WASM = Build("wasm32", "wasm", ("em++", "node"), (), ".js", tuple(t for t in TESTS if t not in _FAKES))
_WASM_THREADS = replace(_WASM, options=("-DET_BUILD_THREADS=ON",), tree="wasm32-threads", threads=2)


def _qemu(name: str, sysroot: str, cpu: str) -> tuple[str, ...]:
    return (f"qemu-{name}-static", "-L", f"/usr/{sysroot}", "-cpu", cpu)


TARGETS = {
    target.name: target
    for target in (
        Target(
            "aarch64", "64-bit Arm with dot products, i8mm, bf16 and fp16", _AARCH64,
            _qemu("aarch64", "aarch64-linux-gnu", "max"),
        ),
        Target(
            "aarch64-cortex-a53", "64-bit Arm with none of these", _AARCH64,
            _qemu("aarch64", "aarch64-linux-gnu", "cortex-a53"),
        ),
        Target(
            "aarch64-neon", "64-bit Arm, with the vector kernels (NEON)", _NEON,
            _qemu("aarch64", "aarch64-linux-gnu", "max"),
        ),
        Target(
            "armhf", "32-bit Arm, Armv7-A", _ARMHF, _qemu("arm", "arm-linux-gnueabihf", "cortex-a9"), _NO_XNNPACK,
        ),
        Target(
            "riscv64", "64-bit RISC-V without vectors", _RISCV64,
            _qemu("riscv64", "riscv64-linux-gnu", "rv64"), _NO_XNNPACK,
        ),
        Target(
            "riscv64-rvv", "64-bit RISC-V with vectors", _RVV,
            _qemu("riscv64", "riscv64-linux-gnu", "rv64,v=true,vlen=128,vext_spec=v1.0"), _NO_XNNPACK,
        ),
        Target("wasm32", "WebAssembly with SIMD, in node", _WASM, ("node", "--no-experimental-fetch"), _NO_XNNPACK),
        Target(
            "wasm32-threads", "the same, with two threads", _WASM_THREADS,
            ("node", "--no-experimental-fetch"), _NO_XNNPACK,
        ),
    )
}  # fmt: skip
