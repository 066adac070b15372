// Sessions between the servers of a system: what the metadata server's with its data servers, and
// data servers' with each other, have in common.
//
// Threading: the dialer as Dial says; else pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "layout/net_address.h"
#include "rpc/base/buffer.h"
#include "rpc/nfs4/session_ops.h"
#include "rpc/peer/keyring.h"
#include "rpc/session/session_client.h"
#include "rpc/transport/channel.h"

namespace weft::rpc {

// A client of a data server, as `machine`; `verifier` changes whenever its earlier requests must
// not be executed any more. With keys it shows that it is a server.
[[nodiscard]] SessionClientOptions cluster_session_options(
    std::string owner, nfs4::Verifier verifier, std::string machine,
    std::shared_ptr<const peer::Keyring> keys);

// What EXCHANGE_ID has for the implementation's domain: a proof, of the owner and the verifier,
// that one has the cluster key. It decides which share of places and memory one has, and whether
// handles of servers are taken of one; who hears it may use it while that client lives, and that
// key is accepted.
[[nodiscard]] std::string server_domain(const peer::ClusterKey& key,
                                        std::span<const std::byte> owner, nfs4::Verifier verifier);
// The fingerprint of that one of the keys under which it is there; 0: it is not.
[[nodiscard]] std::uint64_t server_key(const peer::Keyring& keys, const nfs4::ExchangeIdArgs& args);

// Whether it is claimed to be: by who may have a key that is not known here yet.
[[nodiscard]] bool claims_to_be_server(const nfs4::ExchangeIdArgs& args);

// Tries one dialer after the other until one connects. Precondition: there is one.
[[nodiscard]] Dial dial_in_turn(std::vector<Dial> dials);
// TCP to the first of the addresses that answers. context and pool outlive every channel made.
[[nodiscard]] Dial dial_addresses(boost::asio::io_context& context, BufferPool& pool,
                                  const std::vector<layout::NetAddress>& addresses,
                                  std::chrono::milliseconds connect_deadline);

// Success when every operation was NFS4_OK, else the failure as an Error.
[[nodiscard]] Result<> outcome_of(const nfs4::CompoundResult& result);

}  // namespace weft::rpc
