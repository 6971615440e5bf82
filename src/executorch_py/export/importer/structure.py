"""The structure of a method's inputs and outputs as text: torch's pytree JSON for the file, and words for people."""

from typing import Any

from torch.export import ExportedProgram

from executorch_py import pytree
from executorch_py._shown import value_text
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


def signature_text(program: ExportedProgram) -> tuple[str, str]:
    """The user's inputs and outputs in words: "x: float32[2, 8]"."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs, outputs = program.graph_signature.user_inputs, program.graph_signature.user_outputs

    def told(names: Any) -> str:
        return ", ".join(value_text(one, values.get(one)) if isinstance(one, str) else repr(one) for one in names)

    return told(inputs), told(outputs)
