"""``etpy doctor``: what is installed, what this machine has, and whether a program runs here."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import executorch_py
from executorch_py import _core
from executorch_py.errors import ExecutorchError
from executorch_py.runtime import Runtime
from executorch_py.text_table import aligned

from .instruction_sets import cpu_flags
from .models import backend_names
from .terminal import add_json, show

__all__ = ["add"]

#: Package -> what it is needed for.
_PACKAGES = {
    "numpy": "running programs",
    "torch": "exporting models",
    "torchao": "quantizing models",
    "ml_dtypes": "bfloat16 in numpy",
    "pandas": "Inspector.to_dataframe",
    "matplotlib": "plots",
    "rich": "colours and progress of etpy",
    "shtab": "etpy completion",
    "onnxruntime": "etpy bench, as a peer",
    "openvino": "etpy bench, as a peer",
    "executorch": "etpy bench, as a peer",
}
#: What the kernels and the libraries beneath look for, in the words of /proc/cpuinfo.
_INSTRUCTIONS = (
    "sse4_1",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "amx_int8",
)
_INSTRUCTIONS_ARM = ("asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve")
#: Adds two vectors: the smallest program that a kernel computes.
_PROGRAM = """method @forward(%x: f32[4], %y: f32[4]) stage(lowered) {
  %s = aten::add.out(%x, %y, 1) : f32[4]
  return %s
}"""


def add(commands: Any) -> None:
    """Adds the command."""
    doctor = commands.add_parser(
        "doctor", help="what is installed, which instruction sets and backends there are, and one inference"
    )
    add_json(doctor)
    doctor.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    checks = {"kernels and backends": _tried(_are_registered)}
    has_registries = not any(checks.values())
    if has_registries:
        checks |= {"one inference": _tried(_kernels_compute)}
    if has_registries and importlib.util.find_spec("torch"):
        for name in backend_names():
            checks[f"one inference, delegated to {name}"] = _tried(partial(_delegate_computes, name))
    backends = _core.backend_names() if has_registries else []
    told = {
        "versions": dict(_versions()),
        "machine": dict(_machine()),
        "backends": {name: _core.is_backend_available(name) for name in backends},
        "kernels": len(_core.operator_names()) if has_registries else 0,
        "checks": {name: reason or "pass" for name, reason in checks.items()},
    }
    show(arguments, _text(told), lambda: told)
    return 1 if any(checks.values()) else 0


def _text(told: dict[str, Any]) -> str:
    backends = ", ".join(
        name if is_there else f"{name} (missing its device)" for name, is_there in told["backends"].items()
    )
    rows = [
        *told["versions"].items(),
        *told["machine"].items(),
        ("backends", backends or "none"),
        ("operators with a kernel", str(told["kernels"])),
        *((name, result if result == "pass" else f"FAIL {result}") for name, result in told["checks"].items()),
    ]
    return "\n".join(aligned(("what", "found"), rows, indent="", widest=60))


def _versions() -> Iterator[tuple[str, str]]:
    yield "executorch_py", f"{executorch_py.__version__} in {os.path.dirname(os.path.abspath(executorch_py.__file__))}"
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    for name, purpose in _PACKAGES.items():
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, f"not installed ({purpose})"


def _machine() -> Iterator[tuple[str, str]]:
    known = _INSTRUCTIONS_ARM if platform.machine() in ("aarch64", "arm64") else _INSTRUCTIONS
    flags = cpu_flags()
    yield "system", f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield "processors", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    yield "threads of methods", str(_core.num_threads())
    yield "instruction sets", " ".join(one for one in known if one in flags) or "not known on this system"
    if limit := os.environ.get("ET_MAX_ISA"):
        yield "ET_MAX_ISA", limit


def _tried(check: Callable[[], str]) -> str:
    """Why a check fails; "" when it does not."""
    try:
        return check()
    except (ExecutorchError, ImportError) as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _are_registered() -> str:
    """Without them, as where ``ET_MAX_ISA`` is a wrong word, nothing else can be tried."""
    _core.operator_names()
    return ""


def _kernels_compute() -> str:
    import numpy as np

    program = _core.finish(_core.parse_program(_PROGRAM), {}).to_bytes()
    x = np.arange(4, dtype=np.float32)
    (got,) = Runtime.get().load_program(program).load_method("forward").execute([x, x])
    return "" if np.array_equal(got, 2 * x) else f"[0, 1, 2, 3] doubled is {got.tolist()}"


def _delegate_computes(name: str) -> str:
    """Runs a convolution there; one of integers, where it takes none of floats."""
    import torch

    torch.manual_seed(0)
    model, x = torch.nn.Conv2d(8, 16, 3, padding=1).eval(), torch.randn(1, 8, 32, 32)
    exported = torch.export.export(model, (x,))
    if (got := _delegated(exported, name, x)) is not None:
        error = (got - model(x)).detach().abs().max().item()
        return "" if error < 1e-4 else f"a convolution is wrong by {error:.3g}"
    from executorch_py import quantizer

    quantized = quantizer.quantize(exported, (x,), "static_int8", [(x,)])
    got, expected = _delegated(quantized, name, x), _delegated(quantized, None, x)
    if got is None or expected is None:
        return "it took no convolution"
    steps = (got - expected).abs().max().item() / ((expected.max() - expected.min()).item() / 255)
    return "" if steps < 1.5 else f"a convolution of int8 is {steps:.3g} steps off"


def _delegated(program: Any, name: str | None, x: Any) -> Any:
    """The output of a program on a backend, or without one; None when the backend took nothing."""
    import torch

    from executorch_py.lowering.edge import to_edge_transform_and_lower

    from .models import partitioner_of

    partitioner = None if name is None else [partitioner_of(name, always=True)]
    lowered = to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch()
    method = Runtime.get().load_program(lowered.buffer).load_method("forward")
    if name is not None and not list(method.metadata.backends()):
        return None
    return torch.as_tensor(method.execute([x])[0])
