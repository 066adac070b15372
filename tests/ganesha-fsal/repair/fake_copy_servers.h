// Data servers that mend copies as the test says, and a Repairer over a namespace in memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <set>

#include "ganesha-fsal/repair/repairer.h"
#include "layout/relocation.h"
#include "rpc/base/assert.h"
#include "rpc/control/unreadable.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {

class FakeCopyServers final : public DataServers {
 public:
  using State = control::ResyncProgress::State;

  FakeCopyServers() {
    answer<control::ForgetMissed>(
        [this](std::uint32_t ds_id, const auto& forget) { return forget_missed(ds_id, forget); });
    answer<control::Resync>(
        [this](std::uint32_t ds_id, const auto& job) { return resync(ds_id, job); });
    answer<control::ResyncStatus>(
        [this](std::uint32_t ds_id, const auto& asked) { return status(ds_id, asked.job); });
    answer<control::GetUnreadable>(
        [this](std::uint32_t, const auto&) -> Result<control::Unreadable> {
          const std::lock_guard lock(mutex);
          if (!unreadable) return fail(Errc::kNotSupported, "of an earlier version");
          return control::Unreadable{*unreadable};
        });
    answer<control::ResyncCancel>(
        [this](std::uint32_t, const auto& asked) { return cancel(asked.job); });
    answer<control::Stat>([this](std::uint32_t ds_id, const auto&) -> Result<control::ObjectStat> {
      const std::lock_guard lock(mutex);
      if (gone.contains(ds_id)) return fail(Errc::kUnreachable, "gone");
      const auto size = sizes.find(ds_id);
      if (size == sizes.end()) return control::ObjectStat{.exists = true, .size = 100};
      if (!size->second) return control::ObjectStat{};
      return control::ObjectStat{.exists = true, .size = *size->second, .mtime_ns = mtimes[ds_id]};
    });
  }

  void fence(std::span<const std::uint32_t> ds_ids, std::vector<control::Fence> fences,
             Done<void> done) override {
    Result<> outcome;
    {
      const std::lock_guard lock(mutex);
      calls.push_back("fence");
      fence_calls.emplace_back(ds_ids.begin(), ds_ids.end());
      for (const std::uint32_t id : ds_ids) fenced[id] = fences.front().epoch;
      if (std::ranges::any_of(ds_ids, [this](std::uint32_t id) { return gone.contains(id); })) {
        outcome = fail(Errc::kUnreachable, "gone");
      }
    }
    done(std::move(outcome));
  }
  Result<> forget_missed(std::uint32_t ds_id, const control::ForgetMissed& forget) {
    const std::lock_guard lock(mutex);
    calls.push_back("forget");
    if (gone.contains(ds_id)) return fail(Errc::kUnreachable, "gone");
    forgotten.emplace_back(ds_id, forget.ds_id);
    return {};
  }
  Result<> resync(std::uint32_t ds_id, const control::Resync& job) {
    std::function<void(const control::Resync&)> hook;
    {
      const std::lock_guard lock(mutex);
      if (gone.contains(ds_id)) return fail(Errc::kUnreachable, "gone");
      if (refuse > 0 && refuse-- > 0) return fail(Errc::kBusy, "too many");
      calls.push_back("resync");
      jobs.emplace_back(ds_id, job);
      progress[job.job] = {.state = finish_at_once ? State::kDone : State::kRunning,
                           .total_bytes = 100,
                           .compared_bytes = 100,
                           .differing_bytes = differing ? differing(ds_id, job) : 0,
                           .copied_bytes = 7};
      const std::uint64_t bytes = progress[job.job].differing_bytes;
      if (bytes > 0) progress[job.job].differing = {{0, bytes}};
      if (bytes > 0 && differing_at) progress[job.job].differing = differing_at(job);
      const auto source = sizes.find(job.source);
      if (!job.report_only && source != sizes.end()) sizes[ds_id] = source->second;
      ++running[ds_id];
      most[ds_id] = std::max(most[ds_id], running[ds_id]);
      hook = begun;
    }
    if (hook) hook(job);
    const std::lock_guard lock(mutex);
    if (unanswered > 0 && unanswered-- > 0) return fail(Errc::kTimedOut, "no answer");
    return {};
  }
  Result<control::ResyncProgress> status(std::uint32_t ds_id, std::uint64_t job) {
    const std::lock_guard lock(mutex);
    if (away.contains(ds_id)) return fail(Errc::kUnreachable, "away");
    const auto at = progress[job];
    if (at.state != State::kRunning && ended.insert(job).second) --running[ds_id];
    return at;
  }
  Result<> cancel(std::uint64_t job) {
    const std::lock_guard lock(mutex);
    if (uncancelled > 0 && uncancelled-- > 0) return fail(Errc::kTimedOut, "away for a moment");
    cancelled.push_back(job);
    if (progress[job].state == State::kRunning) progress[job].state = State::kFailed;
    return {};
  }

  void end_all(State state) {
    const std::lock_guard lock(mutex);
    for (auto& [number, at] : progress) {
      if (at.state == State::kRunning) at.state = state;
    }
  }
  std::size_t begun_jobs() {
    const std::lock_guard lock(mutex);
    return jobs.size();
  }

  std::mutex mutex;
  std::vector<std::string> calls;
  std::vector<std::vector<std::uint32_t>> fence_calls;
  std::map<std::uint32_t, std::uint32_t> fenced;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> forgotten;
  std::vector<std::pair<std::uint32_t, control::Resync>> jobs;
  std::map<std::uint64_t, control::ResyncProgress> progress;
  std::set<std::uint64_t> ended;
  std::map<std::uint32_t, unsigned> running;
  std::map<std::uint32_t, unsigned> most;
  std::set<std::uint32_t> away;  // they have jobs, and say nothing of them
  std::set<std::uint32_t> gone;
  // Of every object there; nothing: there is none. 100 where nothing is said.
  std::map<std::uint32_t, std::optional<std::uint64_t>> sizes;
  std::map<std::uint32_t, std::int64_t> mtimes;
  std::vector<std::uint64_t> cancelled;
  std::function<void(const control::Resync&)> begun;
  std::function<std::uint64_t(std::uint32_t ds_id, const control::Resync&)> differing;
  // Where, of so many bytes; else at the beginning.
  std::function<std::vector<control::Extent>(const control::Resync&)> differing_at;
  std::optional<std::vector<control::Extent>> unreadable;  // of every job
  int refuse = 0;
  int uncancelled = 0;                      // so many calls to cancel have no answer
  int unanswered = 0;                       // so many jobs begin, and nobody hears of it
  std::atomic<bool> finish_at_once = true;  // tests turn it while workers run

 private:
  void send(std::uint32_t ds_id, std::uint32_t verb, rpc::peer::Bytes arguments,
            Done<rpc::peer::Bytes> done) override {
    table_.serve(ds_id, verb, arguments, std::move(done));
  }
  template <class R, class Handler>
  void answer(Handler handler) {
    table_.on<R>([handler](std::uint32_t ds_id, const R& request, Done<typename R::Reply> done) {
      done(handler(ds_id, request));
    });
  }

  rpc::peer::Table<std::uint32_t> table_;
};

class RepairTest : public NamespaceTest {
 public:
  struct KeptUncut {
    explicit KeptUncut(RepairTest& test) : test_(test) { ++test_.kept_uncut; }
    ~KeptUncut() {
      {
        const std::lock_guard lock(test_.servers.mutex);
        for (const auto& [job, at] : test_.servers.progress) {
          if (at.state == FakeCopyServers::State::kRunning) ++test_.running_when_cut;
        }
      }
      --test_.kept_uncut;
    }
    RepairTest& test_;
  };

  RepairTest() { here = {1, 2, 3, 4, 5, 6}; }
  ~RepairTest() { repairer.reset(); }

  void start(Repairer::Limits limits) {
    limits.look_every = std::chrono::milliseconds(20);
    limits.first_rest = std::chrono::milliseconds(20);
    limits.longest_rest = std::chrono::milliseconds(80);
    limits.idle = std::chrono::milliseconds(10);
    limits.jobs.poll_first = std::chrono::milliseconds(1);
    limits.jobs.poll_most = limits.jobs.busy_most = std::chrono::milliseconds(5);
    limits.jobs.give_up = std::chrono::milliseconds(50);
    repairer = std::make_unique<Repairer>(
        Repairer::Parts{.names = *names,
                        .servers = servers,
                        .here =
                            [this] {
                              const std::lock_guard lock(mutex);
                              return std::vector(here.begin(), here.end());
                            },
                        .pin = [this](FileId file) { return pin(file); },
                        .keep_uncut = [this](FileId) -> Result<std::shared_ptr<void>> {
                          if (cut_waits) return fail(Errc::kBusy, "being cut");
                          return std::make_shared<KeptUncut>(*this);
                        },
                        .keep_unwritten = [this](FileId) -> Result<std::shared_ptr<void>> {
                          if (layout_out) return fail(Errc::kBusy, "a layout is out");
                          ++kept_unwritten;
                          return {std::shared_ptr<void>(this, [this](void*) { --kept_unwritten; })};
                        },
                        .cut_waits = [this](FileId) { return cut_waits.load(); },
                        .keep = [this](FileId file) -> Result<std::shared_ptr<void>> {
                          if (auto held = names->hold(file); !held) return pass(held);
                          return {std::shared_ptr<void>(
                              this, [this, file](void*) { std::ignore = names->release(file); })};
                        },
                        .written = [this](FileId) { return written.load(); },
                        .findings = [this](FileId) { return findings; },
                        .compared = [this] { ++compared; },
                        .no_object =
                            [this](FileId file, std::uint32_t ds_id) {
                              mark(file, ds_id, {0, kMaxFileSize}, seat(file, ds_id));
                              return Result<>();
                            },
                        .doubt = [this](FileId) { ++doubted; },
                        .lost = [this](std::uint32_t ds_id) { return lost.contains(ds_id); },
                        .limits = limits,
                        .clock = system_clock()});
    repairer->start();
  }
  void start() { start({}); }
  Result<PinnedFile> pin(FileId file) {
    auto map = names->layout(file);
    if (!map) return pass(map);
    if (!*map) return fail(Errc::kStale, "no layout");
    if (unpinned == file && ++refused_pins > 0) return fail(Errc::kLayoutTryLater, "away");
    std::vector<std::uint8_t> leads;
    for (std::size_t stripe = 0; stripe < (*map)->copies.front().ds_ids.size(); ++stripe) {
      std::uint8_t copy = 0;
      while ((*map)->copies[copy].state_of(stripe) != layout::CopyState::kCurrent) ++copy;
      leads.push_back(copy);
    }
    ++pins;
    return PinnedFile{std::move(**map), leads,
                      std::shared_ptr<void>(this, [this](void*) { --pins; })};
  }
  FileId mirrored(std::string_view name) {
    const FileId id = file(kRootFileId, name);
    layout_of(id, {1, 2}, {3, 4});
    return id;
  }
  std::set<std::uint32_t> lost;  // gone, and being removed
  void lose(std::uint32_t ds_id) {
    {
      const std::lock_guard lock(mutex);
      here.erase(ds_id);
    }
    const std::lock_guard lock(servers.mutex);
    servers.gone.insert(ds_id);
  }
  void come_back(std::uint32_t ds_id) {
    {
      const std::lock_guard lock(mutex);
      here.insert(ds_id);
    }
    const std::lock_guard lock(servers.mutex);
    servers.gone.erase(ds_id);
  }
  void mark(FileId id, std::uint32_t ds_id, DirtyExtent dirty, std::uint32_t copy = 1) {
    // Also called by workers, where Catch cannot assert.
    WEFT_ASSERT(
        names->mark_stale({.id = id, .copy = copy, .ds_id = ds_id, .dirty = {dirty}}).has_value());
  }
  std::uint32_t seat(FileId id, std::uint32_t ds_id) {
    return static_cast<std::uint32_t>(layout::seat_of(**names->layout(id), ds_id)->copy);
  }
  layout::CopyState state(FileId id, std::size_t copy, std::size_t server) {
    return (*names->layout(id))->copies[copy].state_of(server);
  }
  template <class Condition>
  static bool soon(Condition condition) {
    for (int i = 0; i < 5000; ++i) {
      if (condition()) return true;  // and not a moment later, when it may be over
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  std::mutex mutex;
  std::set<std::uint32_t> here;
  FakeCopyServers servers;
  std::atomic<int> pins{0};
  std::atomic<int> compared{0};
  std::atomic<int> doubted{0};
  std::atomic<bool> written{false};
  std::atomic<bool> cut_waits = false;
  std::atomic<int> kept_uncut = 0;        // files that must not be cut now
  std::vector<ScrubFinding> findings;     // of every file; set before start()
  std::atomic<bool> layout_out = false;   // of every file, for writing
  std::atomic<int> kept_unwritten = 0;    // files that must not be written now
  std::atomic<int> running_when_cut = 0;  // jobs that ran on when they might be cut again
  std::atomic<FileId> unpinned{0};        // cannot be pinned
  std::atomic<int> refused_pins{0};
  std::atomic<bool> full{true};
  std::unique_ptr<Repairer> repairer;
};

}  // namespace weft::mds
