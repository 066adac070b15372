#include "rpc/session/cluster_session.h"

#include "rpc/base/assert.h"
#include "rpc/transport/tcp_dialer.h"

namespace weft::rpc {

namespace {

using Dialed = std::move_only_function<void(Result<std::shared_ptr<Channel>>)>;

void try_from(const std::shared_ptr<const std::vector<Dial>>& dials, std::size_t index,
              Dialed done) {
  const Dial& dial = (*dials)[index];
  dial([dials, index, done = std::move(done)](Result<std::shared_ptr<Channel>> made) mutable {
    if (made || index + 1 == dials->size()) return done(std::move(made));
    try_from(dials, index + 1, std::move(done));
  });
}

}  // namespace

SessionClientOptions cluster_session_options(std::string owner, nfs4::Verifier verifier,
                                             std::string machine) {
  SessionClientOptions options;
  options.owner = std::move(owner);
  options.verifier = verifier;
  options.flags = nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
  options.credential.machine = std::move(machine);
  options.credential.uid = 0;
  options.credential.gid = 0;
  return options;
}

Dial dial_in_turn(std::vector<Dial> dials) {
  WEFT_ASSERT(!dials.empty());
  return [dials = std::make_shared<const std::vector<Dial>>(std::move(dials))](Dialed done) {
    try_from(dials, 0, std::move(done));
  };
}

Dial dial_addresses(boost::asio::io_context& context, BufferPool& pool,
                    const std::vector<layout::NetAddress>& addresses,
                    std::chrono::milliseconds connect_deadline) {
  std::vector<Dial> dials;
  for (const layout::NetAddress& address : addresses) {
    dials.push_back(
        tcp_dialer(context, pool, layout::ip_text(address), address.port, {}, connect_deadline));
  }
  return dial_in_turn(std::move(dials));
}

Result<> outcome_of(const nfs4::CompoundResult& result) {
  if (result.status == nfs4::Status::NFS4_OK) return {};
  return fail(nfs4::errc_from(result.status),
              "data server answered " + std::string(nfs4::to_string(result.status)));
}

}  // namespace weft::rpc
