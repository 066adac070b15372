// A client's layout of a file of the flexfiles type: which copies it names, in which order it is to
// read them, and with what rights. Layouts of the files type are made by FileData.
//
// For reading it names every current copy whose server is here, whatever the read policy, since the
// client reads the one of the greatest efficiency and the next when that fails. With `reads=all`
// each copy is the first for as large a part of clients and files as it has to spare
// (layout/read_choice.h); with `reads=one` the best is, for all.
//
// For writing it names every copy while all are current: the client brings the bytes to each. When
// a copy is not, nobody would notice what it misses, and a repair could not tell a write that is at
// one copy only from one that is old. So it then names one server, the leader of the stripe
// (mirrors.h), and its handle has that one bring the bytes to the others, as with server-sync: it
// knows what they miss, and repairs go on under it. So it does, too, while current copies are made
// equal, or are to be (FlexGrant::led). The client is back to writing every copy with the first
// layout after that.
//
// Stateids are the anonymous one, since data servers look at none; so no data server of ours ever
// has a reason to answer NFS4ERR_BAD_STATEID, which a client would answer by asking again without
// end. What makes an old handle void is the object's or client's epoch in it (NFS4ERR_ACCESS), and
// handles sealed after that differ, which is what makes a client take in the new efficiencies too.
//
// One data server a mirror: clients before Linux 6.18 fail I/O under a layout with more, and the
// metadata server is not told which clients are newer.
//
// Threading: a function of its arguments.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ganesha-fsal/meta/schema/types.h"
#include "layout/flex_layout.h"
#include "layout/layout_map.h"
#include "rpc/base/error.h"

namespace weft::mds {

struct FlexGrant {
  FileId file = 0;
  ClientId client = 0;
  layout::Access access = layout::Access::kRead;
  bool led = false;  // for writing: it is to name the leader, even if all copies are current
  layout::ObjectId object;
  std::uint32_t client_epoch = 1;
  layout::HandleKey key{};
};

struct FlexServers {
  std::function<bool(std::uint32_t ds_id)> here;
  // For readers, 0 to 1 (layout/read_choice.h).
  std::function<double(std::uint32_t ds_id)> spare = [](std::uint32_t) { return 1.0; };
  std::function<Result<layout::DeviceIdBytes>(std::uint32_t ds_id)> device;
};

// `leads` as of Mirrors::View; of no matter for reading. kLayoutTryLater: no copy can be read, or
// the one to be written through is not here. kBusy: one that is current and to be written is not
// here. kLayoutUnavailable: mirrors of several data servers.
[[nodiscard]] Result<layout::FlexLayout> flex_layout(const layout::LayoutMap& map,
                                                     std::span<const std::uint8_t> leads,
                                                     const FlexGrant& grant,
                                                     const FlexServers& servers);

}  // namespace weft::mds
