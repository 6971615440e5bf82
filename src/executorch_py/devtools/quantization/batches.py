"""Data of a user's as calls of a model: any iterable, one batch in memory at a time.

Example:
    >>> list(calls([(1, 2), {"x": 3}]))
    [((1, 2), {}), ((), {'x': 3})]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from executorch_py.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["calls"]


def calls(
    data: Iterable[Any], transform: Callable[[Any], Any] | None = None, limit: int | None = None
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Positional and keyword arguments of each item.

    Args:
        data: Iterable of tuples or lists of positional arguments, dicts of keyword arguments, or single tensors; a
            DataLoader is one.
        transform: Called with each item first; gives one of the above (drops the labels of a data set, say).
        limit: How many items at most.

    Raises:
        InvalidTypeError: ``data`` cannot be iterated, or is a tensor.
        InvalidArgumentError: There is no item.
    """
    if hasattr(data, "detach") or isinstance(data, (str, bytes, Mapping)):
        raise InvalidTypeError(
            f"data is an iterable of inputs (a list of tuples, a DataLoader), not one {type(data).__name__}"
        )
    try:
        items = iter(data)
    except TypeError:
        raise InvalidTypeError(
            f"data is an iterable of inputs (a list of tuples, a DataLoader), not {type(data).__name__}"
        ) from None
    count = 0
    for item in items:
        if limit is not None and count >= limit:
            break
        count += 1
        made = transform(item) if transform is not None else item
        if isinstance(made, Mapping):
            yield (), dict(made)
        elif isinstance(made, (tuple, list)):
            yield tuple(made), {}
        else:
            yield (made,), {}
    if count == 0:
        raise InvalidArgumentError("data has no item: there is nothing to measure on")
