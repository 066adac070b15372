// The C library's own functions, for who replaces them: WEFT_REAL(name) is the one that the dynamic
// linker finds after ours; WEFT_REAL_VERSION says which, where the library has an older one too.
//
// Threading: any.
#pragma once

#include <dlfcn.h>

#define WEFT_REAL(name)                                                                     \
  ([]() -> decltype(&::name) {                                                              \
    static const auto found = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name)); \
    return found;                                                                           \
  }())

#define WEFT_REAL_VERSION(name, version)                                        \
  ([]() -> decltype(&::name) {                                                  \
    static const auto found =                                                   \
        reinterpret_cast<decltype(&::name)>(dlvsym(RTLD_NEXT, #name, version)); \
    return found;                                                               \
  }())
