// Who knows how long files are: the metadata server, seen from a data server.
//
// An object is a part of a file, and its end is not the file's. READ's eof, and zeros after an
// object's end, need the file's size; and a write answered FILE_SYNC4 makes a client of the files
// layout send no LAYOUTCOMMIT (RFC 8881 section 13.10), so the metadata server must hear of it
// before the reply.
//
// Threading: called on I/O threads; implementations say where completions run.
#pragma once

#include <cstdint>
#include <functional>

#include "layout/handle.h"
#include "layout/object_id.h"
#include "rpc/base/error.h"

namespace weft::ds {

class SizeAuthority {
 public:
  template <class T>
  using Done = std::move_only_function<void(Result<T>)>;

  SizeAuthority() = default;
  SizeAuthority(const SizeAuthority&) = delete;
  SizeAuthority& operator=(const SizeAuthority&) = delete;
  virtual ~SizeAuthority() = default;

  // The file's size in bytes as the metadata server knows it; it may not have heard yet of writes
  // that were not committed. kStale: there is no such file. kUnreachable, kTimedOut, kBusy.
  virtual void query(const layout::ObjectId& object, Done<std::uint64_t> done) = 0;
  // A stable write by that right ended at `end` bytes at `mtime_ns` since 1970. Success: the file
  // is durably as long, and clients that have kept what was there before the write can see that it
  // is old.
  virtual void report(const layout::Handle& by, std::uint64_t end, std::int64_t mtime_ns,
                      Done<void> done) = 0;
};

// Without a metadata server (--standalone): a file is as long as its object.
class LocalSizes final : public SizeAuthority {
 public:
  void query(const layout::ObjectId& /*object*/, Done<std::uint64_t> done) override { done(0); }
  void report(const layout::Handle& /*by*/, std::uint64_t /*end*/, std::int64_t /*mtime_ns*/,
              Done<void> done) override {
    done(Result<>{});
  }
};

}  // namespace weft::ds
