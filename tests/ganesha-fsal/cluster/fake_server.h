// Data servers that are real control clients on loopback, without disks.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "layout/net_address.h"
#include "rpc/control/client.h"
#include "rpc/control/target_keys.h"
#include "rpc/control/target_options.h"
#include "rpc/control/try_addresses.h"

namespace weft::mds {

namespace control = rpc::control;
using control::Done;

inline rpc::peer::ClusterKey test_key() {
  rpc::peer::ClusterKey key;
  key.bytes.fill(std::byte{42});
  return key;
}

// A data server that keeps sizes and epochs in memory.
class FakeServer final : public control::ClientEvents {
 public:
  // `nfs_port`: where it says it serves clients; by default nobody is there.
  FakeServer(std::uint8_t store, std::uint16_t mds_port, std::uint16_t nfs_port = 0) {
    identity_.store.fill(std::byte{store});
    identity_.name = "fake" + std::to_string(store);
    if (nfs_port == 0) nfs_port = static_cast<std::uint16_t>(3000 + store);
    identity_.addresses = {layout::make_address("127.0.0.1", nfs_port).value()};
    connect(mds_port);
  }
  // Another process, with a copy of that one's store as it is now.
  FakeServer(FakeServer& of, std::uint64_t boot, std::uint16_t mds_port)
      : identity_(of.registration()) {
    identity_.boot = boot;
    connect(mds_port);
  }
  void connect(std::uint16_t mds_port) {
    control::Client::Config config;
    config.mds_host = "127.0.0.1";
    config.mds_port = mds_port;
    config.keys = std::make_shared<rpc::peer::Keyring>(test_key());
    config.backoff_min = std::chrono::milliseconds(10);
    client_ = std::make_unique<control::Client>(config, *this, requests());
    client_->start();
  }
  void disconnect() { client_.reset(); }
  control::Client& client() { return *client_; }
  void hold(std::uint64_t file, std::uint64_t end, std::int64_t mtime_ns = 5) {
    const std::lock_guard lock(mutex);
    sizes[file] = end;
    mtimes[file] = mtime_ns;
  }

  control::Register registration() override {
    const std::lock_guard lock(mutex);
    return identity_;
  }
  void on_registered(control::Registered answer, Done<void> done) override {
    {
      const std::lock_guard lock(mutex);
      identity_.cluster = answer.cluster;
      identity_.ds_id = answer.ds_id;
      identity_.state = control::next_state(identity_.state, identity_.boot);
    }
    raise(answer.fences);
    done({});
  }
  void on_disconnected(const Error&) override {}
  control::Heartbeat heartbeat() override {
    const std::lock_guard lock(mutex);
    return {.space = space, .scrub = scrub, .trouble = trouble, .state = identity_.state};
  }
  void on_lease(TimePoint, std::chrono::seconds length) override {
    if (length.count() == 0) return;
    if (leased) leased();
    ++leases;
  }
  rpc::peer::Table<> requests() {
    rpc::peer::Table<> table;
    table.on(*this, &FakeServer::on_fence);
    table.on(*this, &FakeServer::on_truncate);
    table.on(*this, &FakeServer::on_remove);
    table.on(*this, &FakeServer::on_stat);
    table.on<control::Allocate>([this](control::Allocate request, Done<void> done) {
      change(request.range, std::move(done));
    });
    table.on<control::AllocateShare>([this](control::AllocateShare request, Done<void> done) {
      change(request.range, std::move(done));
    });
    table.on<control::Seek>([this](control::Seek request, Done<control::SeekAnswer> done) {
      const std::lock_guard lock(mutex);
      if (!seek) return done(fail(Errc::kNotSupported, "an older data server"));
      done(seek(request));
    });
    table.on<control::GetKeys>([this](control::GetKeys, Done<control::HeldKeys> done) {
      const std::lock_guard lock(mutex);
      if (keys.empty()) return done(fail(Errc::kNotSupported, "an older data server"));
      done(control::HeldKeys{keys});
    });
    table.on<control::GetTargetKeys>(
        [this](control::GetTargetKeys, Done<control::HeldByTargets> done) {
          const std::lock_guard lock(mutex);
          if (!target_keys) return done(fail(Errc::kNotSupported, "an older data server"));
          done(control::HeldByTargets{*target_keys});
        });
    table.on<control::GetAboutTarget>(
        [this](control::GetAboutTarget request, Done<control::AboutTarget> done) {
          const std::lock_guard lock(mutex);
          if (!about_targets) return done(fail(Errc::kNotSupported, "an older data server"));
          control::AboutTarget told;
          if (request.at < about_targets->size()) told = (*about_targets)[request.at];
          told.targets = static_cast<std::uint32_t>(about_targets->size());
          done(std::move(told));
        });
    table.on<control::TryAddresses>(
        [this](control::TryAddresses request, Done<control::TriedAddresses> done) {
          const std::lock_guard lock(mutex);
          if (!unreached) return done(fail(Errc::kNotSupported, "an older data server"));
          control::TriedAddresses tried;
          for (const layout::NetAddress& address : request.addresses) {
            tried.why.push_back(address == *unreached ? "no answer" : "");
          }
          done(std::move(tried));
        });
    table.on<control::GetSegments>([this](control::GetSegments, Done<control::SegmentCounts> done) {
      const std::lock_guard lock(mutex);
      if (!segments) return done(fail(Errc::kNotFound, "it keeps no segments"));
      done(*segments);
    });
    table.on<control::Punch>([this](control::Punch request, Done<void> done) {
      change(request.range, std::move(done));
    });
    // Copies are equal, whatever is asked to be compared.
    table.on<control::Resync>([this](control::Resync, Done<void> done) {
      ++jobs_;
      done({});
    });
    table.on<control::ResyncStatus>([](control::ResyncStatus, Done<control::ResyncProgress> done) {
      done(control::ResyncProgress{.state = control::ResyncProgress::State::kDone});
    });
    return table;
  }
  void on_fence(control::FenceRequest request, Done<void> done) {
    {
      const std::lock_guard lock(mutex);
      if (hold_fences) {
        held_fences.emplace_back(std::move(request), std::move(done));
        return;
      }
    }
    raise(request.fences);
    done({});
  }
  bool holds_fences() {
    const std::lock_guard lock(mutex);
    return !held_fences.empty();
  }
  void let_fences_go() {
    std::vector<std::pair<control::FenceRequest, Done<void>>> fences;
    {
      const std::lock_guard lock(mutex);
      hold_fences = false;
      fences.swap(held_fences);
    }
    for (auto& [request, done] : fences) {
      raise(request.fences);
      done({});
    }
  }
  void raise(const std::vector<control::Fence>& fences) {
    const std::lock_guard lock(mutex);
    for (const auto& fence : fences) {
      const bool object = fence.what == control::Fence::What::kObject;
      (object ? epochs[fence.object.fileid] : client_epochs[fence.client_id]) = fence.epoch;
    }
  }
  void on_truncate(control::Truncate request, Done<control::ObjectStat> done) {
    const std::lock_guard lock(mutex);
    if (fault) return done(fail(*fault, "the disk"));
    if (hold_cuts) {
      return held_cuts.push_back([this, request, done = std::move(done)]() mutable {
        cut(request.object, request.size, std::move(done));
      });
    }
    cut(request.object, request.size, std::move(done));
  }
  std::size_t cuts_held() {
    const std::lock_guard lock(mutex);
    return held_cuts.size();
  }
  // The disk gets to the held truncate with this number, counted from the oldest.
  void let_go(std::size_t number) {
    const std::lock_guard lock(mutex);
    const auto cut = held_cuts.begin() + static_cast<std::ptrdiff_t>(number);
    (*cut)();
    held_cuts.erase(cut);
  }
  void on_remove(control::Remove request, Done<void> done) {
    const std::lock_guard lock(mutex);
    for (const auto& object : request.objects) sizes.erase(object.fileid);
    done({});
  }
  void on_stat(control::Stat request, Done<control::ObjectStat> done) {
    const std::lock_guard lock(mutex);
    if (hold_stats) {
      return held_stats.push_back(
          [this, request, done = std::move(done)]() mutable { stat(request, std::move(done)); });
    }
    stat(request, std::move(done));
  }
  std::size_t stats_held() {
    const std::lock_guard lock(mutex);
    return held_stats.size();
  }
  void answer_stats() {
    const std::lock_guard lock(mutex);
    hold_stats = false;
    for (auto& answer : std::exchange(held_stats, {})) answer();
  }
  void stat(const control::Stat& request, Done<control::ObjectStat> done) {
    const auto found = sizes.find(request.object.fileid);
    if (found == sizes.end()) return done(control::ObjectStat{});
    const auto written = mtimes.find(request.object.fileid);
    const std::int64_t mtime_ns = written == mtimes.end() ? 5 : written->second;
    done(control::ObjectStat{true, found->second, found->second, mtime_ns});
  }
  void change(const control::Range& range, Done<void> done) {
    const std::lock_guard lock(mutex);
    if (fault) return done(fail(*fault, "the disk"));
    if (silent) return held_ranges.push_back(std::move(done));
    ranges.push_back(range);
    done({});
  }
  bool holds_range() {
    const std::lock_guard lock(mutex);
    return !held_ranges.empty();
  }
  int jobs() const { return jobs_; }

  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> sizes;   // by file id
  std::map<std::uint64_t, std::int64_t> mtimes;   // likewise; of those that hold() was not told, 5
  std::map<std::uint64_t, std::uint32_t> epochs;  // of files
  std::map<std::uint64_t, std::uint32_t> client_epochs;
  std::vector<control::Range> ranges;
  std::function<control::SeekAnswer(const control::Seek&)> seek;
  std::optional<control::SegmentCounts> segments;  // nothing: it keeps none
  std::vector<std::uint64_t> keys;  // that it says it has; none: it does not know the question
  // Likewise, of its targets; nothing: it does not know the question.
  std::optional<std::vector<control::TargetKeys>> target_keys;
  std::optional<std::vector<control::AboutTarget>> about_targets;
  std::optional<layout::NetAddress> unreached;  // of those it is to try; none: it is older
  control::Space space;                         // that its heartbeats tell
  control::GroupScrub scrub;                    // likewise: of its parity group
  std::string trouble;                          // likewise: its store is not there
  std::optional<Errc> fault;                    // of its disk: objects are not changed
  // Truncates wait in held_cuts, for let_go() in whatever order.
  bool hold_cuts = false;
  std::vector<std::move_only_function<void()>> held_cuts;
  // Holes and allocations are not answered.
  bool silent = false;
  std::vector<Done<void>> held_ranges;
  // Fences that it is told wait, until let_fences_go().
  bool hold_fences = false;
  std::vector<std::pair<control::FenceRequest, Done<void>>> held_fences;
  // Likewise questions for the size of objects, until answer_stats().
  bool hold_stats = false;
  std::vector<std::move_only_function<void()>> held_stats;
  std::atomic<int> leases = 0;
  std::function<void()> leased;  // set while not connected

 private:
  void cut(const layout::ObjectId& object, std::uint64_t size, Done<control::ObjectStat> done) {
    sizes[object.fileid] = size;
    done(control::ObjectStat{true, size, size, 5});
  }

  control::Register identity_;
  std::atomic<int> jobs_ = 0;
  std::unique_ptr<control::Client> client_;
};

}  // namespace weft::mds
