#include "ganesha-fsal/cluster/cluster.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/death_probe.h"
#include "ganesha-fsal/cluster/fence_batches.h"
#include "ganesha-fsal/cluster/gather.h"
#include "ganesha-fsal/cluster/object_calls.h"
#include "ganesha-fsal/cluster/size_reports.h"
#include "ganesha-fsal/cluster/work_queue.h"
#include "rpc/base/log_limit.h"
#include "rpc/base/log_text.h"
#include "rpc/base/mutex.h"
#include "rpc/control/locate_transports.h"

namespace weft::mds {
namespace {

constexpr std::chrono::milliseconds kRivalAnswers{500};
constexpr std::chrono::milliseconds kRivalRefuses{100};  // at each of its addresses

}  // namespace

std::vector<std::uint32_t> servers_of(const layout::LayoutMap& map) {
  std::set<std::uint32_t> ids;
  for (const layout::Copy& copy : map.copies) ids.insert(copy.ds_ids.begin(), copy.ds_ids.end());
  ids.erase(0);  // of vacant places
  return {ids.begin(), ids.end()};
}

class Cluster::Impl final : public control::ServerEvents {
 public:
  Impl(Config config, std::unique_ptr<Registry> registry, FileSizes& files)
      : config_(std::move(config)),
        files_(files),
        registry_(std::move(registry)),
        fences_(fence_parts()),
        workers_(std::max(config_.workers, 1U), config_.max_waiting),
        reports_(files, workers_, config_.max_waiting),
        server_({.listen = config_.listen, .keys = config_.keys}, *this, requests()),
        objects_(server_, *registry_, config_.call_timeout) {}
  ~Impl() override { stop(); }

  // Calls complete first (with kClosed), then the workers finish what those led to.
  void stop() {
    server_.stop();
    workers_.stop();
  }

  void on_register(const layout::NetAddress& from, control::Register request,
                   Done<control::Registered> done) override;
  void on_connected(std::uint32_t ds_id) override {
    registry_->connected(ds_id);
    spdlog::info("event=data_server_connected ds={}", ds_id);
  }
  void on_dropped(const layout::NetAddress& from, const Error& why) override;
  void on_disconnected(std::uint32_t ds_id, const Error& why) override {
    registry_->disconnected(ds_id);
    spdlog::warn("event=data_server_disconnected ds={} why=\"{}\"", ds_id, why.describe());
  }
  // What data servers ask.
  [[nodiscard]] rpc::peer::Table<std::uint32_t> requests();
  void on_heartbeat(std::uint32_t ds_id, control::Heartbeat beat, Done<control::Lease> done);
  void on_query_size(std::uint32_t ds_id, control::QuerySize query, Done<control::FileSize> done);
  void on_report_size(std::uint32_t, control::ReportSize report, Done<void> done) {
    reports_.add(report, std::move(done));
  }
  void on_tell_transports(std::uint32_t ds_id, control::TellTransports told, Done<void> done) {
    registry_->told(ds_id, std::move(told));
    done(Result<>{});
  }
  void on_tell_group(std::uint32_t ds_id, control::TellGroup told, Done<void> done) {
    registry_->told(ds_id, told);
    done(Result<>{});
  }
  void on_locate(std::uint32_t ds_id, control::Locate wanted, Done<control::Located> done);
  void on_locate_transports(std::uint32_t ds_id, control::LocateTransports wanted,
                            Done<control::LocatedTransports> done);
  [[nodiscard]] Result<control::Located> locate(std::uint32_t wanted) const;
  void on_copy_missed(std::uint32_t ds_id, control::CopyMissed missed, Done<void> done);

  void fence(std::vector<std::uint32_t> ds_ids, std::vector<control::Fence> fences,
             Done<void> done);
  [[nodiscard]] FenceBatches::Parts fence_parts();
  void send_fences(std::uint32_t ds_id, std::vector<control::Fence> fences, Done<void> done);
  // The same; a data server that is away and has no lease any more counts as done. Its fences stay
  // recorded, and it gets them before it serves again.
  void fence_or_lapse(std::uint32_t ds_id, std::vector<control::Fence> fences, Done<void> done);
  // A data server is back on this connection: what it missed beyond what its registration carried,
  // and what has been fenced since it was asked what it lost; then its lease and the notice.
  void catch_up(std::uint32_t ds_id, std::uint64_t connection, bool asked = false);
  void announce(std::uint32_t ds_id);

  // The connection of one that served with this store before, and does not answer.
  [[nodiscard]] std::optional<std::uint64_t> silent_rival(const layout::NetAddress& from,
                                                          const control::Register& request);
  void log_refusal(const layout::NetAddress& from, const control::Register& request,
                   const Error& why);

  const Config config_;
  FileSizes& files_;
  const std::unique_ptr<Registry> registry_;
  FenceBatches fences_;
  WorkQueue workers_;
  SizeReports reports_;
  control::Server server_;
  ObjectCalls objects_;
  Refusals refusals_{config_.registry.now};
  LogLimit dropped_log_;
  Mutex notice_mutex_;
  std::function<void(std::uint32_t)> notice_ WEFT_GUARDED_BY(notice_mutex_);
  std::atomic<MissedCopies*> missed_copies_{nullptr};
};

void Cluster::Impl::on_register(const layout::NetAddress& from, control::Register request,
                                Done<control::Registered> done) {
  // Shared so that it is still ours when the workers refuse.
  const auto answer = std::make_shared<Done<control::Registered>>(std::move(done));
  const bool taken = workers_.post([this, from, request = std::move(request), answer] {
    auto registered = registry_->register_server(from, request, silent_rival(from, request));
    if (registered) {
      refusals_.forget(from, log_text(request.name));
      spdlog::info("event=data_server_registered ds={} name=\"{}\" from={} store={}",
                   registered->ds_id, log_text(request.name), to_string(from),
                   control::to_string(request.store));
    } else {
      log_refusal(from, request, registered.error());
    }
    (*answer)(std::move(registered));
  });
  if (!taken) (*answer)(fail(Errc::kBusy, "the metadata server has too much to do"));
}

// The process that had the store before may have died without its connection's being closed: a
// power failure of its machine, a network that was cut. A living one answers this without its disk.
std::optional<std::uint64_t> Cluster::Impl::silent_rival(const layout::NetAddress& from,
                                                         const control::Register& request) {
  const auto rival = registry_->rival(from, request);
  if (!rival) return std::nullopt;
  if (!rival->alive) {
    if (refuses(rival->addresses, kRivalRefuses) &&
        registry_->found_dead(rival->ds_id, rival->connection)) {
      spdlog::warn("event=data_server_dead ds={}", rival->ds_id);
    }
    return std::nullopt;
  }
  const auto answer = await<control::ResyncProgress>([&](Done<control::ResyncProgress> done) {
    server_.call(rival->ds_id, control::ResyncStatus{}, kRivalAnswers, std::move(done));
  });
  const bool silent = !answer && (answer.error().code == Errc::kTimedOut ||
                                  answer.error().code == Errc::kUnreachable);
  return silent ? std::optional(rival->connection) : std::nullopt;
}

// Whoever is refused asks again every second: the log has each reason once.
void Cluster::Impl::log_refusal(const layout::NetAddress& from, const control::Register& request,
                                const Error& why) {
  const std::string text = why.text.empty() ? why.describe() : why.text;
  if (!refusals_.add(from, log_text(request.name), text)) return;
  spdlog::warn("event=data_server_refused name=\"{}\" from={} why=\"{}\"", log_text(request.name),
               to_string(from), text);
}

void Cluster::Impl::on_dropped(const layout::NetAddress& from, const Error& why) {
  const std::string text = why.describe();
  if (!refusals_.add(from, "", text)) return;
  dropped_log_.warn("event=control_dropped from={} why=\"{}\"", to_string(from), text);
}

rpc::peer::Table<std::uint32_t> Cluster::Impl::requests() {
  rpc::peer::Table<std::uint32_t> table;
  table.on(*this, &Impl::on_heartbeat);
  table.on(*this, &Impl::on_query_size);
  table.on(*this, &Impl::on_report_size);
  table.on(*this, &Impl::on_locate);
  table.on(*this, &Impl::on_locate_transports);
  table.on(*this, &Impl::on_tell_transports);
  table.on(*this, &Impl::on_tell_group);
  table.on(*this, &Impl::on_copy_missed);
  return table;
}

// Answers at once: the lease counts from when the heartbeat was sent.
void Cluster::Impl::on_heartbeat(std::uint32_t ds_id, control::Heartbeat beat,
                                 Done<control::Lease> done) {
  const Registry::Beat known = registry_->heartbeat(ds_id, beat);
  objects_.settle(ds_id);
  const std::uint64_t connection = known.first_of;
  if (connection != 0 && !workers_.post([this, ds_id, connection, state = beat.state] {
        if (auto good = registry_->confirm(ds_id, state); !good) {
          spdlog::error("event=store_not_confirmed ds={} why=\"{}\"", ds_id,
                        good.error().describe());
          return server_.disconnect(ds_id);
        }
        catch_up(ds_id, connection);
      })) {
    server_.disconnect(ds_id);  // it registers again when there is less to do
  }
  done(known.lease);
}

void Cluster::Impl::on_query_size(std::uint32_t, control::QuerySize query,
                                  Done<control::FileSize> done) {
  const auto answer = std::make_shared<Done<control::FileSize>>(std::move(done));
  const bool taken = workers_.post([this, object = query.object, answer] {
    const auto size = files_.size_of(object);
    if (!size) return (*answer)(std::unexpected(size.error()));
    (*answer)(control::FileSize{*size});
  });
  if (!taken) (*answer)(fail(Errc::kBusy, "the metadata server has too much to do"));
}

void Cluster::Impl::on_locate(std::uint32_t /*ds_id*/, control::Locate query,
                              Done<control::Located> done) {
  done(locate(query.ds_id));
}

void Cluster::Impl::on_locate_transports(std::uint32_t /*ds_id*/, control::LocateTransports query,
                                         Done<control::LocatedTransports> done) {
  auto located = locate(query.ds_id);
  if (!located) return done(pass(located));
  done(control::LocatedTransports{std::move(*located)});
}

Result<control::Located> Cluster::Impl::locate(std::uint32_t wanted) const {
  const auto view = registry_->find(wanted);
  if (!view) return fail(Errc::kNotFound, "no data server " + std::to_string(wanted));
  control::Located located{.addresses = view->record.addresses, .rdma = view->record.rdma};
  switch (registry_->reach(wanted)) {
    case Reach::kHere: located.state = control::Located::State::kUp; break;
    case Reach::kWait: located.state = control::Located::State::kSuspect; break;
    case Reach::kGone: located.state = control::Located::State::kDown; break;
  }
  return located;
}

void Cluster::Impl::on_copy_missed(std::uint32_t ds_id, control::CopyMissed missed,
                                   Done<void> done) {
  MissedCopies* const keeper = missed_copies_.load();
  if (keeper == nullptr) return done(fail(Errc::kNotSupported, "no journal of missed copies"));
  const auto answer = std::make_shared<Done<void>>(std::move(done));
  const bool taken = workers_.post([keeper, ds_id, missed = std::move(missed), answer] {
    (*answer)(keeper->copy_missed(ds_id, missed));
  });
  if (!taken) (*answer)(fail(Errc::kBusy, "the metadata server has too much to do"));
}

void Cluster::Impl::send_fences(std::uint32_t ds_id, std::vector<control::Fence> fences,
                                Done<void> done) {
  auto sent = fences;
  server_.call(
      ds_id, control::FenceRequest{std::move(fences)}, config_.call_timeout,
      [this, ds_id, sent = std::move(sent), done = std::move(done)](Result<> answer) mutable {
        if (!answer) return done(std::move(answer));
        const auto finish = std::make_shared<Done<void>>(std::move(done));
        // A record that is not erased is only a fence that is sent once more.
        const bool taken = workers_.post([this, ds_id, sent = std::move(sent), finish] {
          (*finish)(registry_->fences_done(ds_id, sent));
        });
        if (!taken) (*finish)({});
      });
}

void Cluster::Impl::fence(std::vector<std::uint32_t> ds_ids, std::vector<control::Fence> fences,
                          Done<void> done) {
  fences_.fence(std::move(ds_ids), std::move(fences), std::move(done));
}

FenceBatches::Parts Cluster::Impl::fence_parts() {
  return {.post = [this](WorkQueue::Work&& work) { return workers_.post(std::move(work)); },
          .record = [this](const auto& ds_ids,
                           const auto& fences) { return registry_->add_fences(ds_ids, fences); },
          .send =
              [this](const auto& ds_ids, const auto& fences, Done<void> done) {
                const auto all = Gather::make(ds_ids.size(), std::move(done));
                for (const std::uint32_t id : ds_ids) fence_or_lapse(id, fences, all->one());
              },
          .at_once = std::max(config_.workers / 2, 1U)};
}

// One that is connected and does not carry a fence out must not go on renewing its lease: it is to
// connect anew, and has no lease again before it has carried it out.
void Cluster::Impl::fence_or_lapse(std::uint32_t ds_id, std::vector<control::Fence> fences,
                                   Done<void> done) {
  // One that has stopped serving may be long in answering, and nobody needs to wait for it.
  if (registry_->has_stopped(ds_id) && registry_->lapse(ds_id)) return done({});
  send_fences(ds_id, std::move(fences),
              [this, ds_id, done = std::move(done)](Result<> answer) mutable {
                if (answer) return done({});
                if (answer.error().code == Errc::kClosed) return done(std::move(answer));
                if (answer.error().code != Errc::kUnreachable) server_.disconnect(ds_id);
                if (!registry_->lapse(ds_id)) return done(std::move(answer));
                spdlog::info("event=fenced_by_lease ds={}", ds_id);
                done({});
              });
}

void Cluster::Impl::catch_up(std::uint32_t ds_id, std::uint64_t connection, bool asked) {
  auto fences = registry_->missing_fences(ds_id);
  if (!fences) {
    spdlog::error("event=fences_unread ds={} why=\"{}\"", ds_id, fences.error().describe());
    return server_.disconnect(ds_id);
  }
  MissedCopies* const keeper = missed_copies_.load();
  if (fences->empty() && keeper != nullptr && !asked) {
    keeper->returning(ds_id);
    return catch_up(ds_id, connection, true);
  }
  if (fences->empty()) {
    registry_->caught_up(ds_id, connection);
    return announce(ds_id);
  }
  send_fences(ds_id, std::move(*fences), [this, ds_id, connection, asked](const Result<>& answer) {
    if (!answer) return server_.disconnect(ds_id);
    if (!workers_.post([=, this] { catch_up(ds_id, connection, asked); })) {
      server_.disconnect(ds_id);
    }
  });
}

void Cluster::Impl::announce(std::uint32_t ds_id) {
  std::function<void(std::uint32_t)> notice;
  {
    const MutexLock lock(notice_mutex_);
    notice = notice_;
  }
  if (notice) notice(ds_id);
}

Cluster::Cluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cluster::~Cluster() { stop(); }
void Cluster::stop() { impl_->stop(); }

Result<std::unique_ptr<Cluster>> Cluster::start(Config config, KvStore& store, FileSizes& files) {
  auto registry = Registry::open(store, config.registry);
  if (!registry) return pass(registry);
  auto impl = std::make_unique<Impl>(std::move(config), std::move(*registry), files);
  if (auto started = impl->server_.start(); !started) return pass(started);
  spdlog::info("event=control_listening address={}", to_string(impl->server_.address()));
  return std::unique_ptr<Cluster>(new Cluster(std::move(impl)));
}

Registry& Cluster::registry() { return *impl_->registry_; }
const Refusals& Cluster::refusals() const { return impl_->refusals_; }
layout::NetAddress Cluster::address() const { return impl_->server_.address(); }
const rpc::peer::Keyring& Cluster::keys() const { return *impl_->config_.keys; }

Result<> Cluster::remove_server(std::uint32_t ds_id) {
  auto removed = impl_->registry_->remove_server(ds_id);
  if (removed) impl_->server_.disconnect(ds_id);
  return removed;
}

void Cluster::keep_missed_copies(MissedCopies& keeper) { impl_->missed_copies_.store(&keeper); }

void Cluster::disconnect(std::uint32_t ds_id) { impl_->server_.disconnect(ds_id); }

void Cluster::on_server_up(std::function<void(std::uint32_t)> notice) {
  const MutexLock lock(impl_->notice_mutex_);
  impl_->notice_ = std::move(notice);
}

ObjectCalls& Cluster::objects() const { return impl_->objects_; }

void Cluster::fence(std::span<const std::uint32_t> ds_ids, std::vector<control::Fence> fences,
                    Done<void> done) {
  impl_->fence({ds_ids.begin(), ds_ids.end()}, std::move(fences), std::move(done));
}

void Cluster::send(std::uint32_t ds_id, std::uint32_t verb, rpc::peer::Bytes arguments,
                   Done<rpc::peer::Bytes> done) {
  impl_->server_.send(ds_id, verb, std::move(arguments), impl_->config_.call_timeout,
                      std::move(done));
}

}  // namespace weft::mds
