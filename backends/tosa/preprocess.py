"""The backend's id and compile specs. Preprocess itself is C++ (compiler/)."""

from executorch_py.errors import InvalidArgumentError
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec

from .accelerators import FAMILIES

BACKEND_ID = "TOSABackend"
#: What is written: each profile with its extensions. Integers have activations of 16 bits and weights of 4; floats have
#: 32 bits or 16, with bf16 both forms of these.
PROFILES = {"TOSA-1.0+INT": ("int16", "int4"), "TOSA-1.0+FP": ("bf16",)}
#: What an Ethos-U takes (Vela's report of supported operators).
ETHOS_U = "TOSA-1.0+INT+int16+int4"


def compile_specs(tosa_spec: str, accelerator: str | None = None) -> list[CompileSpec]:
    """What travels to the compiler half.

    Raises:
        InvalidArgumentError: A specification or an accelerator that is not known.
    """
    version, _, rest = tosa_spec.partition("+")
    profile, *extensions = rest.split("+")
    known = PROFILES.get(f"{version}+{profile}")
    if known is None or not set(extensions) <= set(known):
        texts = [f"{name}, where {' and '.join(f'+{e}' for e in more)} may follow" for name, more in PROFILES.items()]
        raise InvalidArgumentError(f"tosa_spec is '{tosa_spec}', must be {', or '.join(texts)}")
    if profile == "FP" and accelerator is not None:
        raise InvalidArgumentError(f"{accelerator} takes integers only: quantize, and name the profile TOSA-1.0+INT")
    specs = [CompileSpec("tosa_spec", tosa_spec.encode())]
    if accelerator is not None:
        if not accelerator.startswith(tuple(FAMILIES)):
            raise InvalidArgumentError(f"accelerator is '{accelerator}', must begin with one of {', '.join(FAMILIES)}")
        specs.append(CompileSpec("accelerator", accelerator.encode()))
    return specs


def delegation_spec(specs: list[CompileSpec]) -> DelegationSpec:
    """The spec of all parts."""
    return DelegationSpec(BACKEND_ID, specs)
