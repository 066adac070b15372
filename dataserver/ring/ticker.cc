#include "dataserver/ring/ticker.h"

#include <utility>

namespace weft::ds {

void Ticker::start(IoRing& ring, std::chrono::milliseconds period,
                   std::move_only_function<void()> tick) {
  ring_ = &ring;
  period_ = period;
  tick_ = std::move(tick);
  timer_ = std::make_unique<boost::asio::steady_timer>(ring.context());
  running_.store(true);
  ring.post([this] { this->tick(); });
}

void Ticker::stop() {
  if (stopped_.exchange(true) || ring_ == nullptr) return;
  ring_->post([this] { timer_->cancel(); });
}

// On the ring's thread; each tick is the timer's only handler.
void Ticker::tick() {
  if (stopped_.load()) return running_.store(false);
  tick_();
  timer_->expires_after(period_);
  timer_->async_wait([this](const boost::system::error_code& /*stopped or not*/) { tick(); });
}

}  // namespace weft::ds
