// What the answer to a request depends on.
//
// An operation whose change only the answer tells of does not wait for the sync itself, where locks
// are held that others wait for: it notes its commit, and whoever gives the answer waits once, for
// all operations of the request, when nothing is held. Commits of others that it has seen are noted
// in the same way.
//
// What acts elsewhere before the answer waits as it goes: which operations those are, the namespace
// says (namespace.h), whatever their caller wants.
//
// Threading: an Owed belongs to one request, in one store; a Scope to the thread that made it.
#pragma once

#include <algorithm>

#include "ganesha-fsal/meta/kv/kv.h"

namespace weft::mds {

class Owed {
 public:
  // While it lives, operations that the thread calls note what they depend on, and do not wait.
  class Scope {
   public:
    explicit Scope(Owed& owed);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    Owed* const before_;
  };

  // That of the thread's innermost scope; null without one.
  [[nodiscard]] static Owed* current();

  void note(CommitSeq seq) { upto_ = std::max(upto_, seq); }
  // The newest commit noted; 0: none.
  [[nodiscard]] CommitSeq upto() const { return upto_; }

 private:
  CommitSeq upto_ = 0;
};

}  // namespace weft::mds
