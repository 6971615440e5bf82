"""Instruction sets of x86 by the words of ``ET_MAX_ISA``: how engines are limited to one, and what this machine has."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from executorch_py.errors import InvalidArgumentError

__all__ = ["ISAS", "check_isa", "cpu_flags", "environment", "highest_isa", "isa_settings", "machine_isas", "older_isas"]

#: Each with all before it -> what /proc/cpuinfo calls the instructions that code of the set takes. A processor with
#: AVX-512 may have no AVX-VNNI, whose instructions it has in longer vectors.
_FLAGS = {
    "sse4.1": {"sse4_1"},
    "avx2": {"avx2", "fma", "f16c"},
    "avxvnni": {"avx2", "avx_vnni"},
    "avx512": {"avx2", "avx512f", "avx512cd", "avx512dq", "avx512bw", "avx512vl"},
    "amx": {"avx512f", "amx_tile", "amx_int8"},
}
ISAS = tuple(_FLAGS)
#: What oneDNN, PyTorch and MKL call them.
_LIBRARIES = {
    "sse4.1": ("SSE41", "default", "SSE4_2"),
    "avx2": ("AVX2", "avx2", "AVX2"),
    "avxvnni": ("AVX2_VNNI", "avx2", "AVX2"),
    "avx512": ("AVX512_CORE_VNNI", "avx512", "AVX512"),
    "amx": ("AVX512_CORE_AMX", "avx512", "AVX512"),
}


def isa_settings(isa: str | None) -> dict[str, str]:
    """Environment variables that limit this package, OpenVINO and PyTorch to a set; for None there are none.

    The libraries read them once: they must be there before a process loads the libraries.
    """
    if isa is None:
        return {}
    one_dnn, aten, mkl = _LIBRARIES[isa]
    return {
        "ET_MAX_ISA": isa,
        "ONEDNN_MAX_CPU_ISA": one_dnn,
        "DNNL_MAX_CPU_ISA": one_dnn,
        "ATEN_CPU_CAPABILITY": aten,
        "MKL_ENABLE_INSTRUCTIONS": mkl,
    }


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Variables for the processes that start meanwhile; afterwards all is as before."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def machine_isas() -> tuple[str, ...]:
    """The sets of this machine, the highest one last; none where it has none of them, or where nobody knows."""
    flags = cpu_flags()
    return tuple(isa for isa in ISAS if _FLAGS[isa] <= flags)


def older_isas() -> tuple[str, ...]:
    """The sets of this machine below its highest one.

    Raises:
        InvalidArgumentError: There is none.
    """
    older = machine_isas()[:-1]
    if not older:
        raise InvalidArgumentError(f"no older instruction set of x86 is known of this machine ({platform.machine()})")
    return older


def highest_isa() -> str:
    """The last of `machine_isas`; "" where there is none."""
    return (machine_isas() or ("",))[-1]


def check_isa(isa: str) -> None:
    """That this machine has a set.

    Raises:
        InvalidArgumentError: It has not; the text says what it has.
    """
    highest = highest_isa()
    if highest == "":
        raise InvalidArgumentError(
            f"--isa {isa}: no instruction set of x86 is known of this machine ({platform.machine()})"
        )
    if isa not in machine_isas():
        raise InvalidArgumentError(f"--isa {isa}: this machine has no {isa}, its highest instruction set is {highest}")


def cpu_flags() -> set[str]:
    """What the processor has, in the words of /proc/cpuinfo; empty where there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        return set()
    return {flag for name, _, value in lines if name.strip() in ("flags", "Features") for flag in value.split()}
