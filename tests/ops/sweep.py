"""Collects calls of ATen operators with their results in eager PyTorch, and repeats them with our kernels.

`record` runs a function under a dispatch mode that sees every ATen operator it comes down to; each call for which the
operator table has a kernel becomes a `Call`. `check` runs the kernel on the same arguments and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from executorch_py.codegen.ops_yaml import Op, read_table

from . import unique_parts
from .call_text import shape_text, text
from .kernel_runner import DTYPE_CODES, KernelError, Unbound, is_dense, run_kernel

OPS = {op.schema.name: op for op in read_table(Path(__file__).resolve().parents[2] / "src/cpp/ops/ops.yaml")}
WITH_KERNEL = {op.kernel_schema.name for op in OPS.values() if op.kernel}

# relative and absolute tolerance by dtype of the result
TOLERANCES = {
    torch.float64: (1e-9, 1e-9), torch.float32: (1e-5, 1e-5), torch.float16: (4e-3, 3e-3),
    torch.bfloat16: (1.6e-2, 2e-2),
    torch.complex64: (1e-5, 1e-5), torch.complex128: (1e-9, 1e-9),
}  # fmt: skip


# Which of equal elements is taken is not defined: the values must be right, and the indices must lead to them.
TIES = {"aten::sort", "aten::topk", "aten::kthvalue", "aten::median.dim"}
# Eager interpolates uint8 images in 16-bit integers, which is off by one here and there.
OFF_BY_ONE = {"aten::upsample_bilinear2d", "aten::upsample_bilinear2d.vec", "aten::upsample_bicubic2d.vec"}

# Eager computes these in the 16-bit type itself, where we compute in float: its own rounding error is the larger.
COARSE_IN_EAGER = {"aten::grid_sampler_2d": 0.1}


# Eager's own algorithm overflows in a 16-bit type where the answer does not: its answer in float64 is the reference.
OVERFLOWS_IN_EAGER = {"aten::linalg_matrix_exp"}


def _in_float64(call: Call) -> list[torch.Tensor]:
    wide = tree_map_only(torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, (call.args, call.kwargs))
    namespace, name = call.op.schema.name.split("::")
    name, _, overload = name.partition(".")
    result = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")(*wide[0], **wide[1])
    return [got.to(want.dtype) for got, want in zip(outputs_of(result), outputs_of(call.result))]


# Decompositions whose parts are free (signs of vectors, order of eigenvalues, layout of the factors that a determinant
# comes from): what of the answer is not.
UNIQUE: dict[str, Callable[[dict[str, Any], list[torch.Tensor]], list[torch.Tensor]]] = {
    "aten::_linalg_svd": lambda arguments, outputs: unique_parts.of_svd(*outputs),
    "aten::_linalg_eigh": lambda arguments, outputs: unique_parts.of_eigh(*outputs),
    "aten::linalg_eig": lambda arguments, outputs: unique_parts.of_eig(arguments["self"], *outputs),
    "aten::_linalg_det": lambda arguments, outputs: outputs[:1],
    "aten::_linalg_slogdet": lambda arguments, outputs: outputs[:2],
}


@dataclass
class Call:
    """One call of an ATen operator and what eager PyTorch answered."""

    op: Op
    args: tuple
    kwargs: dict
    result: Any

    def describe(self) -> str:
        """The call in one line, tensors as dtype and shape."""
        parts = [text(a, shape_text) for a in self.args]
        parts += [f"{k}={text(v, shape_text)}" for k, v in self.kwargs.items()]
        return f"{self.op.schema.name}({', '.join(parts)})"

    def key(self) -> str:
        """Equal for calls that differ only in the values of their tensors."""
        return self.describe()


class _Recorder(TorchDispatchMode):
    def __init__(self, calls: list[Call], wanted: Callable[[str], bool]) -> None:
        super().__init__()
        self.calls, self.wanted = calls, wanted

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        op = OPS.get(name)
        if op is None or op.kernel_schema.name not in WITH_KERNEL or not self.wanted(name):
            return func(*args, **kwargs)
        copies = tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs))
        result = func(*args, **kwargs)
        kept = tree_map_only(torch.Tensor, lambda t: t.detach().clone(), result)
        self.calls.append(Call(op, copies[0], copies[1], kept))
        return result


def record(
    function: Callable[[], Any], wanted: Callable[[str], bool] = lambda name: True, grad: bool = False
) -> list[Call]:
    """The calls that `function` comes down to, of operators whose name `wanted` accepts.

    With `grad`, gradients are recorded too: `function` may call backward.
    """
    calls: list[Call] = []
    with torch.set_grad_enabled(grad), _Recorder(calls, wanted):
        function()
    return calls


def bind(call: Call) -> Iterator[tuple[str, str, bool, Any]]:
    """Name, letter, is_out and value of each parameter of the kernel."""
    names = [a.name for a in call.op.schema.arguments]
    given = dict(zip(names, call.args)) | call.kwargs
    types = {a.name: a.letter for a in call.op.kernel_schema.arguments}
    for a in call.op.kernel_schema.arguments:
        if a.is_out:
            yield a.name, a.letter, True, None
        elif a.name in given:
            yield a.name, types[a.name], False, given[a.name]
        else:
            default = next((f.default for f in call.op.schema.arguments if f.name == a.name), None) or a.default
            yield a.name, a.letter, False, parse_default(default, a.letter)


def parse_default(text: str | None, letter: str) -> Any:
    """The value of a default as a schema writes it."""
    if text is None or text == "None":
        return None
    if text in ("True", "False"):
        return text == "True"
    if text.startswith(("'", '"')):
        return text[1:-1]
    if text.startswith("["):
        return [int(i) for i in text[1:-1].split(",") if i.strip()]
    if text == "contiguous_format":
        return 0
    value = float(text) if "." in text or "e" in text else int(text)
    return [value] if letter in "lL" else value


def outputs_of(result: Any) -> list[torch.Tensor]:
    """The tensors an operator returned, in order; one that was not wanted counts as empty."""
    items = list(result) if isinstance(result, (tuple, list)) else [result]
    return [torch.empty(0) if t is None else t for t in items]


NOT_SUPPORTED = 0x10  # et::Error


def run(call: Call) -> list[torch.Tensor]:
    """Runs the kernel on the call's arguments, in eager's dim orders unless it refuses those; returns its outputs."""
    try:
        return _run(call, dense_strides)
    except KernelError as error:
        if error.code != NOT_SUPPORTED or "row-major" not in str(error):
            raise
    args, kwargs = tree_map_only(torch.Tensor, lambda t: t.contiguous(), (call.args, call.kwargs))
    return _run(Call(call.op, args, kwargs, call.result), lambda t: torch.empty(t.shape).stride())


def _run(call: Call, strides_of: Callable[[torch.Tensor], tuple[int, ...]]) -> list[torch.Tensor]:
    arguments, letters, outs = kernel_arguments(call, strides_of)
    run_kernel(call.op.kernel_schema.name, arguments, letters)
    return [o.value if isinstance(o, Unbound) else o for o in outs]


def kernel_arguments(
    call: Call, strides_of: Callable[[torch.Tensor], tuple[int, ...]]
) -> tuple[list[Any], str, list[Any]]:
    """What the kernel gets, its signature letters, and which of the arguments are the outputs."""
    expected = outputs_of(call.result)
    outs: list[Any] = []
    arguments, letters = [], ""
    index = 0
    for _name, letter, is_out, value in bind(call):
        if is_out and letter == "v":
            value = [torch.empty_strided(t.shape, strides_of(t), dtype=t.dtype) for t in expected]
            outs += value
        elif is_out:
            like = expected[index]
            index += 1
            if "data_dependent" in call.op.tags:
                value = Unbound(like.dtype, like.dim())
            else:
                value = torch.empty_strided(like.shape, strides_of(like), dtype=like.dtype)
                _poison(value)
            outs.append(value)
        elif letter == "T" and isinstance(value, (int, float)):
            # A number in a tensor's place: the importer makes a 0-dim tensor of it.
            value = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        elif letter in "lL" and isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        elif letter in "nN" and isinstance(value, torch.Tensor):
            value = value.item()
        arguments.append(value)
        letters += letter
    if call.op.out is None:  # an in-place operator: the mutated arguments are the outputs
        mutated = [a.mutated for a in call.op.schema.arguments]
        arguments = [a.clone() if m and isinstance(a, torch.Tensor) else a for a, m in zip(arguments, mutated)]
        outs = [a for a, m in zip(arguments, mutated) if m]
    return arguments, letters, outs


def dense_strides(t: torch.Tensor) -> tuple[int, ...]:
    return t.stride() if is_dense(t) else torch.empty(t.shape).stride()


def _poison(t: torch.Tensor) -> None:
    """Fills an output with what no kernel writes, so that a forgotten element is seen."""
    if t.numel():
        t.fill_(True if t.dtype == torch.bool else 113)


def check(call: Call, rtol: float | None = None, atol: float | None = None) -> None:
    """Runs the kernel and compares with eager. Raises AssertionError that shows the call."""
    actual = run(call)
    name = call.op.schema.name
    if name in TIES:
        _check_indices_lead_to_values(call, actual)
        actual = actual[:1]
    expected = outputs_of(call.result)
    if name in OVERFLOWS_IN_EAGER and expected[0].dtype in (torch.float16, torch.bfloat16):
        expected = _in_float64(call)
    if name in UNIQUE:
        bound = {parameter: value for parameter, _, _, value in bind(call)}
        bound["self"] = bound.get("self", bound.get("A"))
        actual, expected = UNIQUE[name](bound, actual), UNIQUE[name](bound, expected)
    for got, want in zip(actual, expected):
        relative, absolute = TOLERANCES.get(want.dtype, (0, 0))
        if name in COARSE_IN_EAGER and want.dtype in (torch.float16, torch.bfloat16):
            relative = absolute = COARSE_IN_EAGER[name]
        if name in OFF_BY_ONE and want.dtype == torch.uint8:
            absolute = 1
        if want.is_floating_point() and want.numel():  # sums lose digits in proportion to their largest terms
            absolute *= max(1.0, want.nan_to_num(posinf=0, neginf=0).abs().max().item())
        torch.testing.assert_close(
            got, want, rtol=relative if rtol is None else rtol, atol=absolute if atol is None else atol,
            equal_nan=True, check_stride=False, msg=lambda m: f"{call.describe()}\n{m}",
        )  # fmt: skip


def _check_indices_lead_to_values(call: Call, actual: list[torch.Tensor]) -> None:
    bound = {name: value for name, _, _, value in bind(call)}
    source, (values, indices) = bound["self"], actual
    if source.dim() == 0:
        assert not indices.any()
        return
    if values.dim() < source.dim():
        values, indices = values.unsqueeze(bound["dim"]), indices.unsqueeze(bound["dim"])
    torch.testing.assert_close(source.gather(bound["dim"], indices), values, rtol=0, atol=0, equal_nan=True)


def supported(call: Call) -> bool:
    """False for calls that the runtime cannot express: quantised, sparse or complex tensors, other devices."""
    ok = True

    def look(t: torch.Tensor) -> None:
        nonlocal ok
        plain = t.layout == torch.strided and t.device.type == "cpu" and not t.is_quantized and t.dim() <= 16
        ok = ok and plain and t.dtype in DTYPE_CODES

    tree_map_only(torch.Tensor, look, (call.args, call.kwargs, call.result))
    tree_map_only(complex, lambda c: look(torch.empty(0, device="meta")), (call.args, call.kwargs))
    return ok
