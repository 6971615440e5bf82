"""The structure of a method's inputs and outputs as text for the file (torch's pytree JSON)."""

from typing import Any

from executorch_py import pytree
from executorch_py.errors import InvalidTypeError, NotSupportedError


def structure_text(spec: Any, what: str) -> str:
    """JSON of ``spec``, a TreeSpec of torch; empty when it is ``None``.

    Raises:
        NotSupportedError: A container has no serialised name; says how to register one.
    """
    if spec is None:
        return ""
    try:
        return pytree.dumps(spec)
    except InvalidTypeError as error:
        raise NotSupportedError(f"{what} hold a container that cannot be written down: {error}") from error
