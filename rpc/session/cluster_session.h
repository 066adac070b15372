// Sessions between the servers of a system: what the metadata server's with its data servers, and
// data servers' with each other, have in common.
//
// Threading: the dialer as Dial says; else pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/net_address.h"
#include "rpc/base/buffer.h"
#include "rpc/session/session_client.h"
#include "rpc/transport/channel.h"

namespace weft::rpc {

// A client of a data server, as `machine`; `verifier` changes whenever its earlier requests must
// not be executed any more.
[[nodiscard]] SessionClientOptions cluster_session_options(std::string owner,
                                                           nfs4::Verifier verifier,
                                                           std::string machine);

// Tries one dialer after the other until one connects. Precondition: there is one.
[[nodiscard]] Dial dial_in_turn(std::vector<Dial> dials);
// TCP to the first of the addresses that answers. context and pool outlive every channel made.
[[nodiscard]] Dial dial_addresses(boost::asio::io_context& context, BufferPool& pool,
                                  const std::vector<layout::NetAddress>& addresses,
                                  std::chrono::milliseconds connect_deadline);

// Success when every operation was NFS4_OK, else the failure as an Error.
[[nodiscard]] Result<> outcome_of(const nfs4::CompoundResult& result);

}  // namespace weft::rpc
