// Which checksums the store in a folder has: as its configuration says, before anything is served.
//
// Threading: any thread but the ring's, whose thread runs.
#pragma once

#include "dataserver/store/store_directory.h"
#include "dataserver/sums/summed_store.h"

namespace weft::ds {

// Before there are checksums the folder is marked: from then on nothing may change objects that
// knows of none. With `summed`, which is over `objects`, it begins to check and to seal, on this
// ring. Null: what there is of checksums is removed, since it would not know of what changes.
// kInvalid: the store is a parity group's, which keeps checksums in the same place. kCorrupt, kIo:
// the folder.
[[nodiscard]] Result<> begin_checksums(SummedStore* summed, Store& objects,
                                       StoreDirectory& directory, IoRing& ring);

}  // namespace weft::ds
