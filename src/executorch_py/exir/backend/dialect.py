"""A backend's dialect: operators of its own, and passes that bring them in after Edge, without delegation.

A backend whose library has one good kernel for a pattern (convolution and its activation, say) needs no delegate for
it. It declares an operator with ``torch.library`` and gives it a kernel: ``KERNELS`` and ``OPS`` of et_add_backend, or
a kernel library. A pass rewrites the pattern. ``backends/example`` does all of it.

    >>> register_backend_dialect(
    ...     BackendDialect("MyBackend", "mybackend", frozenset({"mybackend::conv_relu"}))
    ... )  # doctest: +SKIP
    >>> edge = to_edge(exported).transform([FuseConvRelu()])  # doctest: +SKIP
    >>> verify_dialect(edge.exported_program(), "backend:MyBackend")  # doctest: +SKIP
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import fx

from executorch_py.errors import InvalidArgumentError, RegistrationError


@dataclass(frozen=True)
class BackendDialect:
    """What a backend adds to Edge.

    Attributes:
        backend_id: As in its partitioner and in programs.
        namespace: Namespace of its operators.
        operators: Their names, with overload: "mybackend::conv_relu".
        check: The backend's own rule: a node -> what is wrong with it, or "".
    """

    backend_id: str
    namespace: str
    operators: frozenset[str]
    check: Callable[[fx.Node], str] | None = field(default=None, compare=False)


_dialects: dict[str, BackendDialect] = {}


def register_backend_dialect(dialect: BackendDialect) -> None:
    """Makes a backend's operators known. The same dialect may be registered again.

    Raises:
        RegistrationError: The backend has registered other operators, or an operator belongs to another backend.
    """
    known = _dialects.get(dialect.backend_id)
    if known is not None and known != dialect:
        raise RegistrationError(f"{dialect.backend_id} has registered its dialect already, with other operators")
    for name in sorted(dialect.operators):
        if (owner := owner_of(name)) not in (None, dialect.backend_id):
            raise RegistrationError(f"the operator {name} belongs to the backend {owner}")
        if not name.startswith(f"{dialect.namespace}::"):
            raise RegistrationError(f"the operator {name} is not in the namespace {dialect.namespace}")
    _dialects[dialect.backend_id] = dialect


def backend_dialect(backend_id: str) -> BackendDialect:
    """The dialect of a backend.

    Raises:
        InvalidArgumentError: It registered none.
    """
    if backend_id not in _dialects:
        names = ", ".join(sorted(_dialects)) or "none"
        raise InvalidArgumentError(
            f"no backend '{backend_id}' has registered a dialect (registered: {names}); import its package first"
        )
    return _dialects[backend_id]


def owner_of(operator: str) -> str | None:
    """The backend that registered an operator; None: none did."""
    return next((d.backend_id for d in _dialects.values() if operator in d.operators), None)
