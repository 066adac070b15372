#include "dataserver/main/control_link.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

namespace weft::ds {

namespace control = rpc::control;

namespace {

constexpr std::chrono::milliseconds kCallTimeout{5000};

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

// An object that does not exist is an answer, not an error.
Result<control::ObjectStat> answer_of(Result<ObjectStat> found) {
  if (found) return to_stat(*found);
  if (found.error() == Errc::kNotFound) return control::ObjectStat{};
  return pass(found);
}

}  // namespace

ControlLink::ControlLink(Parts parts)
    : parts_(std::move(parts)), identity_(parts_.directory.identity()) {}

ControlLink::~ControlLink() { stop(); }

void ControlLink::use(const HostPort& mds) {
  control::Client::Config config;
  config.mds_host = mds.host;
  config.mds_port = mds.port;
  config.key = parts_.key;
  auto next = std::make_shared<control::Client>(config, *this);
  std::shared_ptr<control::Client> old;
  {
    const std::lock_guard lock(mutex_);
    old = std::exchange(client_, next);
  }
  if (old != nullptr) old->stop();
  spdlog::info("event=mds_connect address={}:{}", mds.host, mds.port);
  next->start();
}

void ControlLink::stop() {
  std::shared_ptr<control::Client> old;
  {
    const std::lock_guard lock(mutex_);
    old = std::exchange(client_, nullptr);
  }
  if (old != nullptr) old->stop();
  worker_.join();
}

std::shared_ptr<control::Client> ControlLink::client() const {
  const std::lock_guard lock(mutex_);
  return client_;
}

bool ControlLink::registered() const {
  const auto now = client();
  return now != nullptr && now->registered();
}

void ControlLink::query(const layout::ObjectId& object, SizeAuthority::Done<std::uint64_t> done) {
  const auto now = client();
  if (now == nullptr) return done(fail(Errc::kUnreachable, "shutting down"));
  now->query_size(object, kCallTimeout,
                  [done = std::move(done)](Result<control::FileSize> answer) mutable {
                    if (!answer) return done(pass(answer));
                    done(answer->size);
                  });
}

void ControlLink::report(const layout::ObjectId& object, std::uint64_t end, std::int64_t mtime_ns,
                         SizeAuthority::Done<void> done) {
  const auto now = client();
  if (now == nullptr) return done(fail(Errc::kUnreachable, "shutting down"));
  now->report_size({object, end, mtime_ns}, kCallTimeout, std::move(done));
}

void ControlLink::locate(std::uint32_t ds_id, std::chrono::milliseconds timeout,
                         control::Done<control::Located> done) {
  const auto now = client();
  if (now == nullptr) return done(fail(Errc::kUnreachable, "shutting down"));
  now->locate(ds_id, timeout, std::move(done));
}

void ControlLink::copy_missed(const control::CopyMissed& missed, control::Done<void> done) {
  const auto now = client();
  if (now == nullptr) return done(fail(Errc::kUnreachable, "shutting down"));
  now->copy_missed(missed, kCallTimeout, std::move(done));
}

void ControlLink::on_forget_missed(const control::ForgetMissed& forget, Answer<void> done) {
  if (duplicator_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  duplicator_->forget(forget.object, forget.ds_id,
                      [done = std::move(done)]() mutable { done(Result<>{}); });
}

void ControlLink::fence_object(const layout::ObjectId& object, std::uint32_t epoch,
                               control::Done<void> done) {
  on_fence({{.what = control::Fence::What::kObject, .object = object, .epoch = epoch}},
           std::move(done));
}

void ControlLink::on_resync(control::Resync request, Answer<void> done) {
  if (resyncs_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  resyncs_->start(std::move(request), std::move(done));
}

void ControlLink::on_resync_status(std::uint64_t job, Answer<control::ResyncProgress> done) {
  if (resyncs_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  done(resyncs_->status(job));
}

void ControlLink::on_resync_cancel(std::uint64_t job, Answer<void> done) {
  if (resyncs_ == nullptr) return done(fail(Errc::kNotSupported, "no mirroring"));
  resyncs_->cancel(job, std::move(done));
}

control::Space ControlLink::space() const {
  const auto usage = parts_.store.usage();
  if (!usage) return {};  // a store that cannot be looked at takes no new files
  return {.capacity_bytes = usage->capacity_bytes,
          .free_bytes = usage->free_bytes,
          .objects = usage->objects};
}

control::Register ControlLink::registration() {
  const StoreIdentity identity = [this] {
    const std::lock_guard lock(mutex_);
    return identity_;
  }();
  const DsConfig& config = parts_.config;
  return {.store = identity.uuid,
          .cluster = identity.cluster,
          .ds_id = identity.ds_id,
          .boot = parts_.boot,
          .name = config.name,
          .version = WEFT_VERSION,
          .domain = config.failure_domain,
          .addresses = config.advertise.empty() ? config.listen : config.advertise,
          .space = space(),
          .local = local_endpoint(config)};
}

// On the worker, which alone changes the store's identity.
Result<> ControlLink::join(const control::Registered& answer) {
  const StoreIdentity& identity = parts_.directory.identity();
  if (identity.ds_id != 0 &&
      (identity.ds_id != answer.ds_id || identity.cluster != answer.cluster)) {
    return fail(Errc::kInvalid, "this store belongs to another system, or has another id there");
  }
  if (auto joined = parts_.directory.join(answer.cluster, answer.ds_id); !joined) {
    return joined;
  }
  {
    const std::lock_guard lock(mutex_);
    identity_ = identity;
  }
  parts_.gate.set_ds_id(answer.ds_id);
  return {};
}

void ControlLink::on_registered(control::Registered answer, Answer<void> done) {
  complained_ = false;
  boost::asio::post(worker_, [this, answer = std::move(answer), done = std::move(done)]() mutable {
    if (auto joined = join(answer); !joined) {
      spdlog::error("event=registration_refused ds_id={} error=\"{}\"", answer.ds_id,
                    joined.error().describe());
      return done(std::move(joined));
    }
    auto finish = [this, ds_id = answer.ds_id, fences = answer.fences.size(),
                   done = std::move(done)](Result<> fenced) mutable {
      if (fenced) {
        spdlog::info("event=registered ds_id={} fences={}", ds_id, fences);
        std::call_once(first_, parts_.on_first_registration);
      }
      done(std::move(fenced));
    };
    fence(answer.fences, std::move(finish));
  });
}

void ControlLink::on_disconnected(const Error& why) {
  if (std::exchange(complained_, true)) return;
  spdlog::warn("event=mds_away error=\"{}\"", why.describe());
}

control::Heartbeat ControlLink::heartbeat() {
  const CounterTotals total = parts_.counters.total();
  const OwnWork own{.streams = parts_.counters.take_streams(),
                    .network = {.in = total.write_bytes, .out = total.read_bytes}};
  control::Heartbeat heartbeat;
  heartbeat.space = space();
  heartbeat.load.requests_in_progress = static_cast<std::uint32_t>(total.running);
  heartbeat.load.measured = parts_.load.sample(own);
  if (duplicator_ != nullptr) heartbeat.mirror = to_mirror_load(duplicator_->counts());
  heartbeat.store = parts_.store_kind();
  heartbeat.scrub = parts_.scrub_state();
  heartbeat.counters = parts_.session_counts();
  heartbeat.counters.reads = total.reads;
  heartbeat.counters.writes = total.writes;
  heartbeat.counters.commits = total.commits;
  heartbeat.counters.read_bytes = total.read_bytes;
  heartbeat.counters.write_bytes = total.write_bytes;
  heartbeat.counters.errors = total.errors;
  heartbeat.counters.refused = total.refused;
  heartbeat.counters.size_queries = total.size_queries;
  return heartbeat;
}

void ControlLink::fence(const std::vector<control::Fence>& fences, Answer<void> done) {
  if (fences.empty()) return done(Result<>{});
  auto raised = parts_.fences.raise(to_fences(fences));
  if (!raised) {
    spdlog::error("event=fence_failed fences={} error=\"{}\"", fences.size(),
                  raised.error().describe());
    return done(std::move(raised));
  }
  parts_.writes.drain([done = std::move(done)]() mutable { done(Result<>{}); });
}

void ControlLink::on_fence(std::vector<control::Fence> fences, Answer<void> done) {
  boost::asio::post(worker_, [this, fences = std::move(fences), done = std::move(done)]() mutable {
    fence(fences, std::move(done));
  });
}

IoRing& ControlLink::ring_of(const layout::ObjectId& object) {
  return *parts_.rings[std::hash<layout::ObjectId>{}(object) % parts_.rings.size()];
}

void ControlLink::on_truncate(const layout::ObjectId& object, std::uint64_t size,
                              Answer<control::ObjectStat> done) {
  ring_of(object).post([this, object, size, done = std::move(done)]() mutable {
    parts_.store.truncate(object, size, [done = std::move(done)](Result<ObjectStat> found) mutable {
      done(answer_of(std::move(found)));
    });
  });
}

void ControlLink::on_stat(const layout::ObjectId& object, Answer<control::ObjectStat> done) {
  ring_of(object).post([this, object, done = std::move(done)]() mutable {
    parts_.store.stat(object, [done = std::move(done)](Result<ObjectStat> found) mutable {
      done(answer_of(std::move(found)));
    });
  });
}

void ControlLink::on_remove(std::vector<layout::ObjectId> objects, Answer<void> done) {
  if (objects.empty()) return done(Result<>{});
  struct Removal {
    std::mutex mutex;
    std::size_t left;  // protected by mutex
    Result<> result;   // protected by mutex: the first error
    Answer<void> done;
  };
  auto removal = std::make_shared<Removal>();
  removal->left = objects.size();
  removal->done = std::move(done);
  for (const layout::ObjectId& object : objects) {
    if (duplicator_ != nullptr) duplicator_->removed(object);
    ring_of(object).post([this, object, removal] {
      parts_.store.remove(object, [removal](Result<> removed) {
        {
          const std::lock_guard lock(removal->mutex);
          if (!removed && removal->result) removal->result = std::move(removed);
          if (--removal->left > 0) return;
        }
        removal->done(std::move(removal->result));
      });
    });
  }
}

void ControlLink::on_allocate(const control::Range& range, Answer<void> done) {
  ring_of(range.object).post([this, range, done = std::move(done)]() mutable {
    parts_.store.allocate(range.object, range.offset, range.length, std::move(done));
  });
}

void ControlLink::on_punch(const control::Range& range, Answer<void> done) {
  ring_of(range.object).post([this, range, done = std::move(done)]() mutable {
    parts_.store.punch(range.object, range.offset, range.length, std::move(done));
  });
}

}  // namespace weft::ds
