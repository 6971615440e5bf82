"""BackendDetails: compiles a part of a graph into a payload. The Python way in; see backends/README.md for C++.

    class MyBackend(BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            return PreprocessResult(processed_bytes=compile_to_bytes(edge_program))

The class's name is the backend id, unless it has an attribute ``backend_id``. A class is known from its definition on.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.export import ExportedProgram

from executorch_py.errors import NotFoundError, PartitionError
from executorch_py.graphs.rewriting import copied

from .compile_spec_schema import CompileSpec


@dataclass
class PreprocessResult:
    """What ``preprocess`` returns.

    Attributes:
        processed_bytes: The payload that the backend's runtime gets.
        debug_handle_map: The backend's own ids -> debug handles of the nodes they stand for.
        data_store_output: Data that payloads share: key -> bytes, or a NamedDataStoreOutput.
        _delegate_info_meta: Accepted; what a backend's developer tools want to know.
    """

    processed_bytes: bytes = b""
    debug_handle_map: dict[int, Any] | None = None
    data_store_output: Any = None
    _delegate_info_meta: Any = None


class BackendDetails(ABC):
    """Base class of backends whose preprocess is written in Python."""

    _registry: ClassVar[dict[str, type["BackendDetails"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        BackendDetails._registry[getattr(cls, "backend_id", None) or cls.__name__] = cls

    @staticmethod
    @abstractmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compiles ``edge_program``, which is the backend's own to change."""

    @staticmethod
    def copy_exported_program_for_preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The program that ``preprocess`` gets: graphs of its own, and weights that it must not change."""
        return copied(edge_program)

    @classmethod
    def preprocess_multimethod(
        cls, edge_programs: dict[str, list[ExportedProgram]], compile_specs: dict[str, list[list[CompileSpec]]]
    ) -> dict[str, list[PreprocessResult]]:
        """Compiles the parts of all methods together, for backends that share work between them."""
        return {
            method: [cls.preprocess(part, specs) for part, specs in zip(parts, compile_specs[method], strict=True)]
            for method, parts in edge_programs.items()
        }


def find_python_backend(backend_id: str) -> type[BackendDetails] | None:
    """The class that compiles for ``backend_id``; None when no Python class does."""
    return BackendDetails._registry.get(backend_id)


def require_python_backend(backend_id: str) -> type[BackendDetails]:
    """The class that compiles for ``backend_id``.

    Raises:
        NotFoundError: There is none; names those that are known.
    """
    backend = find_python_backend(backend_id)
    if backend is None:
        known = ", ".join(sorted(BackendDetails._registry)) or "none"
        raise NotFoundError(
            f"no backend '{backend_id}' compiles in Python (known: {known}); import the module that defines it"
        )
    return backend


def named_data_of(result: PreprocessResult) -> dict[str, bytes]:
    """The shared data of a result, as key -> bytes."""
    store = result.data_store_output
    if store is None:
        return {}
    if isinstance(store, dict):
        for key, data in store.items():
            if not isinstance(key, str) or not isinstance(data, (bytes, bytearray, memoryview)):
                raise PartitionError(
                    f"preprocess gave {key!r:.60}: {data!r:.60} as shared data, must be a string: bytes"
                )
        return {key: bytes(data) for key, data in store.items()}
    named = getattr(store, "pte_data", None) or getattr(store, "pub_data", None)
    if not hasattr(store, "buffers"):
        raise PartitionError(
            f"preprocess gave {store!r:.60} as data_store_output, must be a dict of key -> bytes or a "
            "NamedDataStoreOutput"
        )
    if getattr(store, "external_data", None):
        raise PartitionError(
            f"preprocess wants data in the files {', '.join(sorted(store.external_data))}; data of delegates goes into "
            "the program: leave external_tag out, and use ExecutorchBackendConfig(external_constants=...)"
        )
    return {key: bytes(store.buffers[entry.buffer_index]) for key, entry in (named or {}).items()}
