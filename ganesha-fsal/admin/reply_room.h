// Options of hundreds of servers and targets are more than a reply has room for (protocol.h): the
// last of them are left out, and the reply says of whom.
//
// Threading: pure functions on values.
#pragma once

#include <cstddef>

#include "ganesha-fsal/admin/config_reports.h"

namespace weft::mds::admin {

// Bytes of a reply, together well below kMaxReplyBytes with what stands around them.
struct ReplyRoom {
  std::size_t options = std::size_t{8} << 20;
  std::size_t targets = std::size_t{4} << 20;  // without their options
};

// Servers and targets whose options there is no room for stay, with the reason in place of the
// options; of a server whose targets there is no room for it is said in place of them.
void fit(ServersOptionsReport& report, ReplyRoom room = {});
void fit(TargetsReport& report, ReplyRoom room = {});

}  // namespace weft::mds::admin
