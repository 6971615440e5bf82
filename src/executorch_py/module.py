"""``load``: a program as a callable with the model's own arguments and results.

Example:
    >>> module = load("model.pte")  # doctest: +SKIP
    >>> y = module(x, mask=mask)  # doctest: +SKIP
    >>> module.get_max_length()  # a constant method  # doctest: +SKIP
    2048
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from executorch_py import pytree
from executorch_py._shown import Card, Shown
from executorch_py.errors import InvalidArgumentError, NotFoundError
from executorch_py.runtime import Method, MethodMetadata, Program, Runtime, Session

__all__ = ["Module", "load"]


class BoundMethod:
    """A method of a :class:`Module`: called with the model's arguments, gives the model's result."""

    __slots__ = ("_args", "_execute", "_kwargs", "_num_positional", "_result", "method")

    def __init__(self, method: Method) -> None:
        self.method = method
        self._execute = method._execute
        metadata = method.metadata
        self._args, self._kwargs = _argument_structure(metadata)
        # The common case, told once: positional tensors and nothing nested.
        flat = self._kwargs is None and all(child.is_leaf for child in self._args.children)
        self._num_positional = self._args.num_leaves if flat else -1
        self._result = _result_builder(metadata)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the method.

        Raises:
            InvalidArgumentError: The arguments have another structure than the model's; names the place.
            Others: As :meth:`Method.execute`.
        """
        if not kwargs and len(args) == self._num_positional:
            return self._result(self._execute(args))
        return self._result(self._execute(self._flatten(args, kwargs)))

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = () if self._kwargs is None else (self._kwargs.keys or ())
        if len(args) != len(self._args.children) or set(kwargs) != set(names):
            takes = f"{len(self._args.children)} positional arguments"
            takes += f" and the keywords {', '.join(map(str, names))}" if names else " and no keywords"
            given = f"{len(args)} and {', '.join(kwargs)}" if kwargs else f"{len(args)}"
            raise InvalidArgumentError(
                f"method '{self.method.metadata.name()}' takes {takes}, as at export; got {given}"
            )
        leaves = self._args.flatten(args, "args")
        if self._kwargs is not None:
            leaves += self._kwargs.flatten(kwargs, "kwargs")
        return leaves

    def __repr__(self) -> str:
        arguments = self._args.describe()
        if self._kwargs is not None:
            arguments += f", **{self._kwargs.describe()}"
        return f"{self.method.metadata.name()}(*{arguments})"


def _argument_structure(metadata: MethodMetadata) -> tuple[pytree.TreeSpec, pytree.TreeSpec | None]:
    """Structures of the positional and of the keyword arguments (``None``: there are none)."""
    count = metadata.num_inputs()
    text = metadata.input_structure()
    if text:
        spec = pytree.loads(text)
        if spec.num_leaves == count:
            if len(spec.children) == 2 and spec.type == "builtins.tuple" and spec.children[1].type == "builtins.dict":
                args, kwargs = spec.children
                return args, (kwargs if kwargs.num_leaves or kwargs.children else None)
            return spec, None
    return pytree.TreeSpec("builtins.tuple", None, (pytree.LEAF,) * count), None


def _result_builder(metadata: MethodMetadata) -> Callable[[list[Any]], Any]:
    """What makes the model's result from the list of outputs."""
    count = metadata.num_outputs()
    text = metadata.output_structure()
    spec = pytree.loads(text) if text else None
    if spec is None or spec.num_leaves != count:
        return _only if count == 1 else tuple
    if spec.is_leaf:
        return _only
    if spec.type == "builtins.tuple" and all(child.is_leaf for child in spec.children):
        return tuple
    return spec.unflatten


def _only(outputs: list[Any]) -> Any:
    return outputs[0]


class Module(Shown):
    """A program as a callable: ``module(*args, **kwargs)`` runs ``forward``, other methods are attributes.

    Methods are loaded when they are first used and share one session's state.
    """

    def __init__(self, program: Program, session: Session | None = None) -> None:
        self.program = program
        self._session = session
        self._methods: dict[str, BoundMethod] = {}
        self._forward: BoundMethod | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs ``forward``."""
        forward = self._forward
        if forward is None:
            forward = self._forward = self.method("forward")
        return forward(*args, **kwargs)

    def method(self, name: str) -> BoundMethod:
        """The method of that name, loading it when it is first used.

        Raises:
            NotFoundError: There is no such method.
        """
        found = self._methods.get(name)
        if found is None:
            found = self._methods[name] = BoundMethod(self.program.load_method(name, session=self._session))
        return found

    def __getattr__(self, name: str) -> BoundMethod:
        if name.startswith("__") or "program" not in self.__dict__:  # a copy in the making has no fields yet
            raise AttributeError(name)
        try:
            return self.method(name)
        except NotFoundError as error:
            if name in self.program.method_names:  # the method is there; something that it needs is not
                raise
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.program.method_names})

    @property
    def method_names(self) -> set[str]:
        """Names of the program's methods."""
        return self.program.method_names

    def new_session(self) -> Module:
        """The same program with state of its own, at initial values."""
        return Module(self.program, self.program.new_session())

    def reset_state(self) -> None:
        """Puts the mutable buffers back to their initial values."""
        if self._session is not None:
            self._session.reset_state()
        else:
            for bound in self._methods.values():
                bound.method.reset_state()
                break  # all of them share the program's default session

    def _card(self) -> Card:
        card = self.program._card()
        card.title = f"Module({', '.join(sorted(self.method_names))})"
        return card


def load(
    data: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    data_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    mmap: bool = True,
    pack_cache: str | os.PathLike[str] | bool = False,
) -> Module:
    """Loads a program as a callable with the model's own arguments and results.

    Args:
        data: Path of a ``.pte`` file, its bytes, or a file that is open for reading.
        data_path: ``.ptd`` file or files with external weights.
        mmap: Map the file instead of reading it; see :meth:`Runtime.load_program`.
        pack_cache: Where packed weights are kept for later processes; see :meth:`Runtime.load_program`.

    Raises:
        Others: As :meth:`Runtime.load_program`.
    """
    return Module(Runtime.get().load_program(data, data_path=data_path, mmap=mmap, pack_cache=pack_cache))
