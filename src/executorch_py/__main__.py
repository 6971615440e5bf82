"""``python -m executorch_py``: the command line, as ``etpy``."""

import sys

from executorch_py.cli import main

if __name__ == "__main__":
    sys.exit(main())
