// Data servers that mirror each other, in one thread, over a network and a disk that do what the
// test says, and a metadata server that is a list.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataserver/mirror/duplicator.h"
#include "dataserver/nfs/ds_handler.h"
#include "dataserver/store/disk.h"
#include "dataserver/store/file_store.h"
#include "rpc/session/cluster_session.h"
#include "rpc/session/session_server.h"
#include "tests/dataserver/io_thread.h"
#include "tests/dataserver/temp_folder.h"
#include "tests/rpc/transport/in_memory.h"

namespace weft::test {

constexpr layout::ObjectId kMirrored{.fileid = 31, .generation = 1, .fsid = 1};
constexpr std::uint32_t kFirst = 1;
constexpr std::uint32_t kSecond = 2;

class FakeAuthority final : public ds::MirrorAuthority {
 public:
  void locate(std::uint32_t ds_id, std::chrono::milliseconds /*timeout*/,
              Done<rpc::control::Located> done) override {
    ++questions;
    auto answer = [this, ds_id, done = std::move(done)]() mutable {
      if (nowhere) return done(fail(*nowhere));
      done(rpc::control::Located{
          .state = state,
          .addresses =
              {layout::make_address("127.0.0.1", static_cast<std::uint16_t>(ds_id)).value()},
          .rdma = rdma});
    };
    if (hold_places) return held_places.push_back(std::move(answer));
    answer();
  }
  void release_places() {
    hold_places = false;
    for (auto& answer : std::exchange(held_places, {})) answer();
  }
  void copy_missed(const rpc::control::CopyMissed& told, Done<void> done) override {
    asked.push_back(told);
    if (hold) return held.push_back(std::move(done));
    if (error) return done(fail(*error));
    done({});
  }
  void release() {
    hold = false;
    for (auto& done : std::exchange(held, {})) done({});
  }
  rpc::control::Located::State state = rpc::control::Located::State::kUp;
  std::vector<layout::NetAddress> rdma;
  std::optional<Errc> nowhere;  // the answer to where a partner is
  int questions = 0;            // where one is
  bool hold_places = false;
  std::vector<std::move_only_function<void()>> held_places;
  std::vector<rpc::control::CopyMissed> asked;
  std::optional<Errc> error;
  bool hold = false;
  std::vector<Done<void>> held;
};

// In front of a server's handler: holds, refuses, or lets through in any order what comes.
class Trapdoor final : public rpc::OpHandler {
 public:
  explicit Trapdoor(rpc::OpHandler& behind) : behind_(behind) {}
  void execute(rpc::Compound& compound, rpc::nfs4::OpArgs op, rpc::OpDone done) override {
    if (op.op != rpc::nfs4::Op::OP_PUTFH) ++seen[op.op];
    if (refuse && op.op != rpc::nfs4::Op::OP_PUTFH) {
      return done(rpc::nfs4::failed(op.op, *refuse));
    }
    if ((hold || shuffle) && op.op != rpc::nfs4::Op::OP_PUTFH) {
      return held.push_back(
          [this, &compound, op = std::move(op), done = std::move(done)]() mutable {
            behind_.execute(compound, std::move(op), std::move(done));
          });
    }
    behind_.execute(compound, std::move(op), std::move(done));
  }
  void release() {
    hold = false;
    for (auto& call : std::exchange(held, {})) call();
  }
  // One of those held, any.
  void release_one(Random& random) {
    if (hold || held.empty()) return;
    std::swap(held[random.below(held.size())], held.back());
    auto call = std::move(held.back());
    held.pop_back();
    call();
  }
  bool shuffle = false;
  std::map<rpc::nfs4::Op, int> seen;
  std::optional<rpc::nfs4::Status> refuse;
  bool hold = false;
  std::vector<std::move_only_function<void()>> held;

 private:
  rpc::OpHandler& behind_;
};

class FailingDisk final : public ds::Faults {
 public:
  int write_error(const layout::ObjectId&, std::uint64_t) override {
    if (const int refused = on_write ? on_write() : 0; refused != 0) return refused;
    if (writing_heals) at_read = 0;
    return error;
  }
  int sync_error(const layout::ObjectId&) override { return at_sync; }
  int read_error(const layout::ObjectId&, std::uint64_t offset) override {
    return bad && offset >= bad->begin && offset < bad->end ? EIO : at_read;
  }
  std::optional<ds::ByteRange> bad;  // where reads begin that fail
  std::function<int()> on_write;
  int error = 0;
  int at_sync = 0;
  int at_read = 0;
  bool writing_heals = false;  // what could not be read can be again
};

// Goes with the time, and jumps when the test says so.
class JumpClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return system_clock().now() + ahead; }
  [[nodiscard]] std::int64_t wall_ns() const override { return system_clock().wall_ns(); }
  std::chrono::seconds ahead{0};
};

struct MirrorRig {
  struct Server {
    std::unique_ptr<ds::FileStore> store;
    OwnedFd directory;
    std::unique_ptr<ds::FenceTable> fences;
    std::unique_ptr<ds::HandleGate> gate;
    std::unique_ptr<ds::Counters> counters;
    std::unique_ptr<ds::WritesInFlight> writes;
    std::unique_ptr<ds::Duplicator> duplicator;
    std::unique_ptr<ds::DsHandler> handler;
    std::unique_ptr<Trapdoor> door;
    std::unique_ptr<rpc::SessionServer> sessions;
    FailingDisk disk;
    bool reachable = true;
  };
  struct Answer {
    rpc::nfs4::Status status;
    rpc::nfs4::WriteOk ok;
    rpc::nfs4::Verifier verifier = 0;
  };
  using Pending = std::shared_ptr<std::optional<Answer>>;

  explicit MirrorRig(std::uint64_t seed = 1) : random(seed), network(pool, random) {
    options.timeout = std::chrono::milliseconds(300);
    for (const std::uint32_t id : {kFirst, kSecond}) start(id);
  }
  ~MirrorRig() {
    for (auto& [id, server] : servers) {
      server.door->release();
      server.reachable = true;
    }
    authority.release();
    settle();
    for (auto& [id, server] : servers) server.sessions.reset();
    for (auto& [id, server] : servers) end_links(server);
    settle();
    thread.drain();
  }

  // Also again, after kill(): the same store, as after a crash.
  void start(std::uint32_t id) {
    Server& s = servers[id];
    ds::FileStoreOptions store;
    store.path = folder.path() + "/store" + std::to_string(id);
    store.faults = &s.disk;
    s.store = std::move(ds::FileStore::open(store, pool).value());
    s.directory = ds::open_directory(store.path).value();
    s.fences = std::move(ds::FenceTable::open(s.directory.get()).value());
    s.gate = std::make_unique<ds::HandleGate>(keys, id, *s.fences);
    s.gate->lease().never_ends();
    s.counters = std::make_unique<ds::Counters>(1);
    s.writes = std::make_unique<ds::WritesInFlight>(std::vector{&thread.ring()});
    s.duplicator = std::make_unique<ds::Duplicator>(
        ds::Duplicator::Parts{.store = *s.store,
                              .keys = keys,
                              .authority = authority,
                              .clock = system_clock(),
                              .rings = {&thread.ring()},
                              .boot = random.u64(),
                              .options = options,
                              .link = link_config("rig" + std::to_string(id)),
                              .reports = {.deadline = std::chrono::milliseconds(300),
                                          .retry_after = std::chrono::milliseconds(20)}});
    s.handler = std::make_unique<ds::DsHandler>(
        ds::DsHandler::Parts{*s.store, *s.gate, sizes, *s.writes, *s.counters, clock,
                             s.duplicator.get(), nullptr, &pool});
    s.door = std::make_unique<Trapdoor>(*s.handler);
    rpc::SessionServerOptions session;
    session.server_major_id = "server" + std::to_string(id);
    session.server_key = [this](const rpc::nfs4::ExchangeIdArgs& args) {
      return rpc::server_key(*keys, args);
    };
    s.sessions =
        std::make_unique<rpc::SessionServer>(session, *s.door, system_clock(), system_random());
    s.reachable = true;
  }
  ds::LinkConfig link_config(std::string owner) {
    ds::LinkConfig link;
    link.owner = std::move(owner);
    link.keys = keys;
    link.probe_every = probe_every;
    link.look_after = std::chrono::milliseconds(20);
    link.locate_every = locate_every;
    link.make_dial = [this](auto&, const auto& found, auto /*better*/) {
      network.by_rdma = by_rdma = !found.rdma.empty();
      return dial(found.addresses.at(0).port);
    };
    return link;
  }
  void cut() {
    for (std::size_t i = 0; i < network.connections(); ++i) network.cut(i);
  }
  // Unstable data that is in the page cache survives, but the verifier does not.
  void kill(std::uint32_t id) {
    Server& s = servers.at(id);
    s.reachable = false;
    cut();
    settle();
    s.sessions.reset();
    end_links(s);
    settle();
    s.handler.reset();
    s.duplicator.reset();
    s.fences.reset();
    s.store.reset();
  }
  static void end_links(Server& server) {
    if (server.duplicator) server.duplicator->end_links();
  }
  rpc::Dial dial(std::uint32_t id) {
    return [this, id](auto done) {
      Server& server = servers.at(id);
      if (!server.reachable) return done(fail(Errc::kUnreachable, "refused"));
      auto pair = network.connect();
      server.sessions->serve(pair.b);
      done(std::move(pair.a));
    };
  }

  void turn() {
    thread.poll();
    network.step();
    for (auto& [id, server] : servers) {
      if (server.door && random.below(2) == 0) server.door->release_one(random);
    }
  }
  void settle() {
    for (int i = 0; i < 300; ++i) turn();
  }
  template <class Finished>
  bool run_until(Finished finished) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!finished()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      turn();
    }
    return true;
  }
  // Time passes, and what is due happens.
  void pass(std::chrono::milliseconds span) {
    const auto until = std::chrono::steady_clock::now() + span;
    while (std::chrono::steady_clock::now() < until) turn();
  }

  layout::Handle handle(layout::Duplication duplication = layout::Duplication::kServerSync,
                        std::uint32_t epoch = 1) const {
    return {.access = layout::Access::kReadWrite,
            .key_id = 1,
            .ds_id = kFirst,
            .object = kMirrored,
            .client_id = 5,
            .object_epoch = epoch,
            .client_epoch = 1,
            .duplication = duplication,
            .partners = {kSecond, 0}};
  }
  Pending start_op(const layout::Handle& handle, rpc::nfs4::OpArgs op) {
    auto answer = std::make_shared<std::optional<Answer>>();
    rpc::OpHandler& to = *servers.at(handle.ds_id).handler;
    auto compound = std::make_shared<rpc::Compound>();
    compound->client = &client;
    compound->max_read = 1 << 20;
    const auto sealed = layout::seal(handle, key);
    auto rest = std::make_shared<rpc::nfs4::OpArgs>(std::move(op));
    to.execute(
        *compound, {rpc::nfs4::Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(sealed)}},
        [&to, compound, rest, answer](rpc::nfs4::OpResult put) {
          if (put.status != rpc::nfs4::Status::NFS4_OK) {
            answer->emplace(Answer{put.status, {}, 0});
            return;
          }
          to.execute(*compound, std::move(*rest), [compound, answer](rpc::nfs4::OpResult result) {
            Answer got{result.status, {}, 0};
            if (auto* ok = std::get_if<rpc::nfs4::WriteOk>(&result.ok)) {
              got.ok = *ok;
              got.verifier = ok->verifier;
            }
            if (auto* ok = std::get_if<rpc::nfs4::CommitOk>(&result.ok)) {
              got.verifier = ok->verifier;
            }
            answer->emplace(got);
          });
        });
    return answer;
  }
  Pending start_write(const layout::Handle& handle, std::uint64_t offset, const std::string& bytes,
                      rpc::nfs4::StableHow stable = rpc::nfs4::StableHow::UNSTABLE4) {
    rpc::nfs4::WriteArgs args{.offset = offset, .stable = stable};
    auto buffer = pool.allocate(bytes.size()).value();
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
    args.data.push_back(std::move(buffer));
    return start_op(handle, {rpc::nfs4::Op::OP_WRITE, std::move(args)});
  }
  Answer wait(const Pending& pending) {
    run_until([&] { return pending->has_value(); });
    return pending->value();
  }
  Answer write(const layout::Handle& handle, std::uint64_t offset, const std::string& bytes,
               rpc::nfs4::StableHow stable = rpc::nfs4::StableHow::UNSTABLE4) {
    return wait(start_write(handle, offset, bytes, stable));
  }
  Answer commit(const layout::Handle& handle) {
    return wait(start_op(handle, {rpc::nfs4::Op::OP_COMMIT, rpc::nfs4::CommitArgs{}}));
  }
  // All of an object's bytes, read from the store itself.
  std::string bytes(std::uint32_t id, const layout::ObjectId& object = kMirrored) {
    std::string all;
    for (;;) {
      std::optional<Result<ds::ReadResult>> got;
      servers.at(id).store->read(object, all.size(), 1 << 20,
                                 [&](Result<ds::ReadResult> r) { got = std::move(r); });
      run_until([&] { return got.has_value(); });
      if (!*got || (*got)->payload.size() == 0) return all;
      const auto part = (*got)->payload.flatten().value();
      all.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
  }

  IoThread thread;
  TempFolder folder;
  BufferPool pool{std::size_t{256} << 20};
  SeededRandom random;
  rpc::MemoryNetwork network;
  std::shared_ptr<rpc::peer::Keyring> keys =
      std::make_shared<rpc::peer::Keyring>(rpc::peer::ClusterKey{{std::byte{1}}});
  layout::HandleKey key = keys->sealing();
  ds::LocalSizes sizes;
  ds::MirrorOptions options;
  JumpClock clock;  // of the handlers
  std::chrono::milliseconds probe_every{20};
  std::chrono::milliseconds locate_every{0};
  bool by_rdma = false;  // what was dialled last had RDMA
  FakeAuthority authority;
  std::map<std::uint32_t, Server> servers;
  rpc::ClientInfo client{.id = 1, .server = true};
};

}  // namespace weft::test
