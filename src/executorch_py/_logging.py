"""Messages of the C++ core, handed to Python's ``logging`` (logger ``executorch_py``).

Warnings and notices wait in the core until a thread that holds the GIL passes by; each binding call that can log ends
with a flush, so they appear with the call that caused them. Error lines do not come here: they are the text of the
exception.
"""

from __future__ import annotations

import logging

from executorch_py import _core

__all__ = ["logger", "set_level"]

logger = logging.getLogger("executorch_py")

# LogLevel of base/log.h -> level of logging
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


def _handle(level: int, file: str, line: int, text: str) -> None:
    python_level = _LEVELS[level]
    if logger.isEnabledFor(python_level):
        logger.handle(logger.makeRecord(logger.name, python_level, file, line, text, (), None))


def set_level(level: int) -> None:
    """Sets which messages the core keeps: ``logging.DEBUG``, ``INFO``, ``WARNING`` (at the start) or ``ERROR``.

    The logger's own level and handlers apply as well.
    """
    _core.set_log_handler(_handle, max(i for i, known in enumerate(_LEVELS) if known <= max(level, logging.DEBUG)))
    logger.setLevel(level)


_core.set_log_handler(_handle)
