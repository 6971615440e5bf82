"""The element types that the operator table claims: each is measured, with what eager PyTorch computes.

One call of each operator is taken from the samples of PyTorch's operator database in float32, or int64, or bool. Its
main tensor and those of the same element type are cast to each type of the table; where eager takes the call, so must
the kernel, with eager's result. An element type that the table does not name must be refused or computed rightly: never
wrong.
"""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
from torch.utils._pytree import tree_leaves, tree_map_only  # noqa: E402

from executorch_py.codegen.ops_yaml import DTYPES  # noqa: E402

from ..kernel_runner import DTYPE_CODES, KernelError  # noqa: E402
from ..sweep import Call, check, record, supported  # noqa: E402
from .test_samples import NOT_COMPARED, op_db  # noqa: E402

torch.set_num_threads(1)
TYPES = {name: dtype for dtype, code in DTYPE_CODES.items() for name, value in DTYPES.items() if value == code}
REFUSALS = (0x10, 0x12, 0x13)  # NotSupported, InvalidArgument, InvalidType
ENOUGH = 300

#: Results that are defined up to something else than rounding: signs of eigenvectors, random numbers.
NOT_DEFINED = {
    "aten::_linalg_eigh", "aten::linalg_eig", "aten::normal.Tensor_Tensor", "aten::randint_like",
}  # fmt: skip

#: What differs from eager, with the reason. One that is right all of a sudden fails the test, too.
DIFFERS = {
    "aten::_to_copy c64": "a complex number has no int64; eager drops its imaginary part with a warning",
    "aten::_to_copy c128": "as c64",
    "aten::index_reduce u8": "eager's mean wraps around in uint8",
    "aten::polygamma i8": "at the poles, where eager gives a very large number",
    "aten::polygamma i16": "as i8",
    "aten::polygamma i32": "as i8",
    "aten::polygamma i64": "as i8",
    "aten::special_bessel_j0 f64": "the approximation has an error of 3e-7",
    "aten::special_bessel_j1 f64": "as j0",
    "aten::special_bessel_y0 f64": "as j0",
    "aten::special_bessel_y1 f64": "as j0",
}


def calls() -> dict[str, Call]:
    """Kernel -> one call of it, the first that the database comes down to."""
    found: dict[str, Call] = {}
    torch.manual_seed(0)
    for entry in op_db:
        for dtype in (torch.float32, torch.int64, torch.bool):
            if dtype not in entry.dtypes:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    sample = next(iter(entry.sample_inputs_func(entry, "cpu", dtype, requires_grad=False)))
                    made = record(
                        lambda e=entry, s=sample: e(s.input, *s.args, **s.kwargs), lambda n: n not in NOT_COMPARED
                    )
                except Exception:  # eager itself refuses the sample
                    continue
            for call in made:
                if supported(call) and any(isinstance(v, torch.Tensor) for v in call.args):
                    found.setdefault(call.op.schema.name, call)
            break
    return found


def cast(call: Call, dtype: torch.dtype) -> Call | None:
    """The call with its main tensor, and the others of that type, in another element type; None: eager refuses it."""
    main = next(v for v in tree_leaves(call.args) if isinstance(v, torch.Tensor)).dtype

    def one(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.dtype == main else tensor

    args, kwargs = tree_map_only(torch.Tensor, one, (call.args, call.kwargs))
    # What says of which type an argument was goes with it; eager computes nonsense where it does not.
    said = [argument.name == "input_dtype" for argument in call.op.schema.arguments]
    args = type(args)(dtype if said[i] and value == main else value for i, value in enumerate(args))
    namespace, name = call.op.schema.name.split("::")
    packet, _, overload = name.partition(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    try:
        with torch.no_grad():
            result = op(*tree_map_only(torch.Tensor, torch.clone, args), **kwargs)
    except (RuntimeError, NotImplementedError, IndexError):
        return None
    made = Call(call.op, args, kwargs, result)
    return made if supported(made) else None


def outcome(call: Call, exact: bool) -> str:
    """What is wrong with the kernel on this call; "" = nothing, or it refuses and may."""
    try:
        check(call)
    except KernelError as error:
        return str(error) if exact or error.code not in REFUSALS else ""
    except AssertionError as error:
        return "" if call.op.schema.name in NOT_DEFINED else str(error)[:300]
    return ""


def test_claimed_element_types_are_taken() -> None:
    every = calls()
    wrong = {}
    for name, call in sorted(every.items()):
        for short in call.op.dtypes:
            # Of the rounding of 16-bit types the sweep in test_samples.py is the judge, which knows more samples.
            made = cast(call, TYPES[short])
            reason = "" if made is None else outcome(made, exact=True)
            if reason and (short not in ("f16", "bf16") or "error 0x" in reason):
                wrong[f"{name} {short}"] = reason
    assert len(every) > ENOUGH, len(every)
    new = {key: reason for key, reason in wrong.items() if key not in DIFFERS}
    assert not new, "\n".join(f"{key}: {reason}" for key, reason in new.items())
    assert not set(DIFFERS) - set(wrong), "right now; take it out of DIFFERS"


def test_other_element_types_are_refused_or_right() -> None:
    wrong = []
    for name, call in sorted(calls().items()):
        for short in ("bool", "i64", "f16", "f32"):
            if short in call.op.dtypes or (made := cast(call, TYPES[short])) is None:
                continue
            if reason := outcome(made, exact=False):
                wrong.append(f"{name} {short}: {reason}")
    assert not wrong, "\n".join(wrong)
