"""Runs in the environment of Arm's tools, for the workers: refuses other versions than those that were tried."""

import sys
from importlib import metadata

# environment.BAD_VERSION
_STATUS = 4


def require(package: str, version: str) -> None:
    """Ends the process unless ``package`` is there in ``version``, or in one with another last number."""
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        found = None
    if found is None or found.split(".")[:2] != version.split(".")[:2]:
        print(f"{package} {found or 'is not installed'}, must be {version}", file=sys.stderr)
        sys.exit(_STATUS)
