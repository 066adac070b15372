// A DsHandler over a real store, with a metadata server that says what the test wants.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataserver/nfs/ds_handler.h"
#include "dataserver/store/disk.h"
#include "dataserver/store/file_store.h"
#include "tests/dataserver/io_thread.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::test {

constexpr layout::ObjectId kRigObject{.fileid = 11, .generation = 1, .fsid = 1};
constexpr std::uint32_t kRigDsId = 7;

class ScriptedSizes final : public ds::SizeAuthority {
 public:
  void query(const layout::ObjectId& /*object*/, Done<std::uint64_t> done) override {
    ++queries;
    if (hold) return held.push_back(std::move(done));
    if (error) return done(fail(*error));
    done(file_size);
  }
  void report(const layout::Handle& /*by*/, std::uint64_t end, std::int64_t /*mtime_ns*/,
              Done<void> done) override {
    if (error) return done(fail(*error));
    reports.push_back(end);
    done(Result<>{});
  }
  std::uint64_t file_size = 0;
  std::optional<Errc> error;
  int queries = 0;
  bool hold = false;  // queries are answered by the test
  std::vector<Done<std::uint64_t>> held;
  std::vector<std::uint64_t> reports;
};

struct Grant {
  layout::Access access = layout::Access::kReadWrite;
  std::uint32_t ds_id = kRigDsId;
  std::uint32_t epoch = 0;
};

struct HandlerRig {
  HandlerRig() {
    ds::FileStoreOptions options;
    options.path = folder.path() + "/store";
    store = std::move(ds::FileStore::open(options, pool).value());
    directory = ds::open_directory(options.path).value();
    fences = std::move(ds::FenceTable::open(directory.get()).value());
    gate.emplace(keys, kRigDsId, *fences, clock);
    gate->lease().never_ends();
    handler.emplace(ds::DsHandler::Parts{*store, *gate, sizes, writes, counters, clock, nullptr,
                                         nullptr, &pool});
    compound.client = &client;
    compound.max_read = 1 << 20;
  }
  ~HandlerRig() { thread.drain(); }
  // Requests without a lease wait there from now on.
  void wait_by(ds::LeaseWait& wait) {
    handler.emplace(
        ds::DsHandler::Parts{*store, *gate, sizes, writes, counters, clock, nullptr, &wait, &pool});
  }

  layout::SealedHandle handle(Grant grant = {}) const {
    return layout::seal({.access = grant.access,
                         .key_id = 1,
                         .ds_id = grant.ds_id,
                         .object = kRigObject,
                         .client_id = 5,
                         .object_epoch = grant.epoch},
                        key);
  }

  rpc::nfs4::OpResult run(rpc::nfs4::OpArgs op) {
    std::optional<rpc::nfs4::OpResult> result;
    handler->execute(compound, std::move(op),
                     [&](rpc::nfs4::OpResult r) { result = std::move(r); });
    thread.run_until([&] { return result.has_value(); });
    return std::move(result.value());
  }
  rpc::nfs4::Status put(std::span<const std::byte> bytes) {
    return run({rpc::nfs4::Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(bytes)}})
        .status;
  }

  struct Written {
    rpc::nfs4::Status status;
    rpc::nfs4::WriteOk ok;
  };
  Written write(std::uint64_t offset, const std::string& bytes,
                rpc::nfs4::StableHow stable = rpc::nfs4::StableHow::UNSTABLE4) {
    rpc::nfs4::WriteArgs args{.offset = offset, .stable = stable};
    auto buffer = pool.allocate(bytes.size()).value();
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
    args.data.push_back(std::move(buffer));
    auto result = run({rpc::nfs4::Op::OP_WRITE, std::move(args)});
    const auto* ok = std::get_if<rpc::nfs4::WriteOk>(&result.ok);
    return {result.status, ok != nullptr ? *ok : rpc::nfs4::WriteOk{}};
  }

  struct Got {
    rpc::nfs4::Status status;
    std::string text;
    bool eof = false;
  };
  Got read(std::uint64_t offset, std::uint32_t count) {
    auto result =
        run({rpc::nfs4::Op::OP_READ, rpc::nfs4::ReadArgs{.offset = offset, .count = count}});
    const auto* ok = std::get_if<rpc::nfs4::ReadOk>(&result.ok);
    if (ok == nullptr) return {result.status, {}};
    const auto bytes = ok->data.flatten().value();
    return {result.status, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
            ok->eof};
  }

  std::pair<rpc::nfs4::Status, ds::WriteVerifier> commit(std::uint64_t offset = 0,
                                                         std::uint32_t count = 0) {
    auto result = run({rpc::nfs4::Op::OP_COMMIT, rpc::nfs4::CommitArgs{offset, count}});
    const auto* ok = std::get_if<rpc::nfs4::CommitOk>(&result.ok);
    return {result.status, ok != nullptr ? ok->verifier : 0};
  }

  IoThread thread;
  TempFolder folder;
  BufferPool pool{std::size_t{64} << 20};
  std::shared_ptr<rpc::peer::Keyring> keys =
      std::make_shared<rpc::peer::Keyring>(rpc::peer::ClusterKey{{std::byte{1}}});
  layout::HandleKey key = keys->sealing();
  std::unique_ptr<ds::FileStore> store;
  OwnedFd directory;
  std::unique_ptr<ds::FenceTable> fences;
  std::optional<ds::HandleGate> gate;
  ScriptedSizes sizes;
  ds::WritesInFlight writes{{&thread.ring()}};
  ds::Counters counters{1};
  ManualClock clock;
  std::optional<ds::DsHandler> handler;
  rpc::ClientInfo client{.id = 1, .server = true};
  rpc::Compound compound;
};

}  // namespace weft::test
