#include "rpc/session/cluster_session.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>

#include "rpc/base/assert.h"
#include "rpc/transport/tcp_dialer.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc {

namespace {

using Dialed = std::move_only_function<void(Result<std::shared_ptr<Channel>>)>;

// Without telling by its time where they differ.
bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned differs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differs |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return differs == 0;
}

void try_from(const std::shared_ptr<const std::vector<Dial>>& dials, std::size_t index,
              Dialed done) {
  const Dial& dial = (*dials)[index];
  dial([dials, index, done = std::move(done)](Result<std::shared_ptr<Channel>> made) mutable {
    if (made || index + 1 == dials->size()) return done(std::move(made));
    try_from(dials, index + 1, std::move(done));
  });
}

constexpr std::string_view kDomain = "server.weft.";
constexpr std::string_view kLabel = "session";

}  // namespace

std::string server_domain(const peer::ClusterKey& key, std::span<const std::byte> owner,
                          nfs4::Verifier verifier) {
  xdr::Encoder bytes;
  bytes.u64(verifier);
  const peer::Key proof = peer::hmac(peer::derive(key, kLabel), {bytes.bytes(), owner});
  std::string domain(kDomain);
  for (const std::byte byte : proof) {
    domain += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  return domain;
}

bool claims_to_be_server(const nfs4::ExchangeIdArgs& args) {
  return args.impl && args.impl->domain.starts_with(kDomain);
}

std::uint64_t server_key(const peer::Keyring& keys, const nfs4::ExchangeIdArgs& args) {
  if (!claims_to_be_server(args)) return 0;
  const peer::ClusterKeys& accepted = keys.now().cluster;
  const auto shown = std::ranges::find_if(accepted, [&args](const peer::ClusterKey& key) {
    return same_text(args.impl->domain, server_domain(key, args.owner, args.verifier));
  });
  return shown == accepted.end() ? 0 : peer::fingerprint(*shown);
}

SessionClientOptions cluster_session_options(std::string owner, nfs4::Verifier verifier,
                                             std::string machine,
                                             std::shared_ptr<const peer::Keyring> keys) {
  SessionClientOptions options;
  if (keys != nullptr) {
    options.domain = [keys = std::move(keys), owner, verifier] {
      return server_domain(keys->first(), std::as_bytes(std::span(owner)), verifier);
    };
  }
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
