// A metadata server without Ganesha: everything below the FSAL, over a store that outlives it.
#pragma once

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <future>
#include <memory>
#include <thread>

#include "ganesha-fsal/files/cluster_links.h"
#include "ganesha-fsal/files/file_data.h"
#include "layout/placement_by_load.h"
#include "tests/ganesha-fsal/cluster/fake_server.h"

namespace weft::mds {

using namespace std::chrono_literals;

using Later = std::atomic<std::chrono::seconds>;

// Clients that give nothing back.
struct NoRecaller : Recaller {
  void recall(FileId, ClientId, std::optional<layout::Access>, std::function<void()>) override {}
  void recall_unused(ClientId, std::function<void(bool)>) override {}
};

struct RunWaits {
  Clock::duration linger = 5s;  // of records in the journal
  Clock::duration commit_after = 10s;
  Clock::duration owing_for = 0s;
};

// One run of the metadata server over a store.
class Run {
 public:
  // `later` is added to the clock by which data servers' leases end; it outlives the run.
  Run(Namespace& names, KvStore& store, std::uint16_t port, const Later* later = nullptr,
      RunWaits waits = {})
      : names_(names),
        waits_(waits),
        sizes_(names, [](FileId) {}),
        cluster_(start(store, port, later)) {
    policy.reserve_bytes = 0;
    policy.stripe_unit = 1024;
    REQUIRE(data.open());
  }
  Cluster& cluster() { return *cluster_; }
  std::uint16_t port() const { return cluster_->address().port; }
  void await_up(std::uint32_t ds_id) {
    for (int i = 0; i < 2000 && !cluster_->registry().is_connected(ds_id); ++i) {
      std::this_thread::sleep_for(5ms);
    }
    REQUIRE(cluster_->registry().is_connected(ds_id));
  }
  Result<FileData::Granted> grant(FileId file, ClientId client, layout::Access access) {
    return data.grant({.file = file, .client = client, .access = access, .max_bytes = 4096},
                      policy);
  }
  // Both steps, waiting in between.
  Result<FileData::Read> read(FileId file, std::uint64_t offset, std::uint32_t count) {
    std::promise<void> answered;
    auto begun = data.begin_read(file, offset, count, [&] { answered.set_value(); });
    if (!begun) return pass(begun);
    if ((*begun)->later) answered.get_future().wait();
    return data.end_read(**begun);
  }
  Result<ProxyIo::WriteResult> write(FileId file, std::uint64_t offset,
                                     std::span<const std::byte> bytes,
                                     ProxyIo::Stability wanted = ProxyIo::Stability::kUnstable) {
    const ProxyIo::Pieces pieces(&bytes, 1);
    std::promise<void> answered;
    auto begun =
        data.begin_write(file, offset, pieces, wanted, policy, [&] { answered.set_value(); });
    if (!begun) return pass(begun);
    if ((*begun)->later) answered.get_future().wait();
    return data.end_write(**begun, pieces);
  }

 private:
  std::unique_ptr<Cluster> start(KvStore& store, std::uint16_t port, const Later* later) {
    Cluster::Config config;
    config.listen = layout::make_address("127.0.0.1", port).value();
    config.keys = std::make_shared<control::Keyring>(test_key());
    config.registry.cluster = names_.superblock().cluster_uuid;
    config.registry.heartbeat_ms = 50;
    config.call_timeout = 2s;
    if (later != nullptr) {
      config.registry.now = [later] { return Registry::Clock::now() + later->load(); };
    }
    auto started = Cluster::start(config, store, sizes_);
    REQUIRE(started);
    return std::move(*started);
  }

  Namespace& names_;
  const RunWaits waits_;
  NamespaceSizes sizes_;
  std::unique_ptr<Cluster> cluster_;
  BufferPool pool_{64U << 20};
  layout::ByLoad placement_;
  NoRecaller recaller_;
  DsFencer fencer_{names_, *cluster_};

 public:
  layout::PlacementPolicy policy;
  ProxyIo proxy{
      {.owner = "test", .keys = std::make_shared<control::Keyring>(test_key()), .call_timeout = 3s},
      cluster_->registry(),
      pool_};
  LayoutService layouts{recaller_,
                        fencer_,
                        {},
                        [] { return Clock::now(); },
                        [](FileId) {},
                        [this](FileId file) { data.writer_fenced(file); }};
  WriterJournal journal{{.names = names_,
                         .in_use =
                             [this](FileId file) {
                               return layouts.held_for_write(file) || layouts.blocked(file) ||
                                      data.uncommitted(file) || mirrors.owes(file);
                             },
                         .linger = waits_.linger}};
  Mirrors mirrors{
      {.names = names_,
       .journal = journal,
       .layouts = layouts,
       .reach = [this](std::uint32_t id) { return cluster_->registry().reach(id); },
       .dead = [this](std::uint32_t id) { return cluster_->registry().is_dead(id); },
       .servers = [this] { return cluster_->registry().candidates(); },
       .fence = [this](std::span<const std::uint32_t> ds_ids, const control::Fence& fence,
                       Done<void> done) { cluster_->fence(ds_ids, {fence}, std::move(done)); },
       .grants_known = [] { return true; },
       .owing_for = waits_.owing_for}};
  std::function<Result<>(FileId)> compare = [](FileId) -> Result<> { return {}; };
  FileData data{{names_, *cluster_, proxy, layouts, fencer_, placement_, journal, mirrors,
                 [](FileId) {}, [this](FileId file) { return compare(file); },
                 waits_.commit_after}};
};

}  // namespace weft::mds
