# What every target of ours shares: warnings, sanitizers, include root, and three helpers:
#   weft_library(NAME SOURCES ... DEPENDS ...)   a static library, one for each folder
#   weft_test(NAME SOURCES ... DEPENDS ...)      a Catch2 v3 binary, one ctest entry for each TEST_CASE
#   weft_fuzzer(NAME SOURCE DEPENDS ...)         a libFuzzer binary, only with -DWEFT_FUZZ=ON
# Sources are listed, never globbed.
find_package(Catch2 3 REQUIRED)
include(Catch)

add_library(weft_options INTERFACE)
target_include_directories(weft_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(weft_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast
    -Wimplicit-fallthrough -Wno-missing-field-initializers -Werror>)
target_link_options(weft_options INTERFACE -fuse-ld=lld-19)
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
if(WEFT_FUZZ)
  target_compile_options(weft_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Most of a compilation without optimisation is the parsing of system headers. With WEFT_PCH they are
# parsed once a tree. Not for release builds, where a missing #include has to be an error.
if(WEFT_PCH)
  add_library(weft_pch STATIC ${CMAKE_SOURCE_DIR}/cmake/precompiled.cc)
  target_link_libraries(weft_pch PRIVATE weft_options spdlog::spdlog)
  target_precompile_headers(weft_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
  target_compile_options(weft_pch PRIVATE -Xclang -fno-pch-timestamp)
endif()
function(weft_precompiled name)
  if(WEFT_PCH)
    target_precompile_headers(${name} REUSE_FROM weft_pch)
    # A precompiled header is either PIE or PIC, programs and libraries share this one.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
endfunction()

function(weft_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_link_libraries(${name} PUBLIC weft_options ${arg_DEPENDS})
    weft_precompiled(${name})
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
  weft_precompiled(${name})
  catch_discover_tests(${name} TEST_PREFIX "${name}: " PROPERTIES TIMEOUT 300
    DISCOVERY_MODE PRE_TEST)
endfunction()

function(weft_fuzzer name source)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  if(WEFT_FUZZ)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE weft_options ${arg_DEPENDS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    weft_precompiled(${name})
    if(NOT TARGET fuzzers)
      add_custom_target(fuzzers)
    endif()
    add_dependencies(fuzzers ${name})
  endif()
endfunction()
