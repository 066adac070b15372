// What shows a data server that a client is a server of its system.
#include "rpc/session/cluster_session.h"

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::rpc;

namespace {

nfs4::ExchangeIdArgs asks(std::string_view owner, nfs4::Verifier verifier, std::string domain) {
  nfs4::ExchangeIdArgs args;
  const auto bytes = std::as_bytes(std::span(owner));
  args.owner.assign(bytes.begin(), bytes.end());
  args.verifier = verifier;
  args.impl = nfs4::ImplId{.domain = std::move(domain), .name = "weft", .date = {}};
  return args;
}

}  // namespace

TEST_CASE("who has a key of the cluster is a server, for the owner and verifier it says") {
  const peer::ClusterKey key = peer::random_cluster_key();
  const peer::ClusterKey next = peer::random_cluster_key();
  const peer::Keyring both(peer::ClusterKeys{next, key});
  const auto options =
      cluster_session_options("partner", 7, "weft-ds", std::make_shared<peer::Keyring>(key));
  const std::string domain = options.domain();
  CHECK(server_key(peer::Keyring(key), asks("partner", 7, domain)) == peer::fingerprint(key));
  CHECK(server_key(both, asks("partner", 7, domain)) == peer::fingerprint(key));
  CHECK(server_key(peer::Keyring(next), asks("partner", 7, domain)) == 0);
  CHECK(server_key(both, asks("partner", 8, domain)) == 0);
  CHECK(server_key(both, asks("partner2", 7, domain)) == 0);
  CHECK(server_key(both, asks("partner", 7, domain.substr(0, domain.size() - 1))) == 0);
  CHECK(server_key(both, asks("partner", 7, "weft")) == 0);
  nfs4::ExchangeIdArgs none = asks("partner", 7, domain);
  none.impl.reset();
  CHECK(server_key(both, none) == 0);
  CHECK(cluster_session_options("partner", 7, "weft-ds", nullptr).domain() == "weft");
}
