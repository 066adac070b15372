#include "dataserver/mirror/partner_link.h"

#include <spdlog/spdlog.h>

#include "rpc/base/clock.h"
#include "rpc/session/cluster_session.h"

namespace weft::ds {

using rpc::nfs4::CompoundResult;

namespace {

constexpr int kLooks = 8;     // in a timeout, whether answers come
constexpr int kLooksOld = 3;  // look_after: for so long holds what the metadata server said
constexpr std::chrono::milliseconds kHurry{20};  // between two attempts while somebody waits

Error gone_error() {
  return {Errc::kUnreachable, "the metadata server says that the partner is gone"};
}

bool is_gone(const Result<rpc::control::Located>& found) {
  return found && found->state == rpc::control::Located::State::kDown;
}

// The metadata server has not answered.
bool not_asked(const Error& error) {
  return error == Errc::kUnreachable || error == Errc::kTimedOut || error == Errc::kClosed ||
         error == Errc::kBusy;
}

}  // namespace

Result<rpc::control::Located> Partner::learn(Result<rpc::control::Located> found) {
  if (found && found->addresses.empty()) {
    found = fail(Errc::kNotFound, "the partner has never registered");
  }
  const MutexLock lock(mutex_);
  if (is_gone(found)) {
    place_.reset();
    return std::unexpected(gone_error());
  }
  if (found) {
    place_ = *found;
  } else if (!not_asked(found.error())) {
    place_.reset();
  } else if (place_) {
    return *place_;
  }
  return found;
}

void Partner::saw_verifier(std::uint64_t seen) {
  if (verifier.load() == seen) return;
  const MutexLock lock(mutex_);
  const std::uint64_t newest = verifier.load();
  if (newest == seen || std::ranges::find(verifiers_before_, seen) != verifiers_before_.end()) {
    return;
  }
  if (newest != 0) verifiers_before_.push_back(newest);
  if (verifiers_before_.size() > kVerifiersBefore) verifiers_before_.pop_front();
  verifier.store(seen);
}

void Partner::lost() {
  ++losses;
  const MutexLock lock(mutex_);
  verifiers_before_.clear();
}

std::shared_ptr<Partner> Partners::find(std::uint32_t ds_id) {
  const MutexLock lock(mutex_);
  std::shared_ptr<Partner>& partner = partners_[ds_id];
  if (partner == nullptr) {
    partner = std::make_shared<Partner>();
    partner->ds_id = ds_id;
  }
  return partner;
}

std::uint32_t Partners::away() const {
  const MutexLock lock(mutex_);
  std::uint32_t count = 0;
  for (const auto& [id, partner] : partners_) count += partner->away ? 1 : 0;
  return count;
}

std::vector<rpc::control::PartnerTransports> Partners::transports() const {
  std::vector<rpc::control::PartnerTransports> found;
  const MutexLock lock(mutex_);
  for (const auto& [id, partner] : partners_) {
    const rpc::control::PartnerTransports one{id, partner->by_rdma, partner->by_tcp};
    if (one.rdma + one.tcp > 0) found.push_back(one);
  }
  return found;
}

PartnerLink::PartnerLink(IoRing& ring, std::shared_ptr<Partner> partner, MirrorAuthority& authority,
                         const LinkConfig& config)
    : ring_(ring),
      partner_(std::move(partner)),
      authority_(authority),
      config_(config),
      look_timer_(ring.context()),
      probe_timer_(ring.context()),
      hurry_timer_(ring.context()),
      watch_timer_(ring.context()),
      locate_timer_(ring.context()) {}

PartnerLink::~PartnerLink() { count_connection(nullptr); }

void PartnerLink::arm(boost::asio::steady_timer& timer, std::chrono::milliseconds after,
                      void (PartnerLink::*then)()) {
  timer.expires_after(after);
  timer.async_wait([weak = weak_from_this(), then,
                    due = clock_.now() + after](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr || self->stopped_) return;
    self->clock_.woken(due);
    (self.get()->*then)();
  });
}

void PartnerLink::call(Ops ops, Done done) {
  submit({.ops = std::move(ops), .done = std::move(done)});
}

void PartnerLink::patient_call(Ops ops, Done done) {
  const auto out = patient_.insert(patient_.end(), std::move(done));
  // The completion finds its place taken when fail_patient() was first.
  auto alive = std::make_shared<bool>(true);
  Done original = std::move(*out);
  *out = [alive, original = std::move(original)](Result<CompoundResult> result) mutable {
    *alive = false;
    original(std::move(result));
  };
  begin_watch();
  submit({.ops = std::move(ops),
          .patient = true,
          .done = [this, alive, out](Result<CompoundResult> result) {
            if (!*alive) return;
            Done finish = std::move(*out);
            patient_.erase(out);
            finish(std::move(result));
          }});
}

void PartnerLink::submit(Call call) {
  if (stopped_) return call.done(fail(Errc::kClosed, "shutting down"));
  if (partner_->away) return call.done(fail(Errc::kUnreachable, "the partner is away"));
  // Another thread has found that it was away; with nothing out nothing of this one is in doubt.
  if (out_.empty() && (losses_ != partner_->losses || outdated_)) drop_client();
  if (client_ == nullptr) {
    if (waiting_.size() >= config_.max_waiting) {
      return call.done(fail(Errc::kBusy, "too many wait for the partner's address"));
    }
    waiting_.push_back(std::move(call));
    return locate();
  }
  const std::uint64_t number = ++calls_;
  out_.insert(number);
  if (!call.patient) writes_out_.emplace(number, clock_.now());
  begin_watch();
  begin_look();
  client_->call(std::move(call.ops), {.deadline = config_.patience, .idempotent = call.patient},
                [weak = weak_from_this(), incarnation = incarnation_, number,
                 done = std::move(call.done)](Result<CompoundResult> result) mutable {
                  const auto self = weak.lock();
                  if (self == nullptr) return done(std::move(result));
                  self->out_.erase(number);
                  const bool write = self->writes_out_.erase(number) > 0;
                  if (result) self->last_answer_ = self->clock_.now();
                  if (result && write) self->last_write_answer_ = self->last_answer_;
                  self->answered(incarnation, std::move(result), std::move(done));
                });
}

void PartnerLink::begin_look() {
  if (std::exchange(looking_, true)) return;
  out_before_ = calls_;
  arm(look_timer_, config_.look_after, &PartnerLink::look);
}

// While calls are out: asks, if one has been since the last look, whether the partner is gone.
void PartnerLink::look() {
  looking_ = false;
  if (out_.empty()) return;
  if (*out_.begin() > out_before_) return begin_look();
  looking_ = true;
  authority_.locate(partner_->ds_id, config_.timeout,
                    [weak = weak_from_this(), incarnation = incarnation_,
                     &ring = ring_](Result<rpc::control::Located> found) {
                      ring.post([weak, incarnation, found = std::move(found)] {
                        if (const auto self = weak.lock()) self->looked(incarnation, found);
                      });
                    });
}

void PartnerLink::looked(std::uint64_t incarnation, const Result<rpc::control::Located>& found) {
  looking_ = false;
  if (stopped_) return;
  if (found && found->state == rpc::control::Located::State::kUp) {
    last_up_ = clock_.now();
  }
  if (is_gone(found)) {
    static_cast<void>(partner_->learn(found));
    if (incarnation == incarnation_) put_away(gone_error());
  }
  if (!out_.empty()) begin_look();
}

void PartnerLink::locate() {
  if (std::exchange(locating_, true)) return;
  authority_.locate(partner_->ds_id, config_.timeout,
                    [weak = weak_from_this(), &ring = ring_](Result<rpc::control::Located> found) {
                      ring.post([weak, found = std::move(found)]() mutable {
                        if (const auto self = weak.lock()) self->located(std::move(found));
                      });
                    });
}

void PartnerLink::located(Result<rpc::control::Located> found) {
  locating_ = false;
  if (stopped_) return;
  found = partner_->learn(std::move(found));
  auto waiting = std::exchange(waiting_, {});
  if (!found) {
    put_away(found.error());
    for (Call& call : waiting) call.done(std::unexpected(found.error()));
    return;
  }
  make_client(*found);
  if (probing_) {
    client_->call({}, {.deadline = config_.timeout, .idempotent = true},
                  [weak = weak_from_this(),
                   incarnation = incarnation_](const Result<CompoundResult>& result) {
                    if (const auto self = weak.lock()) self->probed(incarnation, result);
                  });
  }
  for (Call& call : waiting) submit(std::move(call));
}

void PartnerLink::make_client(const rpc::control::Located& found) {
  // A new incarnation each time: whatever an earlier one sent is not to be executed any more.
  ++incarnation_;
  losses_ = partner_->losses;
  outdated_ = false;
  client_ = std::make_unique<rpc::SessionClient>(
      ring_.context(), counted(dial_to(found)),
      rpc::cluster_session_options(config_.owner + "-" + std::to_string(ring_.index()),
                                   system_random().u64(), "weft-ds", config_.keys));
  if (found.rdma.empty()) begin_relocate();
}

// It outlives clients, since it knows by which transport the last connections were of no use.
const rpc::Dial& PartnerLink::dial_to(const rpc::control::Located& found) {
  const bool moved = found.addresses != dialled_.addresses || found.rdma != dialled_.rdma;
  if (dial_ != nullptr && !moved) return dial_;
  dialled_ = found;
  dial_ = config_.make_dial(ring_.context(), found, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->renew();
  });
  return dial_;
}

// A session has one connection: when it dials, the one before is gone.
rpc::Dial PartnerLink::counted(rpc::Dial dial) {
  auto count = [weak = weak_from_this(), incarnation = incarnation_](const rpc::Channel* channel) {
    const auto self = weak.lock();
    if (self == nullptr || self->incarnation_ != incarnation) return;
    Partner& partner = *self->partner_;
    if (channel == nullptr) return self->count_connection(nullptr);
    self->count_connection(channel->by_rdma() ? &partner.by_rdma : &partner.by_tcp);
  };
  return [count = std::move(count), dial = std::move(dial)](auto done) {
    count(nullptr);
    dial([count, done = std::move(done)](Result<std::shared_ptr<rpc::Channel>> made) mutable {
      if (made) count(made->get());
      done(std::move(made));
    });
  };
}

void PartnerLink::count_connection(std::atomic<std::uint32_t>* by) {
  if (counted_by_ != nullptr) --*counted_by_;
  counted_by_ = by;
  if (by != nullptr) ++*by;
}

void PartnerLink::renew() {
  if (!stopped_ && client_ != nullptr) client_->renew_connections();
}

void PartnerLink::begin_relocate() {
  if (config_.locate_every.count() == 0) return;
  located_calls_ = calls_;
  arm(locate_timer_, config_.locate_every, &PartnerLink::relocate);
}

void PartnerLink::relocate() {
  if (client_ == nullptr || outdated_) return;
  if (located_calls_ == calls_) return begin_relocate();
  authority_.locate(partner_->ds_id, config_.timeout,
                    [weak = weak_from_this(), incarnation = incarnation_,
                     &ring = ring_](Result<rpc::control::Located> found) {
                      ring.post([weak, incarnation, found = std::move(found)] {
                        if (const auto self = weak.lock()) self->relocated(incarnation, found);
                      });
                    });
}

void PartnerLink::relocated(std::uint64_t incarnation, const Result<rpc::control::Located>& found) {
  if (stopped_ || incarnation != incarnation_ || client_ == nullptr) return;
  if (!found || found->rdma.empty()) return begin_relocate();
  outdated_ = true;
}

void PartnerLink::answered(std::uint64_t incarnation, Result<CompoundResult> result, Done done) {
  // kBusy is our own queue that is full.
  if (!result && !(result.error() == Errc::kBusy) && incarnation == incarnation_ && !stopped_) {
    put_away(result.error());
  }
  done(std::move(result));
}

void PartnerLink::put_away(const Error& why) {
  if (!partner_->away.exchange(true)) {
    partner_->lost();
    spdlog::warn("event=partner_away ds={} error=\"{}\"", partner_->ds_id, why.describe());
  }
  drop_client();
  fail_patient(why);
  probing_ = true;
  // An attempt that was under way has ended with the client, but for one that waits for the
  // address.
  if (!locating_) arm(probe_timer_, config_.probe_every, &PartnerLink::probe);
}

// What is still out does not concern the next one.
void PartnerLink::drop_client() {
  ++incarnation_;
  asked_.reset();
  end_client();
}

void PartnerLink::end_client() {
  client_.reset();
  count_connection(nullptr);
}

void PartnerLink::probe() {
  if (!partner_->away) {
    probing_ = false;  // another thread was first
    return;
  }
  end_client();
  locate();
}

void PartnerLink::probed(std::uint64_t incarnation, const Result<CompoundResult>& result) {
  if (stopped_ || incarnation != incarnation_) return;
  if (!result || result->status != rpc::nfs4::Status::NFS4_OK) {
    end_client();
    ++incarnation_;
    return arm(probe_timer_, config_.probe_every, &PartnerLink::probe);
  }
  probing_ = false;
  if (partner_->away.exchange(false)) {
    spdlog::info("event=partner_back ds={}", partner_->ds_id);
  }
}

void PartnerLink::when_back(std::chrono::milliseconds limit, std::move_only_function<void()> then) {
  if (stopped_ || !partner_->away) return then();
  returns_.push_back({clock_.now() + limit, std::move(then)});
  if (returns_.size() == 1) hurry();
}

void PartnerLink::hurry() {
  const Time now = clock_.now();
  std::vector<Return> over;
  for (Return& one : std::exchange(returns_, {})) {
    (partner_->away && now < one.until ? returns_ : over).push_back(std::move(one));
  }
  for (Return& one : over) one.then();
  if (returns_.empty()) return;
  // A client of no attempt, or of one that began before the partner was put away again.
  if (out_.empty() && (!probing_ || losses_ != partner_->losses)) drop_client();
  if (locating_) {
    probing_ = true;  // what waits for the address becomes an attempt
  } else if (client_ == nullptr) {
    // Nothing of an attempt is under way: it would begin when its timer ends.
    probing_ = true;
    probe_timer_.cancel();
    probe();
  }
  arm(hurry_timer_, kHurry, &PartnerLink::hurry);
}

void PartnerLink::begin_watch() {
  if (std::exchange(watching_, true)) return;
  arm(watch_timer_, config_.timeout / kLooks, &PartnerLink::watch);
}

// While calls are out: finds out whether the partner still answers, and puts it away if not.
void PartnerLink::watch() {
  watching_ = false;
  if (partner_->away) fail_patient({Errc::kUnreachable, "the partner is away"});
  const Time now = clock_.now();
  if (writes_unanswered(now) || question_unanswered(now)) {
    return put_away({Errc::kTimedOut, "no answer"});
  }
  if (!patient_.empty() && !asked_ && client_ != nullptr) ask();
  if (!patient_.empty() || !out_.empty()) begin_watch();
}

bool PartnerLink::writes_unanswered(Time now) const {
  if (writes_out_.empty()) return false;
  const bool up = now - last_up_ < kLooksOld * config_.look_after;
  return now - std::max(writes_out_.begin()->second, last_write_answer_) >=
         (up ? 2 : 1) * config_.timeout;
}

bool PartnerLink::question_unanswered(Time now) const {
  return asked_ && now - std::max(*asked_, last_answer_) >= config_.timeout;
}

// By TCP the question waits in one queue with the calls, behind a link that may be full.
void PartnerLink::ask() {
  asked_ = clock_.now();
  client_->call(
      {}, {.deadline = config_.patience, .idempotent = true, .urgent = true},
      [weak = weak_from_this(), incarnation = incarnation_](Result<CompoundResult> result) {
        const auto self = weak.lock();
        if (self == nullptr) return;
        if (incarnation == self->incarnation_) self->asked_.reset();
        if (result) self->last_answer_ = self->clock_.now();
        self->answered(incarnation, std::move(result), [](const auto&) {});
      });
}

void PartnerLink::fail_patient(const Error& why) {
  auto patient = std::exchange(patient_, {});
  for (Done& done : patient) done(std::unexpected(why));
}

void PartnerLink::stop() {
  if (std::exchange(stopped_, true)) return;
  look_timer_.cancel();
  probe_timer_.cancel();
  hurry_timer_.cancel();
  watch_timer_.cancel();
  locate_timer_.cancel();
  end_client();
  dial_ = nullptr;  // a connection that it keeps ends
  const Error why{Errc::kClosed, "shutting down"};
  auto waiting = std::exchange(waiting_, {});
  for (Call& call : waiting) call.done(std::unexpected(why));
  for (Return& one : std::exchange(returns_, {})) one.then();
  fail_patient(why);
}

}  // namespace weft::ds
