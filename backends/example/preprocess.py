"""What travels from the partitioner to the compiler half (compiler/payload_writer.cpp) and to the runtime half
(runtime/).

The compiling itself is C++ here: it gets the part from the IR after delegation. A backend that compiles in Python
instead has a class derived from ``executorch_py.exir.backend.backend_details.BackendDetails`` in this file, named like
BACKEND_ID.
"""

from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec

#: The name under which compiler/register.cpp and runtime/register.cpp register their halves.
BACKEND_ID = "ExampleBackend"


def delegation_spec(**options: str) -> DelegationSpec:
    """The spec of a part, with options as bytes; the example device has none of its own."""
    return DelegationSpec(BACKEND_ID, [CompileSpec(key, value.encode()) for key, value in sorted(options.items())])
