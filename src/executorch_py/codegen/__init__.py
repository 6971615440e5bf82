"""Code that follows from operator tables: C++ declarations and registrations of kernels, and what a build keeps.

Standard library only, because it runs at configure time: of this repository (tools/gen_tables.py) and of users' kernel
libraries (``kernel_library.py``, called by ``executorch_py_add_kernel_library`` of the CMake package).
"""
