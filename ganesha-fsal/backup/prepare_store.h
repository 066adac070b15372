// Makes a metadata store that was copied from a backup ready to be served: what was done after the
// backup is not in it, and nothing of that may be taken for something else.
//
// The restore has a number, the stamp: seconds since the beginning of 2026. It is greater than that
// of any restore before, and what it stands for happens less than once a second, so it is above all
// that was given out since the backup, also if this backup was brought back before:
//
//   boot epoch          the stamp: data servers follow the metadata server with the greatest
//   file numbers        from stamp * 2^20 on
//   generation          of objects of files that get their first layout from now on: the stamp
//   object epochs       of the files that have a layout: the stamp at least, so that handles sealed
//                       from now on are above every fence, those of strays included
//                       (Namespace::queue_stray())
//   change attributes   stamp * 2^32 at least, so that no client takes what it has cached for new
//
// What data servers and clients know is made void or not relied upon:
//
//   states of stores    forgotten: what data servers come with first is accepted
//   device ids          get another salt
//   data servers' ids   those that may have been given out since any restore are kept for who has
//                       them; new ones are of a block of the stamp
//   copies that missed writes   may have missed any
//   files on their way to their objects   are inline again; their objects are strays
//   moves               are over, and objects that have left a map are strays: the file may have
//                       gone back there since, and have no others
//   files with a layout  are not to be served before their objects were looked at (RestoredRecord)
//
// Threading: a function; nobody else uses the store. It is not one transaction: a store whose
// preparation was interrupted is to be copied anew.
#pragma once

#include <cstdint>

#include "ganesha-fsal/meta/kv/kv.h"
#include "rpc/base/error.h"

namespace weft::mds {

struct PrepareOptions {
  std::int64_t made_ns = 0;       // when the backup was made
  std::int64_t now_ns = 0;        // nanoseconds since 1970
  std::uint32_t device_salt = 0;  // random
};

struct Prepared {
  std::uint32_t stamp = 0;
  std::uint64_t files = 0;     // inodes
  std::uint64_t laid_out = 0;  // files whose objects are to be looked at
  std::uint64_t growing = 0;   // files that are inline again
};

// kInvalid: the clock is wrong, or the store too new for it; nothing was changed.
[[nodiscard]] Result<Prepared> prepare_restored(KvStore& store, const PrepareOptions& options);

}  // namespace weft::mds
