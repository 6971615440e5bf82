"""How memory is planned for sizes that change, under its published name."""

import enum

__all__ = ["DynamicMemoryPlanningMode"]


class DynamicMemoryPlanningMode(enum.IntEnum):
    """For the largest sizes, or for symbols. Only the first is possible here."""

    UPPER_BOUND = 0
    SYMBOLIC = 1
