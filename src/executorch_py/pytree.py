"""Nested inputs and outputs: the structure that a ``.pte`` stores, flattened and rebuilt without torch.

A program's method takes and gives flat lists of values; the file keeps the structure of the model's own arguments and
results as the JSON of torch's pytree, ``[1, {"type": "builtins.tuple", "context": "null", "children_spec": [...]}]``.
This module reads that (:func:`loads`), checks and flattens a caller's arguments against it (:meth:`TreeSpec.flatten`)
and builds the result (:meth:`TreeSpec.unflatten`).

As in torch's pytree, ``None`` is a leaf and a dict's keys keep their order. Where the file's order and the caller's
differ, keys are matched by name.

Classes are never imported because a file names them. A named tuple or registered class is rebuilt as itself when its
module is loaded already; otherwise a named tuple becomes an equal one made here, and another class a dict of its
fields.

Example:
    >>> spec = loads(dumps(TreeSpec("builtins.dict", ("a",), (LEAF,))))
    >>> spec.flatten({"a": 5})
    [5]
    >>> spec.unflatten([6])
    {'a': 6}
"""

from __future__ import annotations

import collections
import collections.abc
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from executorch_py.errors import InvalidArgumentError, InvalidProgramError, InvalidTypeError

__all__ = ["LEAF", "TreeSpec", "dumps", "loads"]

_PROTOCOL = 1
# Deeper than any model's arguments, shallower than Python's recursion limit: a hostile file must not overflow the
# stack.
_MAX_DEPTH = 64

_SEQUENCES: dict[str, type] = {
    "builtins.tuple": tuple,
    "builtins.list": list,
    "collections.deque": collections.deque,
}
_MAPPINGS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
_NAMED_TUPLE = "collections.namedtuple"


@dataclass(frozen=True)
class TreeSpec:
    """The structure of nested values.

    Attributes:
        type: Serialised name of the container, such as ``builtins.tuple``; ``None`` for a leaf.
        keys: Names of the children of a dict, named tuple or registered class; ``None`` for sequences and leaves.
        children: Structures of the children.
        name: Qualified name of a named tuple's class.
        context: Of a registered class: what torch wrote beside its children, as JSON.
        num_leaves: How many leaves there are.
    """

    type: str | None = None
    keys: tuple[Any, ...] | None = None
    children: tuple[TreeSpec, ...] = ()
    name: str | None = None
    context: str | None = None
    num_leaves: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        leaves = 1 if self.type is None else sum(child.num_leaves for child in self.children)
        object.__setattr__(self, "num_leaves", leaves)

    @property
    def is_leaf(self) -> bool:
        return self.type is None

    def flatten(self, tree: Any, where: str = "input") -> list[Any]:
        """The leaves of ``tree``, in the file's order.

        Args:
            tree: Nested values of this structure.
            where: How messages name the root.

        Raises:
            InvalidTypeError: A container is of another kind than the file's.
            InvalidArgumentError: A container has another length or other keys.
        """
        leaves: list[Any] = []
        self._flatten(tree, where, leaves)
        return leaves

    def _flatten(self, tree: Any, where: str, leaves: list[Any]) -> None:
        if self.type is None:
            leaves.append(tree)
            return
        if self.keys is None:
            values = self._items_of_sequence(tree, where)
            places: Any = range(len(self.children))
        else:
            values = self._items_of_mapping(tree, where)
            places = self.keys
        for child, value, place in zip(self.children, values, places, strict=True):
            if child.type is None:  # most are leaves; the name of the place is made only where it may be needed
                leaves.append(value)
            else:
                child._flatten(value, f"{where}[{place!r}]", leaves)

    def _items_of_sequence(self, tree: Any, where: str) -> Sequence[Any]:
        # Lists and tuples are taken for each other: which one a caller has at hand says nothing about the model.
        if self.type not in _SEQUENCES and (children := _torch_children(tree)) is not None:
            tree = children
        if not isinstance(tree, (tuple, list, collections.deque)):
            raise InvalidTypeError(f"{where} is a {_name_of(tree)}, the method takes a {self.describe()}")
        if len(tree) != len(self.children):
            raise InvalidArgumentError(f"{where} has {len(tree)} items, the method takes {len(self.children)}")
        return tree

    def _items_of_mapping(self, tree: Any, where: str) -> list[Any]:
        assert self.keys is not None
        if self.type == _NAMED_TUPLE and isinstance(tree, tuple):
            return list(self._items_of_sequence(tree, where))
        if isinstance(tree, collections.abc.Mapping):
            missing = [key for key in self.keys if key not in tree]
            extra = [key for key in tree if key not in self.keys]
            if missing or extra:
                sides = [f"misses {missing}"] if missing else []
                if extra:
                    sides.append(f"has {extra} which the method does not take")
                raise InvalidArgumentError(f"{where} {' and '.join(sides)}; its keys are {list(self.keys)}")
            return [tree[key] for key in self.keys]
        if self.type not in _MAPPINGS and all(isinstance(key, str) and hasattr(tree, key) for key in self.keys):
            given = [key for key in _absent_fields(self.context) if getattr(tree, key, None) is not None]
            if given:
                raise InvalidArgumentError(
                    f"{where} has {given}, None when the model was exported; it must be None again"
                )
            return [getattr(tree, key) for key in self.keys]
        raise InvalidTypeError(f"{where} is a {_name_of(tree)}, the method takes a {self.describe()}")

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The nested values of this structure that hold ``leaves``.

        Raises:
            InvalidArgumentError: The number of leaves differs.
        """
        if len(leaves) != self.num_leaves:
            raise InvalidArgumentError(f"there are {len(leaves)} values for a structure of {self.num_leaves} leaves")
        return self._unflatten(iter(leaves))

    def _unflatten(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        values = [child._unflatten(leaves) for child in self.children]
        return self._builder()(values)

    def _builder(self) -> Callable[[list[Any]], Any]:
        """What makes the container from its children."""
        assert self.type is not None
        if self.type in _SEQUENCES:
            return _SEQUENCES[self.type]
        if self.keys is None:
            return _torch_unflatten(self.type, self.context) or tuple
        keys = self.keys
        if self.type == "collections.OrderedDict":
            return lambda values: collections.OrderedDict(zip(keys, values, strict=True))
        if self.type in _MAPPINGS:
            return lambda values: dict(zip(keys, values, strict=True))
        if self.type == _NAMED_TUPLE:
            return _named_tuple(self.name or "Output", keys)._make  # type: ignore[attr-defined, no-any-return]
        return _torch_unflatten(self.type, self.context) or (lambda values: dict(zip(keys, values, strict=True)))

    def describe(self) -> str:
        """The structure in the notation of Python: ``({'a': *}, [*, *])``."""
        if self.type is None:
            return "*"
        inner = [child.describe() for child in self.children]
        if self.keys is not None:
            if self.type in _MAPPINGS:
                return "{" + ", ".join(f"{key!r}: {item}" for key, item in zip(self.keys, inner, strict=True)) + "}"
            name = (self.name or self.type).rpartition(".")[2]
            return f"{name}(" + ", ".join(f"{key}={item}" for key, item in zip(self.keys, inner, strict=True)) + ")"
        if self.type == "builtins.tuple":
            return "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
        return "[" + ", ".join(inner) + "]"


LEAF = TreeSpec()


def loads(text: str) -> TreeSpec:
    """Reads the JSON of a pytree.

    Raises:
        InvalidProgramError: The text is no pytree, nests too deep or uses a container that is not known.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidProgramError(f"the structure of inputs or outputs is not JSON: {error}") from None
    if not isinstance(document, list) or len(document) != 2 or document[0] != _PROTOCOL:
        raise InvalidProgramError(f"the structure of inputs or outputs is of no known protocol: {text[:80]}")
    try:
        return _read(document[1], 0)
    except RecursionError:  # a context, which is JSON in JSON, that nests without end
        raise InvalidProgramError("the structure of inputs or outputs nests too deep") from None


def _read(node: Any, depth: int) -> TreeSpec:
    if depth > _MAX_DEPTH:
        raise InvalidProgramError(f"the structure of inputs or outputs nests deeper than {_MAX_DEPTH}")
    if not isinstance(node, dict) or not isinstance(node.get("children_spec"), list):
        raise InvalidProgramError("a node of the structure of inputs or outputs has no children_spec")
    kind = node.get("type")
    children = tuple(_read(child, depth + 1) for child in node["children_spec"])
    if kind is None:
        if children:
            raise InvalidProgramError("a leaf of the structure of inputs or outputs has children")
        return LEAF
    if not isinstance(kind, str):
        raise InvalidProgramError(f"a node of the structure of inputs or outputs has the type {kind!r}, not a name")
    context = text = node.get("context")
    if isinstance(context, str):
        try:
            context = json.loads(context)
        except ValueError:
            context = None
    name = None
    keys = context
    if kind == "collections.defaultdict" and isinstance(context, dict):
        keys = context.get("dict_context")
    elif kind == _NAMED_TUPLE and isinstance(context, dict):
        name, keys = str(context.get("name")), context.get("fields")
    if kind not in _SEQUENCES and kind not in _MAPPINGS and kind != _NAMED_TUPLE:
        return TreeSpec(
            kind, _field_names(context, len(children)), children, None, text if isinstance(text, str) else None
        )
    if kind not in _SEQUENCES:
        keys = [_key(key) for key in keys] if isinstance(keys, list) else keys
        if not isinstance(keys, list) or len(keys) != len(children) or not all(_is_key(key) for key in keys):
            sides = f"{len(children)} children, keys {keys}"
            raise InvalidProgramError(f"a {kind} of the structure of inputs or outputs has {sides}")
        if kind == _NAMED_TUPLE and not all(isinstance(key, str) and key.isidentifier() for key in keys):
            raise InvalidProgramError(f"a named tuple of the structure of inputs or outputs has the fields {keys}")
        return TreeSpec(kind, tuple(keys), children, name)
    return TreeSpec(kind, None, children)


def _field_names(context: Any, count: int) -> tuple[Any, ...] | None:
    """Names of a registered class's children, where its context holds them.

    That is a list of names, or what torch writes for a dataclass: the names of the fields that have a value, then of
    those that are None.
    """
    if _is_dataclass_context(context):
        context = context[0]
    if isinstance(context, list) and len(context) == count and all(isinstance(name, str) for name in context):
        return tuple(context)
    return None


def _is_dataclass_context(context: Any) -> bool:
    return isinstance(context, list) and len(context) == 2 and all(isinstance(names, list) for names in context)


def _absent_fields(context: str | None) -> list[str]:
    """Fields of a dataclass that were None at export, and are no children for that reason."""
    value: Any = json.loads(context) if context is not None and context.startswith("[[") else None
    return [name for name in value[1] if isinstance(name, str)] if _is_dataclass_context(value) else []


def _name_of(value: Any) -> str:
    return type(value).__name__


def _key(value: Any) -> Any:
    """A key as JSON has it: its lists are tuples, because no list can be a key."""
    return tuple(map(_key, value)) if isinstance(value, list) else value


def _is_key(key: Any) -> bool:
    return all(map(_is_key, key)) if isinstance(key, tuple) else isinstance(key, (str, int, float, bool))


def dumps(spec: Any) -> str:
    """The JSON of a torch ``TreeSpec`` (what the compiler stores) or of a :class:`TreeSpec`.

    Named tuples, for which torch wants a registration first, are written with their class's name and fields.

    Raises:
        InvalidTypeError: A container of the model has no serialised name, or could not be read again.
    """
    node = _write(spec) if isinstance(spec, TreeSpec) else _write_torch(spec)
    try:
        _read(node, 0)
    except InvalidProgramError as error:  # a key that is an enum or None, a hundred levels
        raise InvalidTypeError(f"{error}; keys can be strings, numbers, and tuples of these") from None
    return json.dumps([_PROTOCOL, node])


def _write(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    context: Any = "null" if spec.keys is None else json.dumps(list(spec.keys))
    if spec.context is not None:
        context = spec.context
    if spec.type == "collections.defaultdict":
        context = {"dict_context": list(spec.keys or ())}
    elif spec.type == _NAMED_TUPLE:
        context = json.dumps({"name": spec.name, "fields": list(spec.keys or ())})
    return {"type": spec.type, "context": context, "children_spec": [_write(child) for child in spec.children]}


def _write_torch(spec: Any) -> dict[str, Any]:
    from torch.utils import _pytree

    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    children = [_write_torch(child) for child in spec.children()]
    if spec.type.__module__ == "torch.return_types":
        # What max, sort, topk, ... return has no serialised name, and a program is to run where torch is not installed.
        return {"type": "builtins.tuple", "context": "null", "children_spec": children}
    if spec.type is collections.namedtuple:  # torch uses the factory as the marker
        cls = spec.context
        context: Any = json.dumps({"name": f"{cls.__module__}.{cls.__qualname__}", "fields": list(cls._fields)})
        return {"type": _NAMED_TUPLE, "context": context, "children_spec": children}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the protocol's future, which is the format's present
            text = _pytree.treespec_dumps(_without_children(spec))
    except Exception as error:
        name = f"{spec.type.__module__}.{spec.type.__qualname__}"
        raise InvalidTypeError(
            f"{name} among the inputs or outputs cannot be written to a file: {error} "
            "Return a tuple, list, dict or named tuple, or give the class a serialized_type_name "
            "(torch.utils._pytree.register_pytree_node)"
        ) from error
    node = json.loads(text)[1]
    return {"type": node["type"], "context": node["context"], "children_spec": children}


def _without_children(spec: Any) -> Any:
    """``spec`` with leaves for children, so that torch writes only the node's own name and context."""
    from torch.utils import _pytree

    leaf = _pytree.tree_structure(0)
    return _pytree.TreeSpec(spec.type, spec.context, [leaf] * len(spec.children()))


def _loaded_class(qualified_name: str) -> Any:
    """The class of that name when its module is loaded, else ``None``. Nothing is imported."""
    module, _, name = qualified_name.rpartition(".")
    while module and module not in sys.modules:  # nested classes: a.b.Outer.Inner
        module, _, outer = module.rpartition(".")
        name = f"{outer}.{name}"
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _named_tuple(qualified_name: str, fields: tuple[str, ...]) -> type:
    cls = _loaded_class(qualified_name)
    if isinstance(cls, type) and issubclass(cls, tuple) and getattr(cls, "_fields", None) == fields:
        return cls
    name = qualified_name.rpartition(".")[2]
    name = name if name.isidentifier() else "Output"
    made: type = collections.namedtuple(name, fields, rename=True)  # type: ignore[misc]
    return made


def _torch_node(kind: Any) -> tuple[Any, Any]:
    """Torch's description of a registered class, by its serialised name or the class itself, and of its serialised
    form; twice None when torch is not loaded or does not know it.
    """
    pytree = sys.modules.get("torch.utils._pytree")
    if pytree is None:
        return None, None
    cls = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(kind) if isinstance(kind, str) else kind
    return pytree.SUPPORTED_NODES.get(cls), pytree.SUPPORTED_SERIALIZED_TYPES.get(cls)


def _torch_unflatten(kind: str, context: str | None) -> Callable[[list[Any]], Any] | None:
    """What builds a registered class from its children: torch's own function, when torch is loaded."""
    node, serialized = _torch_node(kind)
    if node is None or context is None:
        return None
    read = getattr(serialized, "from_dumpable_context", None) or json.loads
    unflatten, value = node.unflatten_fn, read(context)
    return lambda values: unflatten(values, value)


def _torch_children(tree: Any) -> list[Any] | None:
    """The children of an object of a registered class; None when it is of none."""
    node, _ = _torch_node(type(tree))
    return None if node is None else list(node.flatten_fn(tree)[0])
