# What every target of ours shares: warnings, sanitizers, include root, and three helpers:
#   weft_library(NAME SOURCES ... DEPENDS ...)   a static library, one for each folder
#   weft_test(NAME SOURCES ... DEPENDS ...)      a Catch2 v3 binary, one ctest entry for each TEST_CASE
#   weft_fuzzer(NAME SOURCE DEPENDS ...)         a libFuzzer binary, only with -DWEFT_FUZZ=ON
# The two last are for tests/, which WEFT_TESTS=OFF leaves out.
# Sources are listed, never globbed.
if(WEFT_TESTS)
  find_package(Catch2 3 REQUIRED)
  include(Catch)
endif()
include(WeftPrecompiled)

add_library(weft_options INTERFACE)
target_include_directories(weft_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(weft_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast
    -Wimplicit-fallthrough -Wno-missing-field-initializers -Wthread-safety -Werror>)
target_link_options(weft_options INTERFACE -fuse-ld=lld-19)
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
if(WEFT_FUZZ)
  target_compile_options(weft_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(weft_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_link_libraries(${name} PUBLIC weft_options ${arg_DEPENDS})
    if(WEFT_PCH STREQUAL ON)
      weft_precompiled(${name})
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE weft_options ${arg_DEPENDS})
  endif()
endfunction()

function(weft_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/tests/first_log.cc)
  target_link_libraries(${name} PRIVATE weft_options ${arg_DEPENDS} spdlog::spdlog
    Catch2::Catch2WithMain)
  if(WEFT_PCH)
    # What is tested may be optimised, the tests are not: that would take as long again.
    weft_precompiled(${name} -O0 -g1)
  endif()
  catch_discover_tests(${name} TEST_PREFIX "${name}: " PROPERTIES TIMEOUT 300
    DISCOVERY_MODE PRE_TEST)
endfunction()

function(weft_fuzzer name source)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  if(WEFT_FUZZ)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE weft_options ${arg_DEPENDS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    if(WEFT_PCH)
      weft_precompiled(${name})
    endif()
    if(NOT TARGET fuzzers)
      add_custom_target(fuzzers)
    endif()
    add_dependencies(fuzzers ${name})
  endif()
endfunction()
