# Functions that generate code into the build tree (never into the source tree). The include root of generated files is
# ET_GENERATED_DIR; a header generated for src/cpp/schema is included as "schema/program_generated.h".
include_guard(GLOBAL)

# Scripts that generated tables follow from, beside their own.
file(GLOB ET_CODEGEN_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/executorch_py/codegen/*.py)

# et_generate(NAME op_table OUTPUTS ops/op_table.inc COMMAND <script.py> args... [DEPENDS files...])
# Runs a Python script that writes OUTPUTS (relative to ET_GENERATED_DIR; so are the paths the script gets in place of
# the word @OUT@, which stands for ET_GENERATED_DIR). Link et::<NAME> to have the files made first.
function(et_generate)
  cmake_parse_arguments(arg "" "NAME" "OUTPUTS;COMMAND;DEPENDS" ${ARGN})
  list(TRANSFORM arg_OUTPUTS PREPEND ${ET_GENERATED_DIR}/)
  list(TRANSFORM arg_COMMAND REPLACE "@OUT@" "${ET_GENERATED_DIR}")
  list(GET arg_COMMAND 0 script)
  foreach(output IN LISTS arg_OUTPUTS)
    get_filename_component(folder ${output} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
  endforeach()
  add_custom_command(OUTPUT ${arg_OUTPUTS}
    COMMAND ${Python_EXECUTABLE} ${arg_COMMAND}
    DEPENDS ${script} ${arg_DEPENDS}
    COMMENT "Generating ${arg_NAME}" VERBATIM)
  _et_generated_library(${arg_NAME} ${arg_OUTPUTS})
endfunction()

# et_flatbuffer(NAME program_schema FOLDER schema SRCS program.fbs [OPTIONS --gen-object-api ...] [LAYOUTS program.fbs])
# Compiles schemas to <FOLDER>/<stem>_generated.h, and those of LAYOUTS to <stem>_layout.h (schema/table_verifier.h).
# Link et::<NAME>: it brings the FlatBuffers headers too.
function(et_flatbuffer)
  cmake_parse_arguments(arg "" "NAME;FOLDER" "SRCS;OPTIONS;LAYOUTS" ${ARGN})
  set(headers)
  foreach(source IN LISTS arg_SRCS)
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(stem ${source} NAME_WE)
    set(header ${ET_GENERATED_DIR}/${arg_FOLDER}/${stem}_generated.h)
    add_custom_command(OUTPUT ${header}
      COMMAND ${ET_FLATC} --cpp ${arg_OPTIONS} -o ${ET_GENERATED_DIR}/${arg_FOLDER} ${path}
      DEPENDS ${path}
      COMMENT "Compiling schema ${arg_FOLDER}/${stem}.fbs" VERBATIM)
    list(APPEND headers ${header})
    if(source IN_LIST arg_LAYOUTS)
      set(layout ${ET_GENERATED_DIR}/${arg_FOLDER}/${stem}_layout.h)
      set(script ${CMAKE_SOURCE_DIR}/tools/gen_table_layouts.py)
      add_custom_command(OUTPUT ${layout}
        COMMAND ${ET_FLATC} --binary --schema -o ${CMAKE_CURRENT_BINARY_DIR} ${path}
        COMMAND ${Python_EXECUTABLE} ${script} ${CMAKE_CURRENT_BINARY_DIR}/${stem}.bfbs ${layout}
        DEPENDS ${path} ${script}
        COMMENT "Laying out tables of ${arg_FOLDER}/${stem}.fbs" VERBATIM)
      list(APPEND headers ${layout})
    endif()
  endforeach()
  _et_generated_library(${arg_NAME} ${headers})
  target_link_libraries(et_${arg_NAME} INTERFACE et_third_party::flatbuffers)
endfunction()

# An interface library that its users build after the given files.
function(_et_generated_library name)
  add_library(et_${name} INTERFACE)
  add_library(et::${name} ALIAS et_${name})
  target_include_directories(et_${name} INTERFACE $<BUILD_INTERFACE:${ET_GENERATED_DIR}>)
  add_custom_target(et_${name}_files DEPENDS ${ARGN})
  add_dependencies(et_${name} et_${name}_files)
endfunction()
