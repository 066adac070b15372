// Data servers of which only the NFS side is there: real NFSv4.1 session servers on loopback, with
// objects in memory. What is written through a handle that names partners goes to them too, as with
// synchronous duplication.
#pragma once

#include <algorithm>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "layout/handle.h"
#include "rpc/base/clock.h"
#include "rpc/peer/keys.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/shm/bulk_channel.h"
#include "rpc/transport/shm/shm_server.h"
#include "rpc/transport/tcp_server.h"

namespace weft::mds {

inline constexpr rpc::peer::ClusterKey kNfsClusterKey{{std::byte{9}}};
inline const layout::HandleKey kNfsKey = rpc::peer::handle_key(kNfsClusterKey);

// The object of one data server (one file is enough), and how it misbehaves.
class FakeObjects final : public rpc::OpHandler {
  using Op = rpc::nfs4::Op;
  using Status = rpc::nfs4::Status;

 public:
  using Peers = std::map<std::uint32_t, FakeObjects*>;

  FakeObjects(std::uint32_t ds_id, BufferPool& pool, const Peers& peers,
              const layout::HandleKey& key)
      : ds_id_(ds_id), pool_(pool), peers_(peers), key_(key) {}

  void execute(rpc::Compound& compound, rpc::nfs4::OpArgs op, rpc::OpDone done) override {
    std::unique_lock lock(mutex);
    if (op.op == Op::OP_PUTFH) return put_handle(std::get<rpc::nfs4::PutFhArgs>(op.args), done);
    if (silent) {  // as one that hangs: never answered
      held.push_back(std::move(done));
      return;
    }
    if (delays > 0) {
      --delays;
      return done(rpc::nfs4::failed(op.op, Status::NFS4ERR_DELAY));
    }
    if (failure != Status::NFS4_OK) return done(rpc::nfs4::failed(op.op, failure));
    if (op.op == Op::OP_READ) return read(compound, std::get<rpc::nfs4::ReadArgs>(op.args), done);
    if (op.op == Op::OP_WRITE) return write(lock, std::get<rpc::nfs4::WriteArgs>(op.args), done);
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
  std::uint32_t least_epoch = 0;
  int delays = 0;
  bool half_reads = false;
  bool silent = false;
  Status failure = Status::NFS4_OK;
  int reads = 0;
  int writes = 0;  // from clients
  int commits = 0;
  layout::Handle last_write;  // the handle it came by
  std::vector<rpc::OpDone> held;

 private:
  void put_handle(const rpc::nfs4::PutFhArgs& args, rpc::OpDone& done) {
    const auto handle = layout::unseal(args.handle.bytes(), key_, rpc::peer::kHandleKeyId);
    Status status = Status::NFS4_OK;
    if (!handle || handle->ds_id != ds_id_) {
      status = Status::NFS4ERR_BADHANDLE;
    } else if (handle->object_epoch < least_epoch) {
      status = Status::NFS4ERR_ACCESS;
    } else {
      current_ = *handle;
    }
    done({Op::OP_PUTFH, status, {}, 0});
  }

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

  // Lets go of its own lock before it takes a partner's: two servers may be each other's partners.
  void write(std::unique_lock<std::mutex>& own, const rpc::nfs4::WriteArgs& args,
             rpc::OpDone& done) {
    ++writes;
    const layout::Handle handle = last_write = current_;
    put(args);
    const std::uint64_t verf = verifier;
    own.unlock();
    for (const std::uint32_t partner : handle.partners) {
      if (partner == 0) continue;
      FakeObjects& peer = *peers_.at(partner);
      const std::lock_guard lock(peer.mutex);
      if (handle.object_epoch >= peer.least_epoch) peer.put(args);
    }
    std::uint32_t written = 0;
    for (const Buffer& piece : args.data) written += static_cast<std::uint32_t>(piece.size());
    done({Op::OP_WRITE, Status::NFS4_OK, rpc::nfs4::WriteOk{written, args.stable, verf}, 0});
  }

  void put(const rpc::nfs4::WriteArgs& args) {
    std::uint64_t at = args.offset;
    for (const Buffer& piece : args.data) {
      if (object.size() < at + piece.size()) object.resize(at + piece.size());
      std::memcpy(object.data() + at, piece.data(), piece.size());
      at += piece.size();
    }
  }

  const std::uint32_t ds_id_;
  BufferPool& pool_;
  const Peers& peers_;
  const layout::HandleKey key_;
  layout::Handle current_;  // compounds are run one at a time
};

// One data server: its own listening socket and sessions over a shared I/O thread (one: what was
// held back is answered on it, as rpc/session/handler.h wants).
struct FakeNfs {
  FakeNfs(std::uint32_t id, rpc::IoThreads& io_threads, BufferPool& buffers,
          const FakeObjects::Peers& peers, const layout::HandleKey& key = kNfsKey)
      : threads(io_threads),
        pool(buffers),
        io(threads.context(0)),
        objects(id, pool, peers, key),
        sessions({.server_major_id = "fake-" + std::to_string(id)}, objects, system_clock(),
                 system_random()),
        tcp(threads, pool, {.address = "127.0.0.1", .limits = {}},
            [this](std::shared_ptr<rpc::Channel> channel) { sessions.serve(std::move(channel)); }) {
    REQUIRE(tcp.listen());
  }
  // What it held back is answered so.
  void let_go(rpc::nfs4::Status status) {
    std::vector<rpc::OpDone> held;
    {
      const std::lock_guard lock(objects.mutex);
      objects.silent = false;
      held = std::exchange(objects.held, {});
    }
    std::promise<void> answered;
    boost::asio::post(io, [&] {
      for (auto& done : held) done(rpc::nfs4::failed(rpc::nfs4::Op::OP_WRITE, status));
      answered.set_value();
    });
    REQUIRE(answered.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  }
  // Also through shared memory, as the data server with this store.
  void listen(const std::string& socket, const rpc::ServerIdentity& store) {
    local = std::make_unique<rpc::ShmServer>(
        threads, pool,
        rpc::ShmServerOptions{.path = socket, .mode = 0600, .users = {}, .limits = {}},
        [this, store](std::shared_ptr<rpc::Channel> channel) {
          auto bulk = rpc::serve_bulk(std::move(channel), store, shared);
          near = bulk;
          sessions.serve(std::move(bulk));
        });
    REQUIRE(local->listen());
  }
  // Ends that, and what came by it, and nothing else.
  void unlisten() {
    local->stop();
    boost::asio::post(io, [this] {
      if (const auto open = near.lock()) open->close({Errc::kClosed, "gone"}, false);
    });
  }
  // As a process that was killed.
  void stop() {
    if (std::exchange(stopped, true)) return;
    tcp.cut();
    tcp.stop();
    if (local != nullptr) local->stop();
    let_go(rpc::nfs4::Status::NFS4ERR_IO);  // sessions wait for it; nobody reads it
    std::promise<void> drained;
    sessions.drain([&] { drained.set_value(); });
    REQUIRE(drained.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  }

  rpc::IoThreads& threads;
  BufferPool& pool;
  boost::asio::io_context& io;
  FakeObjects objects;
  rpc::SessionServer sessions;
  rpc::TcpServer tcp;
  std::shared_ptr<rpc::BulkCounts> shared = std::make_shared<rpc::BulkCounts>();
  std::weak_ptr<rpc::Channel> near;  // the newest by shared memory
  std::unique_ptr<rpc::ShmServer> local;
  bool stopped = false;
};

inline std::vector<std::byte> pattern(std::size_t size, std::uint32_t seed) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  return data;
}

}  // namespace weft::mds
