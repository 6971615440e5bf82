"""The package's C++ programs: executor_runner, pte_dump and et_opt. They need neither torch nor numpy.

    executor_runner --model model.pte --print-outputs       # commands of an installed package
    python -m executorch_py.programs pte_dump model.pte     # the same, also where scripts are not on PATH

For: running and looking at files without a line of code. Not for: the command line of the Python package, which is
``etpy``.
"""

import os
import sys

from . import sdk

NAMES = ("executor_runner", "pte_dump", "et_opt")


def path(name: str) -> str:
    """The file of a program.

    Raises:
        ValueError: There is no program of that name.
        FileNotFoundError: This package was built without its programs.
    """
    if name not in NAMES:
        raise ValueError(f"there is no program '{name}'; there are {', '.join(NAMES)}")
    file = os.path.join(sdk.folder, "bin", name)
    if not os.path.exists(file):
        raise FileNotFoundError(f"{file} is missing: this package was built with ET_BUILD_TOOLS=OFF")
    return file


def main() -> None:
    """Becomes the program that the command, or the first argument of ``python -m``, names."""
    command, *arguments = sys.argv
    name = os.path.basename(command)
    if name not in NAMES:
        if not arguments or arguments[0] not in NAMES:
            sys.exit(f"usage: python -m executorch_py.programs {{{','.join(NAMES)}}} [arguments]")
        name, *arguments = arguments
    file = path(name)
    os.execv(file, [name, *arguments])


if __name__ == "__main__":
    main()
