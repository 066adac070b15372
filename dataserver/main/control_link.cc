#include "dataserver/main/control_link.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "dataserver/main/addresses.h"
#include "dataserver/main/share_calls.h"
#include "dataserver/store/state_file.h"
#include "rpc/base/mutex.h"
#include "rpc/control/locate_transports.h"
#include "rpc/control/mds_boot.h"

namespace weft::ds {

namespace control = rpc::control;

namespace {

constexpr std::chrono::milliseconds kCallTimeout{5000};
// How long a fence waits for the store to be settled. No heartbeat goes out before the fences of a
// registration are noted, so this is less than the silence (2.5 s) after which the metadata server
// takes a data server that does not listen for dead.
constexpr std::chrono::milliseconds kSettleEvery{50};
constexpr int kSettleLooks = 30;

std::vector<Fence> to_fences(const std::vector<control::Fence>& fences) {
  std::vector<Fence> converted;
  converted.reserve(fences.size());
  for (const control::Fence& fence : fences) {
    if (fence.what == control::Fence::What::kObject) {
      converted.push_back({fence.object, fence.epoch});
    } else {
      converted.push_back({fence.client_id, fence.epoch});
    }
  }
  return converted;
}

control::ObjectStat to_stat(const ObjectStat& found) {
  return {
      .exists = true, .size = found.size, .allocated = found.allocated, .mtime_ns = found.mtime_ns};
}

control::MirrorLoad to_mirror_load(const MirrorCounts& counts) {
  return {.pending_bytes = counts.pending_bytes,
          .oldest_pending_ms = static_cast<std::uint32_t>(counts.oldest_pending.count()),
          .partners_away = counts.partners_away,
          .forwarded_bytes = counts.forwarded_bytes,
          .missed_writes = counts.missed_writes};
}

control::Space to_space(const StoreStat& usage) {
  return {.capacity_bytes = usage.capacity_bytes,
          .free_bytes = usage.free_bytes,
          .objects = usage.objects};
}

// An object that does not exist is an answer, not an error.
Result<control::ObjectStat> answer_of(Result<ObjectStat> found) {
  if (found) return to_stat(*found);
  if (found.error() == Errc::kNotFound) return control::ObjectStat{};
  return pass(found);
}

}  // namespace

ControlLink::ControlLink(Parts parts)
    : parts_(std::move(parts)),
      identity_(parts_.chain.directory().identity()),
      state_(parts_.state),
      changes_(parts_.rings) {}

ControlLink::~ControlLink() { stop(); }

void ControlLink::use(const HostPort& mds) {
  control::Client::Config config;
  config.mds_host = mds.host;
  config.mds_port = mds.port;
  config.keys = parts_.keys;
  auto next = std::make_shared<control::Client>(config, *this, requests());
  std::shared_ptr<control::Client> old;
  {
    const MutexLock lock(mutex_);
    old = std::exchange(client_, next);
  }
  if (old != nullptr) old->stop();
  transports_ = {};  // no control thread runs now
  group_ = {};
  spdlog::info("event=mds_connect address={}:{}", mds.host, mds.port);
  next->start();
}

void ControlLink::stop() {
  std::shared_ptr<control::Client> old;
  {
    const MutexLock lock(mutex_);
    old = std::exchange(client_, nullptr);
  }
  if (old != nullptr) old->stop();
  dialer_.stop();
  worker_.join();
}

std::shared_ptr<control::Client> ControlLink::client() const {
  const MutexLock lock(mutex_);
  return client_;
}

bool ControlLink::registered() const {
  const auto now = client();
  return now != nullptr && now->registered();
}

void ControlLink::addresses_changed() {
  if (const auto now = client(); now != nullptr) now->register_again();
}

template <rpc::peer::Request R>
void ControlLink::call(const R& request, std::chrono::milliseconds timeout,
                       Answer<typename R::Reply> done) {
  const auto now = client();
  if (now == nullptr) return done(fail(Errc::kUnreachable, "shutting down"));
  now->call(request, timeout, std::move(done));
}

void ControlLink::query(const layout::ObjectId& object, SizeAuthority::Done<std::uint64_t> done) {
  call(control::QuerySize{object}, kCallTimeout,
       [done = std::move(done)](Result<control::FileSize> answer) mutable {
         if (!answer) return done(pass(answer));
         done(answer->size);
       });
}

void ControlLink::report(const layout::Handle& by, std::uint64_t end, std::int64_t mtime_ns,
                         SizeAuthority::Done<void> done) {
  call(control::ReportSize{by.object, end, mtime_ns}, kCallTimeout, std::move(done));
}

void ControlLink::locate(std::uint32_t ds_id, std::chrono::milliseconds timeout,
                         control::Done<control::Located> done) {
  if (parts_.config.listen_rdma.empty()) {
    return call(control::Locate{ds_id}, timeout, std::move(done));
  }
  call(control::LocateTransports{ds_id}, timeout,
       [this, ds_id, timeout,
        done = std::move(done)](Result<control::LocatedTransports> answer) mutable {
         if (answer) return done(std::move(answer->all));
         // A metadata server that does not know the question.
         if (answer.error() == Errc::kNotSupported) {
           return call(control::Locate{ds_id}, timeout, std::move(done));
         }
         done(pass(answer));
       });
}

void ControlLink::copy_missed(const control::CopyMissed& missed, control::Done<void> done) {
  call(missed, kCallTimeout, std::move(done));
}

rpc::peer::Table<> ControlLink::requests() {
  rpc::peer::Table<> table;
  table.on(*this, &ControlLink::on_fence);
  table.on(*this, &ControlLink::on_truncate);
  table.on(*this, &ControlLink::on_remove);
  table.on(*this, &ControlLink::on_stat);
  table.on(*this, &ControlLink::on_allocate);
  table.on(*this, &ControlLink::on_allocate_share);
  table.on(*this, &ControlLink::on_seek);
  table.on(*this, &ControlLink::on_punch);
  table.on(*this, &ControlLink::on_forget_missed);
  table.on(*this, &ControlLink::on_resync);
  table.on(*this, &ControlLink::on_resync_status);
  table.on(*this, &ControlLink::on_resync_cancel);
  table.on(*this, &ControlLink::on_unreadable);
  table.on(*this, &ControlLink::on_scrub);
  table.on(*this, &ControlLink::on_give_up);
  table.on(*this, &ControlLink::on_list);
  table.on(*this, &ControlLink::on_keys);
  table.on(*this, &ControlLink::on_target_keys);
  table.on(*this, &ControlLink::on_about_target);
  table.on(*this, &ControlLink::on_prefetch);
  table.on(*this, &ControlLink::on_try_addresses);
  table.on(*this, &ControlLink::on_segments);
  table.on(*this, &ControlLink::on_options);
  return table;
}

void ControlLink::on_prefetch(control::Prefetch request, Answer<void> done) {
  if (parts_.read_ahead == nullptr) {
    return done(fail(Errc::kNotSupported, "nothing is read ahead here"));
  }
  parts_.read_ahead->expect(request.ranges);
  done(Result<>{});
}

void ControlLink::on_segments(control::GetSegments /*request*/,
                              Answer<control::SegmentCounts> done) {
  const SegmentStore* segments = parts_.chain.segments();
  if (segments == nullptr) return done(fail(Errc::kNotFound, "it keeps no segments"));
  const SegmentTable& table = segments->table();
  const SegmentView& view = table.view();
  done(control::SegmentCounts{
      .segments = view.segments,
      .bytes = view.bytes,
      .most_bytes = parts_.config.segments.size,
      .memory_bytes = table.memory_bytes(),
      .most_memory_bytes = parts_.config.segments.cache_bytes,
      .reads = view.reads,
      .hits = view.hits,
      .waits = view.waits,
      .hit_bytes = view.hit_bytes,
      .loads = view.loads,
      .loaded_bytes = view.loaded_bytes,
      .built = view.built,
      .built_bytes = view.built_bytes,
      .invalidated = view.invalidated,
      .replaced = view.replaced,
      .damaged = view.damaged,
  });
}

void ControlLink::on_forget_missed(control::ForgetMissed forget, Answer<void> done) {
  if (duplicator_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  duplicator_->forget(forget.object, forget.ds_id,
                      [done = std::move(done)]() mutable { done(Result<>{}); });
}

void ControlLink::fence_object(const layout::ObjectId& object, std::uint32_t epoch,
                               control::Done<void> done) {
  fence_and_changes({{.what = control::Fence::What::kObject, .object = object, .epoch = epoch}},
                    std::move(done));
}

void ControlLink::on_resync(control::Resync request, Answer<void> done) {
  if (resyncs_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  resyncs_->start(std::move(request), std::move(done));
}

void ControlLink::on_resync_status(control::ResyncStatus request,
                                   Answer<control::ResyncProgress> done) {
  if (resyncs_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  done(resyncs_->status(request.job));
}

void ControlLink::on_resync_cancel(control::ResyncCancel request, Answer<void> done) {
  if (resyncs_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  resyncs_->cancel(request.job, std::move(done));
}

void ControlLink::on_unreadable(control::GetUnreadable request, Answer<control::Unreadable> done) {
  if (resyncs_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  done(resyncs_->unreadable(request.job));
}

// Also stops serving and goes on. It has stopped before anybody is told so.
StoreWatch::State ControlLink::look() {
  StoreWatch::State now = parts_.watch.look();
  if (!now.trouble.empty()) {
    rest_.reset();
  } else if (trouble_ && !all_over()) {
    now.trouble = "its store is back, and what was asked of it before is not over";
  }
  if (!now.trouble.empty()) {
    parts_.gate.stop();
    parts_.chain.wait_for_target(false);
    if (!std::exchange(trouble_, true)) spdlog::error("event=store_gone why=\"{}\"", now.trouble);
  } else if (std::exchange(trouble_, false)) {
    parts_.chain.wait_for_target(true);
    parts_.gate.go_on();
    spdlog::info("event=store_back");
  }
  return now;
}

bool ControlLink::all_over() {
  if (rest_ == nullptr) {
    rest_ = std::make_shared<std::atomic<Rest>>(Rest::kUnderWay);
    when_over(Changes::kEnd, [rest = rest_](const Result<>& over) {
      rest->store(over ? Rest::kOver : Rest::kUnknown);
    });
  }
  const Rest now = rest_->load();
  if (now != Rest::kUnderWay) rest_.reset();
  return now == Rest::kOver;
}

control::Register ControlLink::registration() {
  const bool rolled_back = told_rolled_back_ = parts_.chain.rolled_back();
  const auto [identity, state] = [&] {
    const MutexLock lock(mutex_);
    return std::pair(identity_, state_to_tell(rolled_back));
  }();
  const DsConfig& config = parts_.config;
  Told told = parts_.told();
  return {.store = identity.uuid,
          .cluster = identity.cluster,
          .ds_id = identity.ds_id,
          .boot = parts_.boot,
          .name = config.name,
          .version = WEFT_VERSION,
          .domain = config.failure_domain,
          .addresses = std::move(told.tcp),
          .space = to_space(look().usage),
          .local = local_endpoint(config),
          .state = state,
          .rdma = std::move(told.rdma),
          .networks = std::move(told.networks)};
}

// A target that was rolled back makes the store one that was never accepted, as a copy of it is
// that served in its place: it is reviewed. Nothing of that is durable before it has been accepted,
// so that the newer store may come back to the target.
StoreState ControlLink::state_to_tell(bool rolled_back) const {
  if (!rolled_back || state_.generation == 0) return state_;
  return {state_.generation, ~parts_.boot};
}

// On the worker, as join(). Until the state is durable the metadata server takes both it and the
// one before; the first heartbeat tells that it is.
Result<> ControlLink::advance(bool rolled_back) {
  MutexLock lock(mutex_);
  const StoreState now = state_to_tell(rolled_back);
  lock.unlock();  // over the write: nobody else changes it
  const StoreState next = control::next_state(now, parts_.boot);
  if (next != now) {
    auto written = write_state(parts_.chain.directory().root(), next);
    if (!written) return written;
    lock.lock();
    state_ = next;
    lock.unlock();
  }
  parts_.chain.serve(rolled_back);
  return {};
}

// Of two metadata servers that are copies of each other the one that was started last is followed,
// and of those the first that was heard of: never one and then the other. It is read once: with a
// disk that fails, too, this one is registered again at the same one, and says what is wrong.
Result<> ControlLink::follow(std::uint64_t mds_boot) {
  const StoreState next{control::epoch_of(mds_boot), mds_boot};
  if (!followed_) {
    auto last = read_state(parts_.chain.directory().root(), kMdsFile);
    if (!last) return pass(last);
    followed_ = *last;
  }
  if (*followed_ == next) return {};
  if (next.generation > followed_->generation) {
    auto noted = write_state(parts_.chain.directory().root(), next, kMdsFile);
    if (noted) followed_ = next;
    return noted;
  }
  return fail(Errc::kInvalid,
              fmt::format("the metadata server that answers (epoch {}) is not the one that was "
                          "started last with this system's metadata (epoch {}): it is an old copy, "
                          "or was moved, and is to be stopped",
                          next.generation, followed_->generation));
}

// On the worker, which alone changes the store's identity.
Result<> ControlLink::join(const control::Registered& answer, bool rolled_back) {
  const StoreIdentity& identity = parts_.chain.directory().identity();
  if (identity.ds_id != 0 &&
      (identity.ds_id != answer.ds_id || identity.cluster != answer.cluster)) {
    return fail(Errc::kInvalid, "this store belongs to another system, or has another id there");
  }
  if (auto newest = follow(answer.mds_boot); !newest) return newest;
  if (auto joined = parts_.chain.directory().join(answer.cluster, answer.ds_id); !joined) {
    return joined;
  }
  if (auto noted = advance(rolled_back); !noted) return noted;
  {
    const MutexLock lock(mutex_);
    identity_ = identity;
  }
  parts_.gate.set_ds_id(answer.ds_id);
  return {};
}

void ControlLink::on_registered(control::Registered answer, Answer<void> done) {
  // With a disk that does not answer the worker would not, either. It stays registered, as with
  // fences that could not be noted: it says so, and has them before it gets a lease.
  if (trouble_ && joined_.load() == answer.mds_boot) return done(Result<>{});
  boost::asio::post(worker_, [this, rolled_back = told_rolled_back_, answer = std::move(answer),
                              done = std::move(done)]() mutable {
    if (auto joined = join(answer, rolled_back); !joined) {
      std::string text = joined.error().describe();
      if (refused_ != text) {
        spdlog::error("event=registration_refused ds_id={} error=\"{}\"", answer.ds_id, text);
      }
      refused_ = std::move(text);
      return done(std::move(joined));
    }
    refused_.clear();
    joined_.store(answer.mds_boot);
    auto finish = [this, ds_id = answer.ds_id, fences = answer.fences.size(),
                   done = std::move(done)](Result<> fenced) mutable {
      // With fences that could not be noted it stays registered, says so, and is given no lease.
      if (!fenced) return done(Result<>{});
      spdlog::info("event=registered ds_id={} fences={}", ds_id, fences);
      std::call_once(first_, parts_.on_first_registration);
      done(std::move(fenced));
    };
    const bool changes = concerns_changes(answer.fences);
    fence(answer.fences, changes ? Changes::kEnd : Changes::kGoOn, std::move(finish));
  });
}

void ControlLink::on_disconnected(const Error& why) {
  transports_ = {};
  group_ = {};
  // Once for each reason: this is tried again every second.
  std::string text = why.describe();
  {
    const MutexLock lock(mutex_);
    if (std::exchange(complaint_, text) == text) return;
  }
  spdlog::warn("event=mds_away error=\"{}\"", text);
}

control::Heartbeat ControlLink::heartbeat() {
  {
    const MutexLock lock(mutex_);
    complaint_.clear();  // it has accepted us
  }
  tell_late_changes();
  const CounterTotals total = parts_.counters.total();
  const OwnWork own{
      .streams = parts_.counters.take_streams(),
      .network = {.in = total.write_bytes, .out = total.read_bytes + total.partner_read_bytes},
      .for_servers = total.partner_read_bytes};
  control::Heartbeat heartbeat;
  const StoreWatch::State store = look();
  heartbeat.space = to_space(store.usage);
  heartbeat.trouble = store.trouble;
  heartbeat.load.requests_in_progress = static_cast<std::uint32_t>(total.running);
  heartbeat.load.measured = parts_.load.sample(own);
  if (duplicator_ != nullptr) heartbeat.mirror = to_mirror_load(duplicator_->counts());
  heartbeat.store = parts_.chain.kind();
  heartbeat.scrub = parts_.chain.scrub_state();
  heartbeat.counters = parts_.session_counts();
  heartbeat.counters.reads = total.reads;
  heartbeat.counters.writes = total.writes;
  heartbeat.counters.commits = total.commits;
  heartbeat.counters.read_bytes = total.read_bytes;
  heartbeat.counters.write_bytes = total.write_bytes;
  heartbeat.counters.errors = total.errors;
  heartbeat.counters.refused = total.refused;
  heartbeat.counters.size_queries = total.size_queries;
  {
    const MutexLock lock(mutex_);
    heartbeat.state = state_;
  }
  return heartbeat;
}

template <class R>
void ControlLink::tell(R now, LastTold<R>& told) {
  if (told.telling || now == told.last) return;
  told.telling = true;
  call(now, kCallTimeout, [&told, now](const Result<>& answer) {
    if (!answer && answer.error() == Errc::kNotSupported) return;
    told.telling = false;
    if (answer) told.last = now;
  });
}

void ControlLink::tell_state() {
  control::TellTransports transports{.partners = {}, .targets = parts_.chain.target_transports()};
  if (duplicator_ != nullptr) transports.partners = duplicator_->transports();
  tell(std::move(transports), transports_);
  tell(parts_.chain.group_state(), group_);
}

// What the metadata server itself has sent.
bool ControlLink::concerns_changes(const std::vector<control::Fence>& fences) {
  return std::ranges::any_of(fences, [](const control::Fence& fence) {
    return fence.what == control::Fence::What::kClient && fence.client_id == control::kOwnClientId;
  });
}

void ControlLink::fence(const std::vector<control::Fence>& fences, Changes changes,
                        Answer<void> done) {
  if (fences.empty()) return done(Result<>{});
  auto raised = parts_.fences.raise(to_fences(fences));
  if (!raised) {
    spdlog::error("event=fence_failed fences={} error=\"{}\"", fences.size(),
                  raised.error().describe());
    parts_.chain.directory().watch().failed(
        {raised.error().code, "no fence can be noted: " + raised.error().text});
    return done(std::move(raised));
  }
  when_over(changes, std::move(done));
}

void ControlLink::when_over(Changes changes, Answer<void> done) {
  parts_.writes.drain([this, changes, done = std::move(done)]() mutable {
    if (changes == Changes::kGoOn) return when_settled(kSettleLooks, std::move(done));
    changes_.drain(
        [this, done = std::move(done)]() mutable { when_settled(kSettleLooks, std::move(done)); });
  });
}

// A write that failed may be carried out at a target yet: until that is over it is not fenced.
void ControlLink::when_settled(int looks, Answer<void> done) {
  if (parts_.chain.store().settled()) return done(Result<>{});
  if (looks == 0) {
    return done(
        fail(Errc::kTimedOut, "a target may still carry out a write that it did not answer"));
  }
  IoRing& ring = *parts_.rings.front();
  ring.post([this, &ring, looks, done = std::move(done)]() mutable {
    auto timer = std::make_unique<boost::asio::steady_timer>(ring.context(), kSettleEvery);
    boost::asio::steady_timer& waiting = *timer;
    waiting.async_wait([this, looks, timer = std::move(timer),
                        done = std::move(done)](const boost::system::error_code&) mutable {
      when_settled(looks - 1, std::move(done));
    });
  });
}

void ControlLink::on_fence(control::FenceRequest request, Answer<void> done) {
  if (concerns_changes(request.fences)) {
    return fence_and_changes(std::move(request.fences), std::move(done));
  }
  {
    const MutexLock lock(mutex_);
    fences_asked_.insert(fences_asked_.end(), request.fences.begin(), request.fences.end());
    fences_answers_.push_back(std::move(done));
  }
  boost::asio::post(worker_, [this] { fence_asked(); });
}

void ControlLink::fence_and_changes(std::vector<control::Fence> fences, Answer<void> done) {
  boost::asio::post(worker_, [this, fences = std::move(fences), done = std::move(done)]() mutable {
    fence(fences, Changes::kEnd, std::move(done));
  });
}

void ControlLink::fence_asked() {
  std::vector<control::Fence> fences;
  std::vector<Answer<void>> answers;
  {
    const MutexLock lock(mutex_);
    fences.swap(fences_asked_);
    answers.swap(fences_answers_);
  }
  if (answers.empty()) return;  // an earlier look had them
  fence(fences, Changes::kGoOn, [answers = std::move(answers)](const Result<>& outcome) mutable {
    for (Answer<void>& answer : answers) answer(outcome);
  });
}

IoRing& ControlLink::ring_of(const layout::ObjectId& object) {
  return *parts_.rings[std::hash<layout::ObjectId>{}(object) % parts_.rings.size()];
}

// An answer that lets go of `token` when it is given.
template <class T>
ControlLink::Answer<T> ControlLink::held(ChangesUnderWay::Token token, Answer<T> done) {
  return [token = std::move(token), done = std::move(done)](Result<T> result) mutable {
    token.reset();
    done(std::move(result));
  };
}

ChangesUnderWay::Token ControlLink::enter_change(const layout::ObjectId& object) {
  return changes_.enter(object, control::epoch_of(joined_.load()));
}

// With each heartbeat.
void ControlLink::tell_late_changes() {
  for (const ChangesUnderWay::Change& change : changes_.take_late()) {
    late_log_.warn("event=change_late object={} mds_epoch={} what=\"cut, hole or allocation\"",
                   layout::to_string(change.object), change.epoch);
  }
}

void ControlLink::on_truncate(control::Truncate request, Answer<control::ObjectStat> done) {
  ring_of(request.object).post([this, request, done = std::move(done)]() mutable {
    auto cut = held<ObjectStat>(enter_change(request.object),
                                [done = std::move(done)](Result<ObjectStat> found) mutable {
                                  done(answer_of(std::move(found)));
                                });
    parts_.chain.store().truncate(request.object, request.size, std::move(cut));
  });
}

void ControlLink::on_stat(control::Stat request, Answer<control::ObjectStat> done) {
  ring_of(request.object).post([this, object = request.object, done = std::move(done)]() mutable {
    parts_.chain.store().stat(object, [done = std::move(done)](Result<ObjectStat> found) mutable {
      done(answer_of(std::move(found)));
    });
  });
}

void ControlLink::on_remove(control::Remove request, Answer<void> done) {
  const std::vector<layout::ObjectId>& objects = request.objects;
  if (objects.empty()) return done(Result<>{});
  struct Removal {
    Removal(std::size_t objects, Answer<void> then) : left(objects), done(std::move(then)) {}
    Mutex mutex;
    std::size_t left WEFT_GUARDED_BY(mutex);
    Result<> result WEFT_GUARDED_BY(mutex);  // the first error
    Answer<void> done;
  };
  auto removal = std::make_shared<Removal>(objects.size(), std::move(done));
  for (const layout::ObjectId& object : objects) {
    if (duplicator_ != nullptr) duplicator_->removed(object);
    auto remove = [this, object, removal] {
      ring_of(object).post([this, object, removal] {
        parts_.chain.store().remove(object, [removal](Result<> removed) {
          MutexLock lock(removal->mutex);
          if (!removed && removal->result) removal->result = std::move(removed);
          if (--removal->left > 0) return;
          Result<> result = std::move(removal->result);
          lock.unlock();
          removal->done(std::move(result));
        });
      });
    };
    if (resyncs_ == nullptr) {
      remove();
    } else {
      resyncs_->removing(object, std::move(remove));
    }
  }
}

void ControlLink::tell_options(const std::vector<ConfigValue>& values) {
  const MutexLock lock(mutex_);
  options_.options.clear();
  for (const ConfigValue& one : values) {
    options_.options.push_back({one.key, one.value, one.by_default});
  }
}

void ControlLink::on_options(control::GetOptions /*request*/, Answer<control::Options> done) {
  control::Options options;
  {
    const MutexLock lock(mutex_);
    options = options_;
  }
  done(std::move(options));
}

void ControlLink::on_list(control::ListFrom from, Answer<control::Listed> done) {
  ring_of(from.after).post([this, from, done = std::move(done)]() mutable {
    parts_.chain.store().list(
        {.folder = from.folder, .after = from.after}, control::kMaxListed,
        [done = std::move(done)](Result<ObjectList> found) mutable {
          if (!found) return done(pass(found));
          done(control::Listed{.objects = std::move(found->objects),
                               .next = {found->next.folder, found->next.after},
                               .more = found->more});
        });
  });
}

void ControlLink::on_allocate(control::Allocate request, Answer<void> done) {
  const control::Range& range = request.range;
  ring_of(range.object).post([this, range, done = std::move(done)]() mutable {
    parts_.chain.store().allocate(range.object, range.offset, range.length,
                                  held<void>(enter_change(range.object), std::move(done)));
  });
}

void ControlLink::on_allocate_share(control::AllocateShare request, Answer<void> done) {
  ring_of(request.range.object).post([this, request, done = std::move(done)]() mutable {
    allocate_share(parts_.chain.store(), request,
                   held<void>(enter_change(request.range.object), std::move(done)));
  });
}

void ControlLink::on_seek(control::Seek request, Answer<control::SeekAnswer> done) {
  ring_of(request.object).post([this, request, done = std::move(done)]() mutable {
    seek_in_share(parts_.chain.store(), request, std::move(done));
  });
}

void ControlLink::on_punch(control::Punch request, Answer<void> done) {
  const control::Range& range = request.range;
  ring_of(range.object).post([this, range, done = std::move(done)]() mutable {
    parts_.chain.store().punch(range.object, range.offset, range.length,
                               held<void>(enter_change(range.object), std::move(done)));
  });
}

}  // namespace weft::ds
