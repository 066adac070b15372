#include "dataserver/mirror/partner_link.h"

#include <spdlog/spdlog.h>

#include "rpc/base/clock.h"
#include "rpc/session/cluster_session.h"

namespace weft::ds {

using rpc::nfs4::CompoundResult;

namespace {

Error gone_error() {
  return {Errc::kUnreachable, "the metadata server says that the partner is gone"};
}

bool is_gone(const Result<rpc::control::Located>& found) {
  return found && found->state == rpc::control::Located::State::kDown;
}

}  // namespace

std::shared_ptr<Partner> Partners::find(std::uint32_t ds_id) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Partner>& partner = partners_[ds_id];
  if (partner == nullptr) {
    partner = std::make_shared<Partner>();
    partner->ds_id = ds_id;
  }
  return partner;
}

std::uint32_t Partners::away() const {
  const std::lock_guard lock(mutex_);
  std::uint32_t count = 0;
  for (const auto& [id, partner] : partners_) count += partner->away ? 1 : 0;
  return count;
}

PartnerLink::PartnerLink(IoRing& ring, std::shared_ptr<Partner> partner, MirrorAuthority& authority,
                         const LinkConfig& config)
    : ring_(ring),
      partner_(std::move(partner)),
      authority_(authority),
      config_(config),
      look_timer_(ring.context()),
      probe_timer_(ring.context()),
      watch_timer_(ring.context()) {}

PartnerLink::~PartnerLink() = default;

void PartnerLink::arm(boost::asio::steady_timer& timer, std::chrono::milliseconds after,
                      void (PartnerLink::*then)()) {
  timer.expires_after(after);
  timer.async_wait([weak = weak_from_this(), then](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr && !self->stopped_) (self.get()->*then)();
  });
}

void PartnerLink::call(Ops ops, Done done) {
  submit(std::move(ops), {.deadline = config_.timeout}, std::move(done));
}

void PartnerLink::patient_call(Ops ops, Done done) {
  const auto out = patient_.insert(patient_.end(), std::move(done));
  if (!std::exchange(watching_, true)) arm(watch_timer_, config_.timeout / 2, &PartnerLink::watch);
  // The completion finds its place taken when fail_patient() was first.
  auto alive = std::make_shared<bool>(true);
  Done original = std::move(*out);
  *out = [alive, original = std::move(original)](Result<CompoundResult> result) mutable {
    *alive = false;
    original(std::move(result));
  };
  submit(std::move(ops), {.deadline = config_.patience, .idempotent = true},
         [this, alive, out](Result<CompoundResult> result) {
           if (!*alive) return;
           Done finish = std::move(*out);
           patient_.erase(out);
           finish(std::move(result));
         });
}

void PartnerLink::submit(Ops ops, rpc::CallOptions options, Done done) {
  if (stopped_) return done(fail(Errc::kClosed, "shutting down"));
  if (partner_->away) return done(fail(Errc::kUnreachable, "the partner is away"));
  if (client_ == nullptr) {
    if (waiting_.size() >= config_.max_waiting) {
      return done(fail(Errc::kBusy, "too many wait for the partner's address"));
    }
    waiting_.push_back({std::move(ops), options, std::move(done)});
    return locate();
  }
  const std::uint64_t number = ++calls_;
  out_.insert(number);
  begin_look();
  client_->call(std::move(ops), options,
                [weak = weak_from_this(), incarnation = incarnation_, number,
                 done = std::move(done)](Result<CompoundResult> result) mutable {
                  const auto self = weak.lock();
                  if (self == nullptr) return done(std::move(result));
                  self->out_.erase(number);
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
  if (is_gone(found) && incarnation == incarnation_) put_away(gone_error());
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
  if (found && found->addresses.empty()) {
    found = fail(Errc::kNotFound, "the partner has never registered");
  } else if (is_gone(found)) {
    found = std::unexpected(gone_error());
  }
  auto waiting = std::exchange(waiting_, {});
  if (!found) {
    const bool trying = probing_;
    put_away(found.error());
    if (trying) arm(probe_timer_, config_.probe_every, &PartnerLink::probe);
    for (Waiting& call : waiting) call.done(std::unexpected(found.error()));
    return;
  }
  // A new incarnation each time: whatever an earlier one sent is not to be executed any more.
  ++incarnation_;
  client_ = std::make_unique<rpc::SessionClient>(
      ring_.context(), config_.make_dial(ring_.context(), found->addresses),
      rpc::cluster_session_options(config_.owner + "-" + std::to_string(ring_.index()),
                                   system_random().u64(), "weft-ds"));
  if (probing_) {
    client_->call({}, {.deadline = config_.timeout, .idempotent = true},
                  [weak = weak_from_this(),
                   incarnation = incarnation_](const Result<CompoundResult>& result) {
                    if (const auto self = weak.lock()) self->probed(incarnation, result);
                  });
  }
  for (Waiting& call : waiting) submit(std::move(call.ops), call.options, std::move(call.done));
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
    spdlog::warn("event=partner_away ds={} error=\"{}\"", partner_->ds_id, why.describe());
  }
  ++incarnation_;  // what is still out does not concern the next
  client_.reset();
  fail_patient(why);
  if (std::exchange(probing_, true)) return;
  arm(probe_timer_, config_.probe_every, &PartnerLink::probe);
}

void PartnerLink::probe() {
  if (!partner_->away) {
    probing_ = false;  // another thread was first
    return;
  }
  client_.reset();
  locate();
}

void PartnerLink::probed(std::uint64_t incarnation, const Result<CompoundResult>& result) {
  if (stopped_ || incarnation != incarnation_) return;
  if (!result || result->status != rpc::nfs4::Status::NFS4_OK) {
    client_.reset();
    ++incarnation_;
    return arm(probe_timer_, config_.probe_every, &PartnerLink::probe);
  }
  probing_ = false;
  if (partner_->away.exchange(false)) {
    spdlog::info("event=partner_back ds={}", partner_->ds_id);
  }
}

// While patient calls are out: fails them when the partner is away, and finds out whether it is.
void PartnerLink::watch() {
  watching_ = false;
  if (partner_->away) fail_patient({Errc::kUnreachable, "the partner is away"});
  if (patient_.empty()) return;
  if (client_ != nullptr && !std::exchange(asking_, true)) {
    client_->call(
        {}, {.deadline = config_.timeout, .idempotent = true},
        [weak = weak_from_this(), incarnation = incarnation_](Result<CompoundResult> result) {
          const auto self = weak.lock();
          if (self == nullptr) return;
          self->asking_ = false;
          self->answered(incarnation, std::move(result), [](const auto&) {});
        });
  }
  watching_ = true;
  arm(watch_timer_, config_.timeout / 2, &PartnerLink::watch);
}

void PartnerLink::fail_patient(const Error& why) {
  auto patient = std::exchange(patient_, {});
  for (Done& done : patient) done(std::unexpected(why));
}

void PartnerLink::stop() {
  if (std::exchange(stopped_, true)) return;
  look_timer_.cancel();
  probe_timer_.cancel();
  watch_timer_.cancel();
  client_.reset();
  const Error why{Errc::kClosed, "shutting down"};
  auto waiting = std::exchange(waiting_, {});
  for (Waiting& call : waiting) call.done(std::unexpected(why));
  fail_patient(why);
}

}  // namespace weft::ds
