"""Reading a program: a node with its place in the user's source, and the compiled program as text."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from torch import fx

from executorch_py.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["add_cursor_to_graph", "inspect_node", "pretty_print", "print_program"]


def add_cursor_to_graph(graph: fx.Graph, finding_node: fx.Node) -> str:
    """The graph as text, with an arrow at a node.

    Raises:
        InvalidArgumentError: The node is not in the graph.
    """
    if finding_node not in list(graph.nodes):
        raise InvalidArgumentError(f"the node '{finding_node.name}' is not in this graph")
    marks = (f"%{finding_node.name} ", "return") if finding_node.op != "output" else ("return",)
    lines = str(graph).splitlines()
    for index, line in enumerate(lines):
        if line.strip().startswith(marks[0]):
            lines[index] = f"--> {line.strip()}"
    return "\n".join(lines)


def inspect_node(graph: fx.Graph, node: fx.Node) -> str:
    """A node in its graph, and what is known of where it comes from: for error messages and for a look at a pass."""
    text = f"{node.name} in the graph module:\n{add_cursor_to_graph(graph, node)}\n"
    stack = node.meta.get("stack_trace") or "not known\n"
    modules = [
        f"{path} ({kind if isinstance(kind, str) else kind.__qualname__})" for path, kind in _modules(node) if path
    ]
    return f"{text}The node's stacktrace:\n{stack}The modules around it: {', '.join(modules) or 'not known'}\n"


def _modules(node: fx.Node) -> list[tuple[str, Any]]:
    return list((node.meta.get("nn_module_stack") or {}).values())


def print_program(
    program: Any, show_meminfo: bool = True, mark_dynamic_shape_tensor: bool = False, out: TextIO | None = None
) -> None:
    """Writes a compiled program as the text of its IR, with sizes and places.

    Args:
        program: What ``to_executorch`` returned.
        show_meminfo: With the bytes of each method's arenas.
        mark_dynamic_shape_tensor: Accepted; the text names dynamic sizes and their bounds in any case.
        out: Where to; standard output.

    Raises:
        InvalidTypeError: It is no compiled program.
    """
    if not hasattr(program, "dump") or not hasattr(program, "memory_report"):
        raise InvalidTypeError(f"print_program takes what to_executorch returned, not a {type(program).__name__}")
    stream = out or sys.stdout
    stream.write(program.dump())
    if show_meminfo:
        for report in program.memory_report:
            stream.write(f"// memory: {report}\n")


def pretty_print(obj: Any, indent: int = 0, out: TextIO | None = None) -> None:
    """Writes dataclasses, lists and dicts over several lines."""
    import pprint

    text = pprint.pformat(obj, width=120)
    (out or sys.stdout).write("".join(" " * indent + line + "\n" for line in text.splitlines()))
