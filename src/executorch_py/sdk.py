"""Where the installed C++ side lies: headers, libraries, programs and the CMake package.

    cmake -S . -B build -DCMAKE_PREFIX_PATH=$(python -c "import executorch_py; print(executorch_py.cmake_prefix_path)")

In CMakeLists.txt: ``find_package(executorch_py CONFIG REQUIRED)``; docs/how-to/using_cpp.md shows the rest.
"""

import importlib.util
import os

_spec = importlib.util.find_spec("executorch_py._core")
#: Beside the extension module, which an editable installation has in another folder than the Python sources.
folder = os.path.dirname(_spec.origin) if _spec is not None and _spec.origin else os.path.dirname(__file__)

#: What CMake's find_package looks in.
cmake_prefix_path = os.path.join(folder, "share", "cmake")

#: The C interface as one shared library, for languages that open a library at run time.
c_library_path = os.path.join(folder, "lib", "libexecutorch.so")
