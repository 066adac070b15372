// EXCHANGE_ID and CREATE_SESSION by the rules of RFC 8881 sections 18.35.5 and 18.36.4.
#include "rpc/session/client_table.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>

#include "tests/rpc/session/hooked_clock.h"

using namespace weft;
using namespace weft::rpc;
using nfs4::Status;

namespace {

struct Table {
  explicit Table(SessionServerOptions options = defaults(), std::uint64_t seed = 1)
      : random(seed), table(options, clock, random) {}

  static SessionServerOptions defaults() {
    SessionServerOptions options;
    options.server_major_id = "table";
    options.lease = std::chrono::seconds(10);
    return options;
  }

  OrStatus<nfs4::ExchangeIdOk> exchange(std::string_view owner, nfs4::Verifier verifier,
                                        const std::string& principal = "sys:0",
                                        std::uint32_t flags = 0, const std::string& host = {}) {
    nfs4::ExchangeIdArgs args;
    const auto bytes = std::as_bytes(std::span(owner));
    args.owner.assign(bytes.begin(), bytes.end());
    args.verifier = verifier;
    args.flags = flags;
    return table.exchange_id(args, principal, host);
  }

  OrStatus<nfs4::CreateSessionOk> create(nfs4::ClientId client, std::uint32_t sequence,
                                         const std::string& principal = "sys:0") {
    nfs4::CreateSessionArgs args;
    args.client_id = client;
    args.sequence = sequence;
    args.fore = {0, 1 << 20, 1 << 20, 4096, 8, 64, std::nullopt};
    return table.create_session(args, principal);
  }

  void show_right(const nfs4::SessionId& session) {
    const auto found = table.find(session);
    REQUIRE(found != nullptr);
    found->client().has_right = true;
  }

  // A confirmed client with one session, that has shown a right.
  nfs4::ClientId confirmed(std::string_view owner, nfs4::Verifier verifier) {
    const auto exchanged = exchange(owner, verifier);
    REQUIRE(exchanged);
    const auto created = create(exchanged->client_id, exchanged->sequence);
    REQUIRE(created);
    show_right(created->session);
    return exchanged->client_id;
  }

  // A session of a client that has shown none.
  nfs4::SessionId newcomer(std::string_view owner, const std::string& host = {},
                           const std::string& principal = "sys:0") {
    const auto exchanged = exchange(owner, 1, principal, 0, host);
    REQUIRE(exchanged);
    const auto created = create(exchanged->client_id, exchanged->sequence, principal);
    REQUIRE(created);
    return created->session;
  }

  test::HookedClock clock;
  SeededRandom random;
  ClientTable table;
};

bool is_confirmed(const nfs4::ExchangeIdOk& ok) {
  return (ok.flags & nfs4::EXCHGID4_FLAG_CONFIRMED_R) != 0;
}

constexpr std::uint64_t kKey = 2;
constexpr std::uint64_t kOldKey = 1;

// Whoever comes shows this key; 0: none.
SessionServerOptions showing(const std::uint64_t& key) {
  SessionServerOptions options = Table::defaults();
  options.server_key = [&key](const nfs4::ExchangeIdArgs&) { return key; };
  return options;
}

}  // namespace

TEST_CASE("what a client takes of RDMA reads at a time comes back as it was said") {
  Table t;
  const auto exchanged = t.exchange("a", 1);
  nfs4::CreateSessionArgs args;
  args.client_id = exchanged->client_id;
  args.sequence = exchanged->sequence;
  args.fore = {0, 1 << 20, 1 << 20, 4096, 8, 64, 16};
  args.back = args.fore;
  const auto created = t.table.create_session(args, "sys:0");
  REQUIRE(created);
  CHECK(created->fore.rdma_ird == 16);
  CHECK_FALSE(created->back.rdma_ird);  // there is no backchannel
  ++args.sequence;
  args.fore.rdma_ird.reset();
  CHECK_FALSE(t.table.create_session(args, "sys:0").value().fore.rdma_ird);
}

TEST_CASE("the same client asking again gets the same confirmed id") {
  Table t;
  const auto id = t.confirmed("a", 1);
  const auto again = t.exchange("a", 1);
  REQUIRE(again);
  CHECK(again->client_id == id);
  CHECK(is_confirmed(*again));
  CHECK(t.table.sessions() == 1);
}

TEST_CASE("who comes by RDMA as well is another client, of a server of another name") {
  Table t;
  const auto by_tcp = t.confirmed("a", 1);
  nfs4::ExchangeIdArgs args;
  args.owner = {std::byte{'a'}};
  args.verifier = 1;
  const auto by_rdma = t.table.exchange_id(args, "sys:0", {}, true);
  REQUIRE(by_rdma);
  CHECK(by_rdma->client_id != by_tcp);
  CHECK_FALSE(is_confirmed(*by_rdma));
  CHECK(by_rdma->server_major_id != t.exchange("a", 1)->server_major_id);
  REQUIRE(t.create(by_rdma->client_id, by_rdma->sequence));
  CHECK(t.table.clients() == 2);
  CHECK(t.table.exchange_id(args, "sys:0", {}, true)->client_id == by_rdma->client_id);
  CHECK(t.exchange("a", 1)->client_id == by_tcp);
}

TEST_CASE(
    "a server is one client by both transports: come anew, it ends what it sent by the other") {
  SessionServerOptions options = Table::defaults();
  options.server_key = [](const nfs4::ExchangeIdArgs&) { return 1; };
  Table t(options);
  nfs4::ExchangeIdArgs args;
  args.owner = {std::byte{'a'}};
  args.verifier = 1;
  const auto by_rdma = t.table.exchange_id(args, "sys:0", {}, true);
  REQUIRE(by_rdma);
  const auto session = t.create(by_rdma->client_id, by_rdma->sequence);
  REQUIRE(session);
  args.verifier = 2;
  const auto by_tcp = t.table.exchange_id(args, "sys:0", {}, false);
  REQUIRE(by_tcp);
  CHECK(by_tcp->server_major_id == by_rdma->server_major_id);
  REQUIRE(t.create(by_tcp->client_id, by_tcp->sequence));
  CHECK(t.table.find(session->session) == nullptr);
  CHECK(t.table.clients() == 1);
}

TEST_CASE("an unconfirmed record is replaced by the next EXCHANGE_ID") {
  Table t;
  const auto first = t.exchange("a", 1);
  const auto second = t.exchange("a", 1);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->client_id != second->client_id);
  CHECK(t.create(first->client_id, 1).error() == Status::NFS4ERR_STALE_CLIENTID);
  CHECK(t.table.clients() == 1);
}

TEST_CASE("a restarted client's old sessions live until its new one is confirmed") {
  Table t;
  const auto old_id = t.confirmed("a", 1);
  const auto restarted = t.exchange("a", 2);
  REQUIRE(restarted);
  CHECK(restarted->client_id != old_id);
  CHECK_FALSE(is_confirmed(*restarted));
  CHECK(t.table.sessions() == 1);
  const auto created = t.create(restarted->client_id, restarted->sequence);
  REQUIRE(created);
  CHECK(t.table.sessions() == 1);
  CHECK(t.table.clients() == 1);
  CHECK(t.table.find(created->session) != nullptr);
  CHECK(t.create(old_id, 2).error() == Status::NFS4ERR_STALE_CLIENTID);
}

TEST_CASE("another principal cannot take a name over while its lease lasts") {
  Table t;
  t.confirmed("a", 1);
  CHECK(t.exchange("a", 1, "sys:1").error() == Status::NFS4ERR_CLID_INUSE);
  t.clock.advance(std::chrono::seconds(11));
  CHECK(t.exchange("a", 1, "sys:1"));
  CHECK(t.table.sessions() == 0);
}

// All the state that a data server has of a client is what its rights let it do.
TEST_CASE("who has shown no right does not keep a name from another principal") {
  Table t;
  const auto squatter = t.newcomer("a", {}, "sys:1000");
  const auto owner = t.exchange("a", 2, "sys:0");
  REQUIRE(owner);
  CHECK(t.table.find(squatter) == nullptr);
  const auto session = t.create(owner->client_id, owner->sequence);
  REQUIRE(session);
  t.show_right(session->session);
  CHECK(t.exchange("a", 3, "sys:1000").error() == Status::NFS4ERR_CLID_INUSE);
  CHECK(t.table.find(session->session) != nullptr);
}

TEST_CASE("updates need a confirmed record of the same verifier and principal") {
  Table t;
  const auto update = nfs4::EXCHGID4_FLAG_UPD_CONFIRMED_REC_A;
  CHECK(t.exchange("a", 1, "sys:0", update).error() == Status::NFS4ERR_NOENT);
  const auto id = t.confirmed("a", 1);
  CHECK(t.exchange("a", 2, "sys:0", update).error() == Status::NFS4ERR_NOT_SAME);
  CHECK(t.exchange("a", 1, "sys:9", update).error() == Status::NFS4ERR_PERM);
  CHECK(t.exchange("a", 1, "sys:0", update)->client_id == id);
  CHECK(t.exchange("a", 1, "sys:0", 0x8).error() == Status::NFS4ERR_INVAL);
}

TEST_CASE("CREATE_SESSION is replayed by its sequence number, and refused out of step") {
  Table t;
  const auto id = t.exchange("a", 1);
  REQUIRE(id);
  CHECK(t.create(id->client_id, id->sequence - 1).error() == Status::NFS4ERR_SEQ_MISORDERED);
  const auto first = t.create(id->client_id, id->sequence);
  REQUIRE(first);
  const auto again = t.create(id->client_id, id->sequence);
  REQUIRE(again);
  CHECK(*first == *again);
  CHECK(t.table.sessions() == 1);
  const auto second = t.create(id->client_id, id->sequence + 1);
  REQUIRE(second);
  CHECK(second->session != first->session);
  CHECK(t.create(id->client_id, id->sequence + 3).error() == Status::NFS4ERR_SEQ_MISORDERED);
  CHECK(t.create(id->client_id ^ 1ULL << 40, 1).error() == Status::NFS4ERR_STALE_CLIENTID);
}

TEST_CASE("an unconfirmed id is confirmed by who asked for it") {
  Table t;
  const auto id = t.exchange("a", 1);
  CHECK(t.create(id->client_id, id->sequence, "sys:7").error() == Status::NFS4ERR_CLID_INUSE);
  CHECK(t.create(id->client_id, id->sequence));
}

TEST_CASE("ids of two servers, or of two lives of one, do not meet") {
  std::set<nfs4::ClientId> clients;
  std::set<nfs4::SessionId> sessions;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Table t(Table::defaults(), seed);
    const auto id = t.exchange("a", 1);
    clients.insert(id->client_id);
    sessions.insert(t.create(id->client_id, id->sequence)->session);
  }
  CHECK(clients.size() == 50);
  CHECK(sessions.size() == 50);
}

TEST_CASE("ids tell nothing about those of others") {
  Table t;
  std::uint64_t common = ~std::uint64_t{0};
  nfs4::SessionId session_common;
  std::ranges::fill(session_common, std::byte{0xFF});
  const auto first = t.exchange("first", 1);
  const auto first_session = t.create(first->client_id, first->sequence)->session;
  for (int i = 0; i < 64; ++i) {
    const auto id = t.exchange("client" + std::to_string(i), 1);
    common &= ~(id->client_id ^ first->client_id);
    const auto session = t.create(id->client_id, id->sequence)->session;
    for (std::size_t at = 0; at < session.size(); ++at) {
      session_common[at] &= ~(session[at] ^ first_session[at]);
    }
  }
  CHECK(common == 0);
  CHECK(std::ranges::all_of(session_common, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("limits: clients, sessions of one, and kept replies of all") {
  auto options = Table::defaults();
  options.max_clients = 3;
  options.max_sessions_per_client = 2;
  options.max_cached_bytes = 100;
  options.max_cached_total_bytes = 100 * 150;
  Table t(options);
  const auto a = t.exchange("a", 1);
  const auto first = t.create(a->client_id, 1);
  REQUIRE(first->fore.max_requests == 64);
  t.show_right(first->session);
  CHECK(t.create(a->client_id, 2)->fore.max_requests == 64);
  const auto b = t.exchange("b", 1);
  const auto rest = t.create(b->client_id, 1);
  CHECK(rest->fore.max_requests == 22);  // what is left
  t.show_right(rest->session);
  CHECK(t.create(b->client_id, 2).error() == Status::NFS4ERR_NOSPC);
  // A third of a client: the oldest idle one goes.
  CHECK(t.create(a->client_id, 3));
  CHECK(t.table.sessions() == 3);

  REQUIRE(t.exchange("c", 1));
  REQUIRE(t.exchange("d", 1));  // unconfirmed c makes room
  CHECK(t.table.clients() == 3);
  const auto d = t.exchange("d", 1);
  t.clock.advance(std::chrono::seconds(11));
  CHECK(t.table.expire() == 3);
  CHECK(t.table.clients() == 0);
  CHECK(t.table.sessions() == 0);
  CHECK(t.create(d->client_id, 1).error() == Status::NFS4ERR_STALE_CLIENTID);
}

TEST_CASE("a full table of living clients asks newcomers to wait") {
  auto options = Table::defaults();
  options.max_clients = 1;
  Table t(options);
  t.confirmed("a", 1);
  CHECK(t.exchange("b", 1).error() == Status::NFS4ERR_DELAY);
  t.clock.advance(std::chrono::seconds(11));
  CHECK(t.exchange("b", 1));
}

TEST_CASE("who has shown no right gives way to newcomers, whoever came first before others") {
  auto options = Table::defaults();
  options.max_clients = 4;
  options.max_clients_per_host = 3;
  Table t(options);
  const auto there = [&](const nfs4::SessionId& id) { return t.table.find(id) != nullptr; };
  const auto a = t.newcomer("a", "192.0.2.1");
  const auto b = t.newcomer("b", "192.0.2.2");
  const auto c = t.newcomer("c", "192.0.2.2");
  t.show_right(a);
  const auto d = t.newcomer("d", "192.0.2.2");
  CHECK(there(b));
  SECTION("of all") {
    const auto e = t.newcomer("e", "192.0.2.1");
    CHECK(there(a));
    CHECK_FALSE(there(b));
    REQUIRE(t.exchange("f", 1, "sys:0", 0, "192.0.2.3"));
    CHECK_FALSE(there(c));
    REQUIRE(t.exchange("g", 1, "sys:0", 0, "192.0.2.3"));
    CHECK_FALSE(there(d));
    const auto h = t.newcomer("h", "192.0.2.3");
    CHECK_FALSE(there(e));
    CHECK(t.table.clients() == 4);
    const auto i = t.newcomer("i", "192.0.2.4");  // for f
    t.show_right(h);
    t.show_right(i);
    const auto j = t.newcomer("j", "192.0.2.4");  // for g
    t.show_right(j);
    CHECK(t.exchange("k", 1, "sys:0", 0, "192.0.2.5").error() == Status::NFS4ERR_DELAY);
  }
  SECTION("of a host that has its part") {
    t.show_right(b);
    const auto e = t.newcomer("e", "192.0.2.2");
    CHECK(there(b));
    CHECK_FALSE(there(c));
    CHECK(there(d));
    t.show_right(d);
    t.show_right(e);
    CHECK(t.exchange("f", 1, "sys:0", 0, "192.0.2.2").error() == Status::NFS4ERR_DELAY);
  }
}

TEST_CASE("who has shown no right has one session, the newest") {
  Table t;
  const auto a = t.exchange("a", 1);
  const auto first = t.create(a->client_id, 1);
  const auto second = t.create(a->client_id, 2);
  REQUIRE(second);
  CHECK(t.table.find(first->session) == nullptr);
  t.show_right(second->session);
  REQUIRE(t.create(a->client_id, 3));
  CHECK(t.table.find(second->session) != nullptr);
}

TEST_CASE("a full table does not look at all of its clients for each that comes") {
  auto options = Table::defaults();
  options.max_clients = 1000;
  Table t(options);
  const bool full = GENERATE(true, false);  // of clients that stay
  for (int i = 0; i < 1000; ++i) {
    if (full) {
      t.confirmed("client" + std::to_string(i), 1);
    } else {
      t.newcomer("client" + std::to_string(i));
    }
  }
  static_cast<void>(t.exchange("one", 1));
  const int before = t.clock.asked();
  for (int i = 0; i < 100; ++i) {
    CHECK(t.exchange("more" + std::to_string(i), 1).has_value() == !full);
  }
  CHECK(t.clock.asked() - before < 1000);
  if (full) return;
  t.clock.advance(std::chrono::seconds(11));
  CHECK(t.exchange("the lease of others has ended", 1));
  CHECK(t.table.clients() == 1);
}

TEST_CASE("4000 clients have sessions of 64 slots by default") {
  Table t;
  for (int i = 0; i < 4000; ++i) {
    const auto exchanged = t.exchange("client" + std::to_string(i), 1, "sys:0", 0, "192.0.2.1");
    REQUIRE(exchanged);
    const auto created = t.create(exchanged->client_id, exchanged->sequence);
    REQUIRE(created);
    REQUIRE(created->fore.max_requests == 64);
  }
  CHECK(t.table.sessions() == 4000);
}

TEST_CASE("one host has its part of the clients and of what is kept for them") {
  auto options = Table::defaults();
  options.max_clients = 10;
  options.max_clients_per_host = 3;
  options.max_cached_total_bytes = std::size_t{options.max_cached_bytes} * 640;
  Table t(options);
  const auto a = t.exchange("a", 1, "sys:0", 0, "192.0.2.1");
  t.show_right(t.create(a->client_id, 1)->session);
  REQUIRE(t.exchange("b", 1, "sys:0", 0, "192.0.2.1"));
  REQUIRE(t.exchange("c", 1, "sys:0", 0, "192.0.2.1"));
  REQUIRE(t.exchange("d", 1, "sys:0", 0, "192.0.2.1"));  // in the place of b, or c
  CHECK(t.table.clients() == 3);
  const auto other = t.exchange("e", 1, "sys:0", 0, "192.0.2.2");
  REQUIRE(t.create(other->client_id, 1));
  for (std::uint32_t i = 2; i <= 5; ++i) CHECK(t.create(a->client_id, i)->fore.max_requests == 64);
  CHECK(t.create(a->client_id, 6).error() == Status::NFS4ERR_NOSPC);  // half of 640
  CHECK(t.create(other->client_id, 2));

  for (const char* name : {"f", "g"}) {
    const auto one = t.exchange(name, 1, "sys:0", 0, "192.0.2.3");
    REQUIRE(t.create(one->client_id, 1));
  }
  t.clock.advance(std::chrono::seconds(11));
  t.table.expire();
  CHECK(t.table.clients() == 0);
  CHECK(t.exchange("a", 2, "sys:0", 0, "192.0.2.1"));
}

TEST_CASE("servers have places of their own, and who is none does not end what they have") {
  auto options = Table::defaults();
  options.max_clients = 2;
  std::uint64_t shows = 0;
  options.server_key = [&shows](const nfs4::ExchangeIdArgs&) { return shows; };
  Table t(options);
  t.confirmed("a", 1);
  t.confirmed("b", 1);
  CHECK(t.exchange("partner", 1).error() == Status::NFS4ERR_DELAY);
  shows = kKey;
  const auto partner = t.exchange("partner", 1);
  REQUIRE(partner);
  const auto session = t.create(partner->client_id, 1);
  REQUIRE(session);
  CHECK(t.table.find(session->session)->client().info.server);
  shows = 0;
  CHECK(t.exchange("partner", 2).error() == Status::NFS4ERR_CLID_INUSE);
  CHECK(t.exchange("partner", 1).error() == Status::NFS4ERR_CLID_INUSE);
  CHECK(t.table.find(session->session) != nullptr);
  shows = kKey;
  const auto again = t.exchange("partner", 2);
  REQUIRE(again);
  REQUIRE(t.create(again->client_id, 1));
  CHECK(t.table.find(session->session) == nullptr);
}

TEST_CASE("who claims to be a server, by a key that is not known, is to come again") {
  auto options = Table::defaults();
  std::uint64_t shows = 0;
  options.server_key = [&shows](const nfs4::ExchangeIdArgs&) { return shows; };
  Table t(options);
  nfs4::ExchangeIdArgs args;
  args.owner = {std::byte{'a'}};
  args.verifier = 1;
  args.impl = nfs4::ImplId{.domain = "server.weft.0123", .name = "weft", .date = {}};
  CHECK(t.table.exchange_id(args, "sys:0", {}).error() == Status::NFS4ERR_DELAY);
  CHECK(t.table.clients() == 0);
  shows = kKey;  // the key has come
  const auto partner = t.table.exchange_id(args, "sys:0", {});
  REQUIRE(partner);
  const auto session = t.create(partner->client_id, partner->sequence);
  REQUIRE(session);
  CHECK(t.table.find(session->session)->client().info.server);
}

TEST_CASE("who takes a server's name does not keep the server out") {
  auto options = Table::defaults();
  std::uint64_t shows = 0;
  options.server_key = [&shows](const nfs4::ExchangeIdArgs&) { return shows; };
  for (const nfs4::Verifier same : {1, 2}) {
    Table t(options);
    shows = 0;
    const auto impostor = t.exchange("partner", 1, "sys:1000");
    const auto session = t.create(impostor->client_id, impostor->sequence, "sys:1000");
    REQUIRE(session);
    shows = kKey;
    const auto partner = t.exchange("partner", same, same == 1 ? "sys:1000" : "sys:0");
    REQUIRE(partner);
    CHECK_FALSE(is_confirmed(*partner));
    CHECK(t.table.find(session->session) != nullptr);  // until it is confirmed
    const auto own =
        t.create(partner->client_id, partner->sequence, same == 1 ? "sys:1000" : "sys:0");
    REQUIRE(own);
    CHECK(t.table.find(own->session)->client().info.server);
    CHECK(t.table.find(session->session) == nullptr);
  }
}

TEST_CASE("a server's session ends with the key that it showed") {
  std::uint64_t shows = kOldKey;
  Table t(showing(shows));
  const auto there = [&](const nfs4::SessionId& id) { return t.table.find(id) != nullptr; };
  const auto old = t.newcomer("old");
  const auto unconfirmed = t.exchange("unconfirmed", 1);
  REQUIRE(unconfirmed);
  shows = kKey;
  const auto fresh = t.newcomer("fresh");
  shows = 0;
  const auto client = t.newcomer("client");
  const auto session = t.table.find(old);
  CHECK(t.table.keys_changed(std::array{kKey, kOldKey}) == 0);
  CHECK(there(old));
  // What an EXCHANGE_ID of the same life shows now is not what the session was made with.
  shows = kKey;
  REQUIRE(t.exchange("old", 1));
  CHECK(t.table.keys_changed(std::array{kKey}) == 2);
  CHECK_FALSE(there(old));
  CHECK(session->dead());
  CHECK_FALSE(t.table.renew(session->client()));
  CHECK(t.create(unconfirmed->client_id, unconfirmed->sequence).error() ==
        Status::NFS4ERR_STALE_CLIENTID);
  CHECK(there(fresh));
  CHECK(there(client));
  const auto again = t.newcomer("old");
  CHECK(t.table.find(again)->client().info.server);
  CHECK(t.table.keys_changed(std::array{kKey}) == 0);
  CHECK(there(again));
}

TEST_CASE("what a server whose key was dropped has under way ends before its session") {
  std::uint64_t shows = kOldKey;
  Table t(showing(shows));
  const auto id = t.newcomer("partner");
  const auto session = t.table.find(id);
  const auto begin = [&](std::uint32_t slot) { return session->begin({id, 1, slot, 9, false}, 1); };
  REQUIRE(begin(0).verdict == ServerSession::Verdict::kExecute);
  CHECK(t.table.keys_changed(std::array{kKey}) == 1);
  CHECK(t.table.keys_changed(std::array{kKey, kOldKey}) == 0);  // it does not come back
  CHECK(t.table.expire() == 0);
  CHECK(t.table.find(id) != nullptr);
  CHECK(begin(0).verdict == ServerSession::Verdict::kRunning);
  CHECK(begin(1).status == Status::NFS4ERR_DELAY);
  static_cast<void>(session->finish(0, {}));
  CHECK(begin(0).verdict == ServerSession::Verdict::kUncached);
  CHECK(t.table.expire() == 1);
  CHECK(t.table.find(id) == nullptr);
  CHECK(t.table.clients() == 0);
  CHECK(begin(1).status == Status::NFS4ERR_BADSESSION);
}

TEST_CASE("who has a server's name by a dropped key does not keep the server out") {
  for (const nfs4::Verifier same : {1, 2}) {
    const std::string principal = same == 1 ? "sys:1000" : "sys:0";
    std::uint64_t shows = kOldKey;
    Table t(showing(shows));
    const auto taken = t.newcomer("partner", {}, "sys:1000");
    const auto session = t.table.find(taken);
    // For as long as this runs.
    REQUIRE(session->begin({taken, 1, 0, 0, false}, 1).verdict == ServerSession::Verdict::kExecute);
    shows = kKey;
    if (same == 2) {  // while both keys are accepted the first keeps its name
      CHECK(t.exchange("partner", same, principal).error() == Status::NFS4ERR_CLID_INUSE);
    }
    CHECK(t.table.keys_changed(std::array{kKey}) == 1);
    const auto partner = t.exchange("partner", same, principal);
    REQUIRE(partner);
    CHECK_FALSE(is_confirmed(*partner));
    const auto own = t.create(partner->client_id, partner->sequence, principal);
    REQUIRE(own);
    CHECK(t.table.find(own->session)->client().info.server);
    CHECK(t.table.find(taken) == nullptr);
  }
}

TEST_CASE("a key that is dropped while it is looked at is not accepted") {
  SessionServerOptions options = Table::defaults();
  Table* table = nullptr;
  options.server_key = [&table](const nfs4::ExchangeIdArgs&) {
    table->table.keys_changed(std::array{kKey});
    return kOldKey;
  };
  Table t(options);
  table = &t;
  CHECK(t.exchange("partner", 1).error() == Status::NFS4ERR_DELAY);
  CHECK(t.table.clients() == 0);
}

TEST_CASE("clients go when their leases end, however often that is looked at") {
  using std::chrono::seconds;
  Table t;
  t.confirmed("a", 1);
  CHECK(t.table.expire() == 0);
  t.clock.advance(seconds(4));
  t.confirmed("b", 1);
  CHECK(t.table.expire() == 0);
  t.clock.advance(seconds(6));
  CHECK(t.table.expire() == 0);
  t.clock.advance(seconds(1));
  CHECK(t.table.expire() == 1);  // a
  t.confirmed("c", 1);
  CHECK(t.table.expire() == 0);
  t.clock.advance(seconds(4));
  CHECK(t.table.expire() == 1);  // b
  t.clock.advance(seconds(7));
  CHECK(t.table.expire() == 1);  // c
  CHECK(t.table.clients() == 0);
}

TEST_CASE("a client that comes while its lease is looked at keeps its session, or is not served") {
  const int nth = GENERATE(1, 2, 3);
  const bool ends = GENERATE(true, false);
  Table t;
  const auto exchanged = t.exchange("a", 1);
  const auto id = t.create(exchanged->client_id, exchanged->sequence)->session;
  const auto session = t.table.find(id);
  REQUIRE(session != nullptr);
  t.clock.advance(std::chrono::seconds(11));
  bool served = false;
  t.clock.at(nth, [&] {
    const auto begun = session->begin({id, 1, 0, 0, false}, 1);
    served = begun.verdict == ServerSession::Verdict::kExecute && t.table.renew(session->client());
    if (served && ends) static_cast<void>(session->finish(0, {}));
  });
  CHECK(t.table.expire() == (served ? 0 : 1));
  CHECK((t.table.find(id) != nullptr) == served);
  CHECK(session->dead() != served);
}

TEST_CASE("what has a slot, and its client goes before it is known to be there, is not served") {
  Table t;
  const auto exchanged = t.exchange("a", 1);
  const auto id = t.create(exchanged->client_id, exchanged->sequence)->session;
  const auto session = t.table.find(id);
  REQUIRE(session != nullptr);
  CHECK(session->begin({id, 1, 0, 0, false}, 1).verdict == ServerSession::Verdict::kExecute);
  t.confirmed("a", 2);
  CHECK_FALSE(t.table.renew(session->client()));
}
