# weft_precompiled(NAME [OPTION...]): system headers come precompiled into the objects of target NAME,
# which is compiled with OPTION... too.
#
# WEFT_PCH says whose: ON, everybody's; TESTS, the tests', and ours are compiled without, so that a
# missing #include is an error in some tree (release); OFF, nobody's (debug).
#
# Up to half of a compilation is the parsing of system headers. With WEFT_PCH they are parsed once for all
# trees: the precompiled header lies in $WEFT_CACHE/pch (without WEFT_CACHE: in the build folder)
# under a hash of its preprocessed text, the compiler and the options. CMake's own are made anew in
# each tree, and an object of one tree is not what ccache knows of another then: a second clone would
# compile everything again.

# Sets `out` to the file that is precompiled for these options; makes it if it is not there.
function(weft_precompiled_file out)
  string(MAKE_C_IDENTIFIER "weft_pch ${ARGN}" known)
  get_property(file GLOBAL PROPERTY ${known})
  if(file)
    set(${out} ${file} PARENT_SCOPE)
    return()
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(general UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  get_target_property(definitions spdlog::spdlog INTERFACE_COMPILE_DEFINITIONS)
  get_target_property(linked_definitions fmt::fmt INTERFACE_COMPILE_DEFINITIONS)
  set(options ${general} -std=c++2b -fPIC -fpch-instantiate-templates ${ARGN})
  foreach(definition IN LISTS definitions linked_definitions)
    if(definition)
      list(APPEND options "-D${definition}")
    endif()
  endforeach()
  if(WEFT_SANITIZE)
    list(APPEND options -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  endif()
  if(WEFT_FUZZ)
    list(APPEND options -fsanitize=fuzzer-no-link)
  endif()

  set(source ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${options} -x c++-header -E -P ${source}
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(STRINGS ${source} includes REGEX "^#include")
  list(JOIN includes "\n" includes)
  string(SHA256 hash "${CMAKE_CXX_COMPILER_VERSION} ${options} ${includes} ${text}")
  string(SUBSTRING ${hash} 0 24 hash)
  set(folder ${CMAKE_BINARY_DIR}/pch)
  if(DEFINED ENV{WEFT_CACHE})
    set(folder $ENV{WEFT_CACHE}/pch)
  endif()
  set(file ${folder}/${hash}.pch)
  if(NOT EXISTS ${file})
    # Made under another name, and of a header with the same path in every tree.
    string(RANDOM LENGTH 8 making)
    file(WRITE ${folder}/${hash}.h.${making} "${includes}\n")
    file(RENAME ${folder}/${hash}.h.${making} ${folder}/${hash}.h)
    message(STATUS "Precompiling system headers: ${file}")
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${options} -x c++-header ${folder}/${hash}.h
      -Xclang -fno-pch-timestamp -o ${file}.${making}
      WORKING_DIRECTORY ${folder} COMMAND_ERROR_IS_FATAL ANY)
    file(RENAME ${file}.${making} ${file})
  endif()
  set_property(GLOBAL PROPERTY ${known} ${file})
  set(${out} ${file} PARENT_SCOPE)
endfunction()

function(weft_precompiled name)
  weft_precompiled_file(file ${ARGN})
  # A precompiled header is either PIE or PIC, programs and libraries share this one.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC ${ARGN}
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-fpch-instantiate-templates -include-pch ${file}>")
endfunction()
