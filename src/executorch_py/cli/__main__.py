"""``python -m executorch_py.cli``: as ``etpy``."""

import sys

from executorch_py.cli import main

if __name__ == "__main__":
    sys.exit(main())
