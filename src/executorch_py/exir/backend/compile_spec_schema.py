"""CompileSpec: an option that travels from the partitioner through the file to the backend's runtime."""

from dataclasses import dataclass


@dataclass
class CompileSpec:
    """One option.

    Attributes:
        key: Name of the option.
        value: Its bytes; what they mean is the backend's business.
    """

    key: str
    value: bytes
