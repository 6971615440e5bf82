# Order of the functions in the extension module: those that loading and first calls of models take stand together.
#
#   et_group_first_call(_core)      after all libraries are there
#
# The system maps code that a process touches 64 KiB at a time. Loading and calling a small model takes some 400
# functions, 200 KiB in all, which the linker's own order scatters over 11 MB: 30 to 45 such pieces. first_call.txt
# lists them, and tools/first_call.py measures it anew; a name that a build has not is passed over. Does nothing where
# the linker takes no such script. Kernels are left as they stand: a model takes a few files of them, each for itself.
include_guard(GLOBAL)
include(CheckLinkerFlag)

function(et_group_first_call target)
  set(list ${CMAKE_SOURCE_DIR}/cmake/first_call.txt)
  set(script ${CMAKE_BINARY_DIR}/first_call.ld)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} names REGEX "^[^#]")
  list(TRANSFORM names REPLACE "(.+)" "    *(.text.\\1)")
  list(JOIN names "\n" names)
  file(CONFIGURE OUTPUT ${script} @ONLY CONTENT [[
SECTIONS
{
  .text.first_call :
  {
    *(.text.startup .text.startup.*)
@names@
  }
}
INSERT BEFORE .text;
]])
  check_linker_flag(CXX "-Wl,-T,${script}" ET_LINKER_ORDERS_FUNCTIONS)
  if(NOT ET_LINKER_ORDERS_FUNCTIONS)
    return()
  endif()
  target_link_options(${target} PRIVATE "-Wl,-T,${script}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
  set(libraries ${target} et_base et_schema et_runtime et_runtime_host et_threads et_builtin et_ops et_extension)
  foreach(part runtime kernels)
    get_property(backends GLOBAL PROPERTY ET_BACKEND_${part})
    foreach(name IN LISTS backends)
      list(APPEND libraries et_backend_${name}_${part})
    endforeach()
  endforeach()
  foreach(library IN LISTS libraries)
    target_compile_options(${library} PRIVATE -ffunction-sections)
  endforeach()
endfunction()
