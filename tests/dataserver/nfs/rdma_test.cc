// A data server's NFS over RDMA: a session client, the session server and the data server's handler
// over a real store, with a device that is a double.
#include <catch2/catch_test_macros.hpp>

#include "dataserver/store/store_over.h"
#include "rpc/base/shared_memory.h"
#include "rpc/session/session_client.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/rdma/client_channel.h"
#include "rpc/transport/rdma/server_channel.h"
#include "tests/dataserver/nfs/handler_rig.h"
#include "tests/rpc/transport/rdma/fake_pair.h"

namespace weft {
namespace {

using rpc::nfs4::Op;
using rpc::nfs4::Status;

struct Rig : test::HandlerRig {
  ~Rig() {
    if (client) {
      bool closed = false;
      client->close([&] { closed = true; });
      CHECK(thread.run_until([&] { return closed; }));
    }
    cut();
    thread.drain();
  }
  rpc::SessionServerOptions server_options() {
    rpc::SessionServerOptions options;
    options.server_major_id = "rdma-test";
    return options;
  }
  void connect() {
    rpc::SessionClientOptions options;
    options.owner = "rdma-test";
    options.flags = rpc::nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
    options.reconnect_least = std::chrono::milliseconds(1);
    client.emplace(thread.context(), [this](auto done) { done(dial()); }, options);
  }
  Result<std::shared_ptr<rpc::Channel>> dial() {
    ++dialled;
    pair = std::make_shared<rpc::rdma::FakePair>(thread.context(), registered,
                                                 rpc::rdma::kExposedBytes);
    rpc::rdma::Limits limits{.standing = Standing::kStranger};
    limits.look = [this](auto head, Standing of) { return sessions.look_at(head, of); };
    sessions.serve(
        rpc::rdma::serve(thread.context(), registered, pair->serving(), std::move(limits)),
        rpc::Via::kRdma);
    return rpc::rdma::call_over(thread.context(), remote, pair->calling(), {});
  }
  void cut() {
    if (pair) pair->cut();
  }
  rpc::nfs4::CompoundResult call(rpc::nfs4::OpArgs op) {
    std::vector<rpc::nfs4::OpArgs> ops;
    auto sealed = handle({.access = access});
    if (forged) sealed[30] ^= std::byte{1};
    ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(sealed)}});
    ops.push_back(std::move(op));
    std::optional<Result<rpc::nfs4::CompoundResult>> result;
    client->call(std::move(ops), {.idempotent = true}, [&](auto r) { result = std::move(r); });
    REQUIRE(thread.run_until([&] { return result.has_value(); }));
    REQUIRE(result->has_value());
    return std::move(**result);
  }
  Status write_there(std::uint64_t offset, const std::string& bytes) {
    rpc::nfs4::WriteArgs args{.offset = offset};
    auto data = remote.allocate(bytes.size()).value();
    std::memcpy(data.data(), bytes.data(), bytes.size());
    args.data.push_back(std::move(data));
    return call({Op::OP_WRITE, std::move(args)}).status;
  }
  std::string read_there(std::uint64_t offset, std::uint32_t count) {
    auto result = call({Op::OP_READ, rpc::nfs4::ReadArgs{.offset = offset, .count = count}});
    auto* ok = result.get<rpc::nfs4::ReadOk>(1);
    REQUIRE(ok != nullptr);
    const auto bytes = ok->data.flatten().value();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  BufferPool registered{
      std::size_t{64} << 20,
      std::make_shared<Arena>(SharedMemory::create(std::size_t{128} << 20, "test").value())};
  BufferPool remote{std::size_t{64} << 20};  // the client's
  layout::Access access = layout::Access::kReadWrite;
  bool forged = false;
  rpc::SessionServer sessions{server_options(), *handler, system_clock(), system_random()};
  std::shared_ptr<rpc::rdma::FakePair> pair;
  std::optional<rpc::SessionClient> client;
  int dialled = 0;
};

std::string pattern(std::size_t size, std::size_t seed) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>((i + seed) * 31 >> 3);
  return out;
}

TEST_CASE("what is written by RDMA is read back by RDMA, 4 KiB to 1 MiB and odd sizes") {
  Rig rig;
  rig.connect();
  std::size_t moved = 0;
  for (const std::size_t size : {std::size_t{4096}, std::size_t{4097}, std::size_t{70'001},
                                 std::size_t{256} << 10, std::size_t{1} << 20}) {
    const std::string data = pattern(size, size);
    REQUIRE(rig.write_there(size, data) == Status::NFS4_OK);
    CHECK(rig.read_there(size, static_cast<std::uint32_t>(size)) == data);
    moved += size;
    // All of it went by chunks.
    CHECK(rig.pair->read == moved);
    CHECK(rig.pair->written == moved);
  }
  CHECK(rig.dialled == 1);
}

TEST_CASE("what is sent by RDMA is read from its file before it is answered") {
  struct Seen final : ds::StoreOver {
    explicit Seen(ds::Store& beneath) : StoreOver(beneath) {}
    void read(ds::StoreRead what, Done<ds::ReadResult> done) override {
      to_memory = what.to_memory;
      beneath_.read(std::move(what), std::move(done));
    }
    bool to_memory = false;
  };
  Rig rig;
  Seen seen(*rig.store);
  rig.handler.emplace(ds::DsHandler::Parts{seen, *rig.gate, rig.sizes, rig.writes, rig.counters,
                                           rig.clock, nullptr, nullptr, &rig.pool});
  rig.connect();
  REQUIRE(rig.write_there(0, pattern(1 << 20, 1)) == Status::NFS4_OK);
  CHECK(rig.read_there(0, 1 << 20) == pattern(1 << 20, 1));
  CHECK(seen.to_memory);
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  rig.read(0, 1 << 20);  // by a connection that sends files
  CHECK_FALSE(seen.to_memory);
}

TEST_CASE("what is small goes inline by RDMA") {
  Rig rig;
  rig.connect();
  REQUIRE(rig.write_there(0, "abc") == Status::NFS4_OK);
  CHECK(rig.pair->read == 0);
  CHECK(rig.read_there(0, 3) == "abc");
  CHECK(rig.pair->written == 3);  // there was a Write chunk
}

TEST_CASE("a WRITE that is refused leaves an RDMA connection in step") {
  Rig rig;
  rig.connect();
  const std::string data = pattern(70'001, 1);
  rig.access = layout::Access::kRead;
  REQUIRE(rig.write_there(0, data) == Status::NFS4ERR_ACCESS);
  CHECK(rig.read_there(0, 100).empty());
  rig.access = layout::Access::kReadWrite;
  REQUIRE(rig.write_there(0, data) == Status::NFS4_OK);
  CHECK(rig.read_there(0, 70'001) == data);
  CHECK(rig.dialled == 1);
}

TEST_CASE("what a WRITE with a forged handle brings is not fetched by RDMA") {
  Rig rig;
  rig.connect();
  const std::string data = pattern(70'001, 1);
  SECTION("from a stranger") {}
  SECTION("from a client") { REQUIRE(rig.write_there(0, "abc") == Status::NFS4_OK); }
  rig.forged = true;
  for (int i = 0; i < 3; ++i) CHECK(rig.write_there(0, data) == Status::NFS4ERR_BADHANDLE);
  CHECK(rig.pair->read == 0);
  CHECK(rig.counters.total().writes <= 1);
  rig.forged = false;
  REQUIRE(rig.write_there(0, data) == Status::NFS4_OK);
  CHECK(rig.pair->read == data.size());
  CHECK(rig.read_there(0, 70'001) == data);
  CHECK(rig.dialled == 1);
}

TEST_CASE("a session goes on over another RDMA connection when one is lost") {
  Rig rig;
  rig.connect();
  const std::string data = pattern(std::size_t{1} << 20, 3);
  REQUIRE(rig.write_there(0, data) == Status::NFS4_OK);
  for (int i = 0; i < 5; ++i) {
    rig.cut();
    REQUIRE(rig.write_there(0, data) == Status::NFS4_OK);
    CHECK(rig.read_there(0, 1 << 20) == data);
  }
  CHECK(rig.dialled == 6);
  CHECK(rig.sessions.counts().sessions == 1);
}

TEST_CASE("many calls at once by RDMA keep to the credits, and all are answered") {
  Rig rig;
  rig.connect();
  int good = 0;
  int left = 200;
  for (int i = 0; i < 200; ++i) {
    std::vector<rpc::nfs4::OpArgs> ops;
    ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(rig.handle())}});
    rpc::nfs4::WriteArgs args{.offset = static_cast<std::uint64_t>(i) * 4096};
    auto data = rig.remote.allocate(4096).value();
    std::memset(data.data(), i, data.size());
    args.data.push_back(std::move(data));
    ops.push_back({Op::OP_WRITE, std::move(args)});
    rig.client->call(std::move(ops), {}, [&](auto result) {
      if (result && result->status == Status::NFS4_OK) ++good;
      --left;
    });
  }
  REQUIRE(rig.thread.run_until([&] { return left == 0; }));
  CHECK(good == 200);
  CHECK(rig.dialled == 1);
  const std::string all = rig.read_there(0, 200 * 4096);
  REQUIRE(all.size() == std::size_t{200} * 4096);
  for (std::size_t i = 0; i < 200; ++i) CHECK(all[i * 4096 + 7] == static_cast<char>(i));
}

}  // namespace
}  // namespace weft
