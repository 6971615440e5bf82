"""DelegateMappingBuilder: which nodes a payload's own ids stand for, under its published name."""

from __future__ import annotations

from torch import fx

from executorch_py.errors import InvalidArgumentError

__all__ = ["DelegateMappingBuilder"]


class DelegateMappingBuilder:
    """Collects, while a backend compiles, id -> debug handles, for ``PreprocessResult.debug_handle_map``.

    Args:
        generated_identifiers: Ids are 0, 1, … in the order of the calls; False: each call gives one.
    """

    def __init__(self, generated_identifiers: bool = False) -> None:
        self._generated = generated_identifiers
        self._handles: dict[int | str, tuple[int, ...]] = {}

    def insert_delegate_mapping_entry(
        self,
        nodes: fx.Node | list[fx.Node] | None = None,
        handles: int | list[int | None] | None = None,
        identifier: int | str | None = None,
    ) -> int | str:
        """Adds an entry and returns its id.

        Args:
            nodes: Nodes with debug handles, or
            handles: the handles themselves. Those that are missing are left out.
            identifier: The backend's id, unless ids are generated.

        Raises:
            InvalidArgumentError: Both or none of nodes and handles are given; an id is given, missing or taken.
        """
        if (nodes is None) == (handles is None):
            raise InvalidArgumentError("give nodes or handles of a delegate mapping entry, exactly one of the two")
        if self._generated == (identifier is not None):
            wanted = "must not be given, ids are generated" if self._generated else "is missing"
            raise InvalidArgumentError(f"the identifier of a delegate mapping entry {wanted}")
        key = len(self._handles) if identifier is None else identifier
        if key in self._handles:
            raise InvalidArgumentError(f"the delegate mapping has an entry {key!r} already")
        given = nodes if nodes is not None else handles
        several = given if isinstance(given, (list, tuple)) else [given]
        found = [one.meta.get("debug_handle") if isinstance(one, fx.Node) else one for one in several]
        flat = [part for one in found for part in (one if isinstance(one, (list, tuple)) else [one])]
        self._handles[key] = tuple(sorted({one for one in flat if one is not None}))
        return key

    def get_delegate_mapping(self) -> dict[int | str, tuple[int, ...]]:
        """Id -> debug handles, sorted."""
        return dict(self._handles)
