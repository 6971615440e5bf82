"""The backends of a firmware project: which sources run the model's delegates.

A backend whose runtime half is fit for firmware says so in its CMakeLists.txt (``et_add_backend(… FIRMWARE id)``). A
module ``firmware`` in its folder may then name macros for what a model's payloads need, and its accelerators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from executorch_py.codegen.flatbuffer import DamagedError
from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import InvalidArgumentError

from .backend_folders import firmware_module, folders
from .kernels import PACKAGED
from .targets import Target

__all__ = ["Backend", "backend_sources", "backends_of", "require_accelerator"]


@dataclass(frozen=True)
class Backend:
    """A backend that the model has delegates for: its folder's name, and macros for its sources."""

    name: str
    definitions: tuple[str, ...] = ()

    @property
    def sources(self) -> list[str]:
        """Its files, below the root of sources."""
        folder = PACKAGED / "cpp" / "backends" / self.name / "runtime"
        return [f"backends/{self.name}/runtime/{path.name}" for path in sorted(folder.glob("*.cpp"))]


def require_accelerator(data: bytes, target: Target) -> None:
    """Parts that were compiled for an NPU name it in their compile spec "target".

    Raises:
        InvalidArgumentError: It is not the target's.
    """
    for one in delegates_of(data):
        wanted = one.compile_specs.get("target", b"").decode("utf-8", "replace")
        if wanted and wanted != target.accelerator:
            raise InvalidArgumentError(
                f"the model has a part for {wanted} ({one.backend_id}), and the target {target.name} has "
                f"{target.accelerator or 'no NPU'}: give --target {wanted}, or lower the model for that NPU"
            )


def backends_of(data: bytes) -> list[Backend]:
    """The backends of a program's delegates.

    Raises:
        InvalidArgumentError: One has no sources for firmware, or a payload is damaged.
    """
    known = folders()
    payloads: dict[str, list[bytes]] = {}
    for one in delegates_of(data):
        payloads.setdefault(one.backend_id, []).append(one.payload)
    if missing := sorted(set(payloads) - set(known)):
        raise InvalidArgumentError(
            f"the model calls delegates ({', '.join(missing)}), which firmware has not: "
            f"lower the model without a partitioner, or with that of {', '.join(sorted(known)) or 'none'}"
        )
    return [Backend(known[name], _definitions(known[name], found)) for name, found in sorted(payloads.items())]


def _definitions(name: str, payloads: Sequence[bytes]) -> tuple[str, ...]:
    definitions = getattr(firmware_module(name), "definitions", None)
    if definitions is None:
        return ()
    try:
        return tuple(definitions(payloads))
    except DamagedError as error:
        raise InvalidArgumentError(f"a payload of the delegate '{name}' is damaged: {error}") from None


def backend_sources(backends: Sequence[Backend]) -> dict[str, str]:
    """backends.h and backends.cpp: registers the backends of the model's delegates."""
    header = """// Written by `etpy firmware`: what runs the model's delegates.
#pragma once

#include "runtime/backend.h"

namespace firmware {

/// The backends; nullptr for a model without delegates. Errors: those of BackendRegistry::add.
et::Result<const et::runtime::BackendRegistry*> backends();

}  // namespace firmware
"""
    if not backends:
        body = "  return static_cast<const et::runtime::BackendRegistry*>(nullptr);\n"
    else:
        calls = [f"et::backends::{one.name}::register_runtime(registry)" for one in backends]
        body = "  static et::runtime::BackendRegistry registry;\n  if (registry.size() == 0) {\n"
        body += "".join(f"    ET_RETURN_IF_ERROR({call});\n" for call in calls)
        body += "  }\n  return static_cast<const et::runtime::BackendRegistry*>(&registry);\n"
    declared = "".join(
        f"namespace et::backends::{one.name} {{\nError register_runtime(runtime::BackendRegistry& registry);\n}}\n\n"
        for one in backends
    )
    source = f"""#include "backends.h"

{declared}namespace firmware {{

et::Result<const et::runtime::BackendRegistry*> backends() {{
{body}}}

}}  // namespace firmware
"""
    return {"backends.h": header, "backends.cpp": source}
