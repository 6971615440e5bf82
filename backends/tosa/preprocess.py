"""The backend's id and compile specs. Preprocess itself is C++ (compiler/)."""

from executorch_py.errors import InvalidArgumentError
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec

from .accelerators import FAMILIES

BACKEND_ID = "TOSABackend"
#: What is written: the profile of integers, with extensions: activations of 16 bits, weights of 4.
PROFILE, EXTENSIONS = "TOSA-1.0+INT", ("int16", "int4")
#: What an Ethos-U takes (Vela's report of supported operators).
ETHOS_U = "TOSA-1.0+INT+int16+int4"


def compile_specs(tosa_spec: str, accelerator: str | None = None) -> list[CompileSpec]:
    """What travels to the compiler half.

    Raises:
        InvalidArgumentError: A specification or an accelerator that is not known.
    """
    profile, *extensions = tosa_spec.replace(PROFILE, "INT", 1).split("+") if tosa_spec.startswith(PROFILE) else [""]
    if profile != "INT" or not set(extensions) <= set(EXTENSIONS):
        known = " and ".join(f"+{name}" for name in EXTENSIONS)
        raise InvalidArgumentError(f"tosa_spec is '{tosa_spec}', must be {PROFILE}, where {known} may follow")
    specs = [CompileSpec("tosa_spec", tosa_spec.encode())]
    if accelerator is not None:
        if not accelerator.startswith(tuple(FAMILIES)):
            raise InvalidArgumentError(f"accelerator is '{accelerator}', must begin with one of {', '.join(FAMILIES)}")
        specs.append(CompileSpec("accelerator", accelerator.encode()))
    return specs


def delegation_spec(specs: list[CompileSpec]) -> DelegationSpec:
    """The spec of all parts."""
    return DelegationSpec(BACKEND_ID, specs)
