// What is not waited for in an operation, but before its reply is sent (docs/ganesha-patches.md,
// "What the reply waits for").
//
// A Later is around the calls of the namespace, and nothing else: what follows them in the
// operation must not act on what may be lost yet, at data servers or at other clients. Where the
// running request cannot wait later, a Later does nothing, and the calls wait.
//
// Threading: of the thread that made it, within one call from Ganesha.
#pragma once

#include <optional>

#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/meta/ops/owed.h"

namespace weft::mds {

class Later {
 public:
  Later();
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;
  ~Later();

 private:
  Owed owed_;
  std::optional<Owed::Scope> scope_;
};

}  // namespace weft::mds
