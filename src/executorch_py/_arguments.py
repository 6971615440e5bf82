"""Checks of what callers pass: each gives the value back, or says what it is and what it must be.

Example:
    >>> integer("the number of threads", 2, 0, 8)
    2
    >>> integer("the number of threads", "two", 0, 8)
    Traceback (most recent call last):
    executorch_py.errors.InvalidTypeError: the number of threads is 'two', must be an int
"""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Mapping
from typing import Any

from executorch_py.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["count_taken", "flag", "instance", "integer", "path", "text"]


def integer(what: str, value: Any, lowest: int, highest: int) -> int:
    """``value`` as an int within both bounds.

    Raises:
        InvalidTypeError: It is no integer.
        InvalidArgumentError: It is out of bounds.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(f"{what} is {value!r}, must be an int") from None
    if not lowest <= number <= highest:
        raise InvalidArgumentError(f"{what} is {number}, must be from {lowest} to {highest}")
    return number


def flag(what: str, value: Any) -> bool:
    """``value``, True or False: that ``"no"`` counts as true is never what is meant.

    Raises:
        InvalidTypeError: It is neither.
    """
    return instance(what, value, bool, "True or False")


def text(what: str, value: Any) -> str:
    """``value``, a string.

    Raises:
        InvalidTypeError: It is none.
    """
    return instance(what, value, str, "a string")


def instance(what: str, value: Any, kind: type, name: str) -> Any:
    """``value``, an object of the class ``kind``, which messages call ``name``.

    Raises:
        InvalidTypeError: It is something else.
    """
    if not isinstance(value, kind):
        raise InvalidTypeError(f"{what} is {value!r}, must be {name}")
    return value


def count_taken(what: str, function: Any, forms: Mapping[int, str]) -> int:
    """With how many positional arguments a user's function can be called: the first of ``forms`` that fits.

    Args:
        what: Name of the option.
        function: Python's own functions, which do not say what they take, count as the first form.
        forms: Number of arguments -> how messages write them.

    Raises:
        InvalidTypeError: None fits.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return next(iter(forms))
    for count in forms:
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count
    raise InvalidTypeError(f"{what} takes {signature}, must take {' or '.join(forms.values())}")


def path(what: str, value: Any) -> str:
    """``value`` as the name of a file.

    Raises:
        InvalidTypeError: It is neither a string nor an ``os.PathLike``.
        InvalidArgumentError: It is empty, or no name that UTF-8 can say.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidTypeError(f"{what} is {value!r}, must be a path")
    name = os.fsdecode(value)
    if not name or "\0" in name or (not name.isprintable() and _has_surrogates(name)):
        reason = "empty" if not name else f"{name!r}, which is no name of a file in UTF-8"
        raise InvalidArgumentError(f"{what} is {reason}")
    return name


def _has_surrogates(name: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in name)
