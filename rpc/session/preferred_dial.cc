#include "rpc/session/preferred_dial.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "rpc/base/clock.h"

namespace weft::rpc {
namespace {

constexpr int kMostDoublings = 4;  // of the time between two looks

using Made = Result<std::shared_ptr<Channel>>;
using Done = std::move_only_function<void(Made)>;

class PreferredDial : public std::enable_shared_from_this<PreferredDial> {
 public:
  PreferredDial(boost::asio::io_context& context, PreferredDialOptions options)
      : options_(std::move(options)), look_timer_(context), keep_timer_(context) {}
  ~PreferredDial() { drop(); }
  PreferredDial(const PreferredDial&) = delete;
  PreferredDial& operator=(const PreferredDial&) = delete;

  void dial(Done done) {
    if (kept_ != nullptr) {
      keep_timer_.cancel();
      return connected(std::exchange(kept_, nullptr), true, std::move(done));
    }
    if (!may_break()) {
      if (preferred_now_) unproven_ = 0;
      return dial_preferred(std::move(done));
    }
    options_.other([self = shared_from_this(), done = std::move(done)](Made made) mutable {
      if (!made) return self->dial_preferred(std::move(done));
      self->connected(std::move(*made), false, std::move(done));
    });
  }

 private:
  // Whoever dials has lost a preferred connection that had hardly been made.
  [[nodiscard]] bool may_break() const {
    return preferred_at_ != TimePoint{} && preferred_now_ &&
           system_clock().now() - preferred_at_ < options_.proven;
  }

  void dial_preferred(Done done) {
    options_.preferred([self = shared_from_this(), done = std::move(done)](Made made) mutable {
      if (made) return self->connected(std::move(*made), true, std::move(done));
      spdlog::debug("event=dial_failed transport=preferred why=\"{}\"", made.error().describe());
      self->dial_other(std::move(done));
    });
  }

  void dial_other(Done done) {
    options_.other([self = shared_from_this(), done = std::move(done)](Made made) mutable {
      if (!made) return done(std::move(made));
      self->connected(std::move(*made), false, std::move(done));
    });
  }

  void connected(std::shared_ptr<Channel> channel, bool preferred, Done done) {
    if (options_.on_connected) options_.on_connected(*channel, preferred);
    if (!preferred && may_break()) ++unproven_;
    preferred_now_ = preferred;
    if (preferred) {
      preferred_at_ = system_clock().now();
      look_timer_.cancel();
    } else {
      look_later();
    }
    done(std::move(channel));
  }

  void look_later() {
    const int doublings = std::clamp(unproven_ - 1, 0, kMostDoublings);
    look_timer_.expires_after(options_.look_every * (1 << doublings));
    look_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self != nullptr && !self->preferred_now_) self->look();
    });
  }

  void look() {
    look_later();
    if (std::exchange(looking_, true)) return;
    options_.preferred([weak = weak_from_this()](Made made) {
      const auto self = weak.lock();
      if (self == nullptr) {
        if (made) (*made)->close({Errc::kCancelled, "nobody wants it any more"});
        return;
      }
      self->looked(std::move(made));
    });
  }

  void looked(Made made) {
    looking_ = false;
    if (!made) return;
    drop();
    kept_ = std::move(*made);
    if (preferred_now_) return drop();
    keep_timer_.expires_after(kKept);
    keep_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self != nullptr) self->drop();
    });
    if (options_.on_better) options_.on_better();
  }

  void drop() {
    if (const auto kept = std::exchange(kept_, nullptr)) {
      kept->close({Errc::kCancelled, "nobody came for it"});
    }
  }

  const PreferredDialOptions options_;
  boost::asio::steady_timer look_timer_;
  boost::asio::steady_timer keep_timer_;
  std::shared_ptr<Channel> kept_;
  bool preferred_now_ = true;  // the last connection, or none
  bool looking_ = false;
  int unproven_ = 0;          // preferred connections in a row that did not last
  TimePoint preferred_at_{};  // when the last preferred connection was made
};

}  // namespace

Dial preferred_dial(boost::asio::io_context& context, PreferredDialOptions options) {
  return [dialer = std::make_shared<PreferredDial>(context, std::move(options))](Done done) {
    dialer->dial(std::move(done));
  };
}

}  // namespace weft::rpc
