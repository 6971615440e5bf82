"""The backend's id and compile specs. Preprocess itself is C++ (compiler/)."""

from executorch_py.errors import InvalidArgumentError
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec

from .accelerators import FAMILIES

BACKEND_ID = "TOSABackend"
#: What is written: the profile of integers.
SPECIFICATIONS = ("TOSA-1.0+INT",)


def compile_specs(tosa_spec: str, accelerator: str | None = None) -> list[CompileSpec]:
    """What travels to the compiler half.

    Raises:
        InvalidArgumentError: A specification or an accelerator that is not known.
    """
    if tosa_spec not in SPECIFICATIONS:
        raise InvalidArgumentError(f"tosa_spec is '{tosa_spec}', must be one of {', '.join(SPECIFICATIONS)}")
    specs = [CompileSpec("tosa_spec", tosa_spec.encode())]
    if accelerator is not None:
        if not accelerator.startswith(tuple(FAMILIES)):
            raise InvalidArgumentError(f"accelerator is '{accelerator}', must begin with one of {', '.join(FAMILIES)}")
        specs.append(CompileSpec("accelerator", accelerator.encode()))
    return specs


def delegation_spec(specs: list[CompileSpec]) -> DelegationSpec:
    """The spec of all parts."""
    return DelegationSpec(BACKEND_ID, specs)
