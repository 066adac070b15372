// What the metadata server asks of the stripe units of a file that one object holds: many of them
// in one request.
//
// Threading: on the I/O thread that the store's operations are started on; completions come there.
// Ownership: the store outlives what is under way.
#pragma once

#include "dataserver/store/store.h"
#include "rpc/control/messages.h"

namespace weft::ds {

// Some units at once. After an error some may have been reserved.
void allocate_share(Store& store, const rpc::control::AllocateShare& request,
                    Store::Done<void> done);

// A store that cannot tell where holes are is data up to its end. A search ends after a number of
// steps, and says how far it came.
void seek_in_share(Store& store, const rpc::control::Seek& request,
                   Store::Done<rpc::control::SeekAnswer> done);

}  // namespace weft::ds
