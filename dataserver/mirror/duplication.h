// Where a data server's writes go that concern other copies: those that clients make through
// handles that name partners, and those that another data server brings.
//
// Threading: called on I/O threads; completions come on the same thread, perhaps before the call
// returns.
#pragma once

#include "dataserver/ring/writes_in_flight.h"
#include "dataserver/store/store.h"
#include "layout/handle.h"

namespace weft::ds {

class Duplication {
 public:
  Duplication() = default;
  Duplication(const Duplication&) = delete;
  Duplication& operator=(const Duplication&) = delete;
  virtual ~Duplication() = default;

  // As Store::write. `token` is let go of when the write changes nothing any more, here or at a
  // partner; that may be before `done`.
  virtual void write(const layout::Handle& handle, std::uint64_t offset, std::vector<Buffer> data,
                     Stability wanted, WritesInFlight::Token token,
                     Store::Done<WriteResult> done) = 0;
  virtual void commit(const layout::Handle& handle, Store::Done<WriteVerifier> done) = 0;
  // For another data server that reads [offset, offset + count): calls back when nothing that was
  // sent to a partner before is still to be written here.
  virtual void when_local(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t count,
                          std::function<void()> done) = 0;
  // The store failed to give what was asked for through the handle. This sees to it that nobody is
  // sent here for it any more, if there is another copy, and calls back with whether there is: the
  // object's handles are fenced here then.
  virtual void unreadable(const layout::Handle& handle, std::uint64_t offset, std::uint64_t count,
                          std::move_only_function<void(bool left_out)> done) = 0;
};

[[nodiscard]] inline bool concerns_copies(const layout::Handle& handle) {
  return handle.duplication != layout::Duplication::kNone ||
         handle.access == layout::Access::kMirror;
}

}  // namespace weft::ds
