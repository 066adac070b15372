// Proxied I/O against data servers that are real NFSv4.1 session servers on loopback, with objects
// in memory.

#include "ganesha-fsal/cluster/proxy_io.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <future>
#include <map>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/meta/memory_kv.h"
#include "rpc/base/clock.h"
#include "rpc/control/keys.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/tcp_server.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;
using rpc::nfs4::Op;
using rpc::nfs4::Status;

namespace {

constexpr layout::HandleKey kKey{std::byte{9}};
constexpr std::uint32_t kUnit = 64 * 1024;

// The objects of one data server, and how it misbehaves.
class Objects final : public rpc::OpHandler {
 public:
  Objects(std::uint32_t ds_id, BufferPool& pool) : ds_id_(ds_id), pool_(pool) {}

  void execute(rpc::Compound& compound, rpc::nfs4::OpArgs op, rpc::OpDone done) override {
    const std::lock_guard lock(mutex);
    if (op.op == Op::OP_PUTFH) {
      compound.current_handle = std::get<rpc::nfs4::PutFhArgs>(op.args).handle;
      const auto handle =
          layout::unseal(compound.current_handle.bytes(), kKey, control::kHandleKeyId);
      const bool ours =
          handle && handle->ds_id == ds_id_ && handle->access == layout::Access::kControl;
      return done({op.op, ours ? Status::NFS4_OK : Status::NFS4ERR_BADHANDLE, {}, 0});
    }
    if (delays > 0) {
      --delays;
      return done(rpc::nfs4::failed(op.op, Status::NFS4ERR_DELAY));
    }
    if (failure != Status::NFS4_OK) return done(rpc::nfs4::failed(op.op, failure));
    if (op.op == Op::OP_READ) return read(compound, std::get<rpc::nfs4::ReadArgs>(op.args), done);
    if (op.op == Op::OP_WRITE) return write(std::get<rpc::nfs4::WriteArgs>(op.args), done);
    if (op.op == Op::OP_COMMIT) {
      ++commits;
      return done({op.op, Status::NFS4_OK, rpc::nfs4::CommitOk{verifier}, 0});
    }
    done(rpc::nfs4::failed(op.op, Status::NFS4ERR_NOTSUPP));
  }

  std::mutex mutex;
  std::vector<std::byte> object;
  std::uint64_t file_size = 0;  // what the metadata server would say
  std::uint64_t verifier = 1;
  int delays = 0;
  bool half_reads = false;
  Status failure = Status::NFS4_OK;
  int reads = 0;
  int writes = 0;
  int commits = 0;

 private:
  void read(const rpc::Compound& compound, const rpc::nfs4::ReadArgs& args, rpc::OpDone& done) {
    ++reads;
    std::uint64_t count = std::min<std::uint64_t>(args.count, compound.max_read);
    if (half_reads && count > 1) count /= 2;
    const std::uint64_t size = std::max<std::uint64_t>(file_size, object.size());
    const std::uint64_t end = std::min(args.offset + count, size);
    rpc::nfs4::ReadOk ok;
    ok.eof = args.offset + count >= size;
    if (end > args.offset) {
      auto buffer = pool_.allocate(end - args.offset);
      REQUIRE(buffer);
      std::memset(buffer->data(), 0, buffer->size());
      if (args.offset < object.size()) {
        const std::uint64_t have = std::min<std::uint64_t>(end, object.size()) - args.offset;
        std::memcpy(buffer->data(), object.data() + args.offset, have);
      }
      ok.data.append(std::move(*buffer));
    }
    done({Op::OP_READ, Status::NFS4_OK, std::move(ok), 0});
  }

  void write(const rpc::nfs4::WriteArgs& args, rpc::OpDone& done) {
    ++writes;
    std::uint64_t at = args.offset;
    for (const Buffer& piece : args.data) {
      if (object.size() < at + piece.size()) object.resize(at + piece.size());
      std::memcpy(object.data() + at, piece.data(), piece.size());
      at += piece.size();
    }
    done({Op::OP_WRITE, Status::NFS4_OK,
          rpc::nfs4::WriteOk{static_cast<std::uint32_t>(at - args.offset), args.stable, verifier},
          0});
  }

  const std::uint32_t ds_id_;
  BufferPool& pool_;
};

// One data server: its own listening socket and sessions over shared I/O threads.
struct FakeServer {
  FakeServer(std::uint32_t id, rpc::IoThreads& threads, BufferPool& pool)
      : objects(id, pool),
        sessions({.server_major_id = "fake-" + std::to_string(id)}, objects, system_clock(),
                 system_random()),
        tcp(threads, pool, {.address = "127.0.0.1", .limits = {}},
            [this](std::shared_ptr<rpc::Channel> channel) { sessions.serve(std::move(channel)); }) {
    REQUIRE(tcp.listen());
  }
  void stop() {
    tcp.stop();
    std::promise<void> drained;
    sessions.drain([&] { drained.set_value(); });
    REQUIRE(drained.get_future().wait_for(20s) == std::future_status::ready);
  }

  Objects objects;
  rpc::SessionServer sessions;
  rpc::TcpServer tcp;
};

struct Fixture {
  explicit Fixture(std::uint32_t count) {
    threads.start();
    RegistryOptions options;
    options.cluster.fill(std::byte{1});
    registry = std::move(*Registry::open(store, options));
    for (std::uint32_t id = 1; id <= count; ++id) {
      servers.push_back(std::make_unique<FakeServer>(id, threads, pool));
      add(id);
      file.map.copies[0].ds_ids.push_back(id);
    }
    file.object = {42, 1, 1};
    file.map.stripe_unit = kUnit;
    ProxyIo::Config config;
    config.owner = "test-mds";
    config.handle_key = kKey;
    config.call_timeout = 5s;
    proxy = std::make_unique<ProxyIo>(config, *registry, pool);
  }
  ~Fixture() {
    proxy.reset();
    for (const auto& server : servers) server->stop();
    threads.stop();
  }
  void add(std::uint32_t id) {
    control::Register request;
    request.store.fill(static_cast<std::byte>(id));
    request.addresses = {layout::make_address("127.0.0.1", servers[id - 1]->tcp.port()).value()};
    REQUIRE(registry->register_server(request.addresses[0], request)->ds_id == id);
  }
  void set_size(std::uint64_t to) {
    size = std::max(size, to);
    for (const auto& server : servers) {
      const std::lock_guard lock(server->objects.mutex);
      server->objects.file_size = size;
    }
  }
  Result<ProxyIo::WriteResult> write(std::uint64_t offset, std::span<const std::byte> data,
                                     ProxyIo::Stability wanted = ProxyIo::Stability::kUnstable) {
    auto result = await<ProxyIo::WriteResult>(
        [&](auto done) { proxy->write(file, offset, data, wanted, std::move(done)); });
    if (result) set_size(offset + data.size());
    return result;
  }
  Result<ProxyIo::ReadResult> read(std::uint64_t offset, std::uint32_t count) {
    return await<ProxyIo::ReadResult>(
        [&](auto done) { proxy->read(file, size, offset, count, std::move(done)); });
  }
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint32_t count) {
    auto result = read(offset, count);
    REQUIRE(result);
    return result->data.flatten().value();
  }
  Result<std::uint64_t> commit() {
    return await<std::uint64_t>([&](auto done) { proxy->commit(file, std::move(done)); });
  }
  Objects& objects(std::uint32_t id) { return servers[id - 1]->objects; }

  BufferPool pool{256U << 20};
  rpc::IoThreads threads{1, false};
  MemoryKv store;
  std::unique_ptr<Registry> registry;
  std::vector<std::unique_ptr<FakeServer>> servers;
  ProxyIo::File file{{}, {.copies = {{}}}};
  std::uint64_t size = 0;
  std::unique_ptr<ProxyIo> proxy;
};

std::vector<std::byte> pattern(std::size_t size, std::uint32_t seed) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  return data;
}

}  // namespace

TEST_CASE("what is written over several data servers reads back, each with its part") {
  Fixture f(3);
  const auto data = pattern(10 * kUnit + 777, 1);
  const auto written = f.write(5, data);
  REQUIRE(written);
  CHECK(written->bytes == data.size());
  CHECK(written->stability == ProxyIo::Stability::kUnstable);
  CHECK(f.bytes(5, static_cast<std::uint32_t>(data.size())) == data);
  const auto middle = f.bytes(kUnit - 1, 2 * kUnit);
  CHECK(std::equal(middle.begin(), middle.end(), data.begin() + kUnit - 6));
  for (std::uint32_t id = 1; id <= 3; ++id) CHECK(f.objects(id).writes > 0);
  // Sparse packing: server 2 holds the second unit at its place in the file.
  CHECK(std::equal(data.begin() + kUnit - 5, data.begin() + 2 * kUnit - 5,
                   f.objects(2).object.begin() + kUnit));
}

TEST_CASE("reads end at the file's size, with eof there") {
  Fixture f(2);
  REQUIRE(f.write(0, pattern(1000, 2)));
  const auto all = f.read(0, 5000);
  REQUIRE(all);
  CHECK(all->data.size() == 1000);
  CHECK(all->eof);
  const auto part = f.read(0, 999);
  REQUIRE(part);
  CHECK(part->data.size() == 999);
  CHECK_FALSE(part->eof);
  const auto past = f.read(1000, 10);
  REQUIRE(past);
  CHECK(past->data.size() == 0);
  CHECK(past->eof);
}

TEST_CASE("bytes that no object holds are zeros up to the file's size") {
  Fixture f(3);
  REQUIRE(f.write(0, pattern(100, 3)));
  f.set_size(5 * kUnit);
  const auto data = f.bytes(0, 5 * kUnit);
  REQUIRE(data.size() == 5 * kUnit);
  CHECK(std::equal(data.begin(), data.begin() + 100, pattern(100, 3).begin()));
  CHECK(std::all_of(data.begin() + 100, data.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("a data server that knows less of the size than we do is no loss") {
  Fixture f(2);
  REQUIRE(f.write(0, pattern(100, 4)));
  f.size = 3 * kUnit;  // not told to the data servers: they answer eof early
  CHECK(f.bytes(0, 3 * kUnit).size() == 3 * kUnit);
}

TEST_CASE("short reads are continued, delays waited out") {
  Fixture f(2);
  const auto data = pattern(3 * kUnit, 5);
  REQUIRE(f.write(0, data));
  f.objects(1).half_reads = true;
  f.objects(2).delays = 2;
  CHECK(f.bytes(0, 3 * kUnit) == data);
}

TEST_CASE("a data server's error is the caller's") {
  Fixture f(2);
  f.objects(2).failure = Status::NFS4ERR_NOSPC;
  CHECK(f.write(0, pattern(2 * kUnit, 6)).error() == Errc::kNoSpace);
  f.objects(2).failure = Status::NFS4ERR_IO;
  CHECK(f.commit().error() == Errc::kIo);
  CHECK(f.write(layout::kMaxFileSize, pattern(1, 1)).error() == Errc::kFileTooLarge);
}

TEST_CASE("the verifier changes when a data server's does") {
  Fixture f(2);
  const auto first = f.write(0, pattern(2 * kUnit, 7));
  REQUIRE(first);
  CHECK(f.commit().value() == first->verifier);
  CHECK(f.objects(1).commits == 1);
  CHECK(f.objects(2).commits == 1);
  {
    const std::lock_guard lock(f.objects(2).mutex);
    f.objects(2).verifier = 2;  // it restarted
  }
  CHECK(f.commit().value() != first->verifier);
  const auto second = f.write(0, pattern(2 * kUnit, 8));
  REQUIRE(second);
  CHECK(f.commit().value() == second->verifier);
}

TEST_CASE("a data server that moved is found at its new address") {
  Fixture f(1);
  const auto data = pattern(1000, 9);
  REQUIRE(f.write(0, data));
  auto moved = std::make_unique<FakeServer>(1, f.threads, f.pool);
  moved->objects.object = f.objects(1).object;
  moved->objects.file_size = f.size;
  std::swap(f.servers[0], moved);
  moved->stop();
  f.add(1);
  CHECK(f.bytes(0, 1000) == data);
}

TEST_CASE("stopping completes what waits for a data server that is not there") {
  Fixture f(1);
  control::Register request;
  request.store.fill(std::byte{99});
  request.addresses = {layout::make_address("127.0.0.1", 1).value()};
  REQUIRE(f.registry->register_server(request.addresses[0], request)->ds_id == 2);
  f.file.map.copies[0].ds_ids = {2};
  std::promise<Errc> failed;
  f.proxy->commit(f.file, [&](const Result<std::uint64_t>& result) {
    failed.set_value(result ? Errc::kInternal : result.error().code);
  });
  f.proxy->stop();
  const Errc code = failed.get_future().get();
  CHECK((code == Errc::kClosed || code == Errc::kCancelled || code == Errc::kUnreachable));
  CHECK(f.commit().error() == Errc::kClosed);
}
