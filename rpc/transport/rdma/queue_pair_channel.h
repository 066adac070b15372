// What both ends of RPC over RDMA have in common: a Channel over a QueuePair. It posts receives,
// and keeps what arrives in them until the end takes it; posts the end's work as far as the device
// takes it; looks at deadlines; and closes, at once or when everything is sent.
//
// The end (server_channel.cc, client_channel.cc) says what is taken, and what is sent.
//
// Threading and ownership: channel.h. The queue pair belongs to the channel, and the channel lives
// until that is disconnected.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "rpc/base/buffer.h"
#include "rpc/base/running_clock.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

class QueuePairChannel : public Channel,
                         public QueuePairUser,
                         public std::enable_shared_from_this<QueuePairChannel> {
 public:
  void start(std::shared_ptr<ChannelUser> user) override;
  void pause() final { paused_ = true; }
  void resume() final;
  void close(Error why, bool drain) final;
  void post(std::move_only_function<void()> work) final;
  [[nodiscard]] const std::string& peer() const final { return queue_pair_->peer(); }
  [[nodiscard]] bool by_rdma() const final { return true; }
  [[nodiscard]] bool lacks_memory() const final { return starved_receiving_ != TimePoint{}; }
  [[nodiscard]] std::size_t queued_bytes() const final;

  void on_completion(Completion completion) final;
  void on_disconnected(const Error& why) final;

 protected:
  using Milliseconds = std::chrono::milliseconds;
  enum class State {
    kOpen,
    kFlushing,  // closing, with messages still to send
    kClosed,
  };
  struct Options {
    std::size_t credits = 0;  // asked for; the device may have fewer receives
    Milliseconds idle_deadline{0};
    Milliseconds send_deadline{0};
    Milliseconds memory_deadline{0};
    Milliseconds drain_deadline{0};
    Milliseconds own_deadline{0};  // the shortest of the end's own; 0: none
    const char* sends = "";        // "answers", "calls", for people
    const char* takes = "";
  };
  QueuePairChannel(boost::asio::io_context& context, std::unique_ptr<QueuePair> queue_pair,
                   const Options& options);

  // What the end says. process() and push() may be called when the channel is closed, and do
  // nothing then.

  [[nodiscard]] virtual Result<Buffer> memory_to_receive() = 0;
  // Takes what has arrived, as far as may be.
  virtual void process() = 0;
  // Makes work of what waits to be sent, as far as may be.
  virtual void push() = 0;
  // Before what it says is counted here: of work that is done.
  virtual void done(const Completion& /*completion*/) {}
  // Of messages that are not work yet.
  [[nodiscard]] virtual bool any_waits() const = 0;
  [[nodiscard]] virtual std::size_t waiting_bytes() const = 0;
  // Besides the deadlines here.
  [[nodiscard]] virtual std::optional<Error> late_too(TimePoint /*now*/) { return std::nullopt; }
  // It is closed: what is kept is let go of.
  virtual void drop() = 0;
  // Later, right before the user hears of it.
  virtual void gone() {}

  // What the end uses.

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] TimePoint now() const { return clock_.now(); }
  [[nodiscard]] QueuePair& queue_pair() { return *queue_pair_; }
  [[nodiscard]] std::size_t credits() const { return credits_; }
  [[nodiscard]] ChannelUser* user() const { return user_.get(); }  // null before start()
  [[nodiscard]] TimePoint last_activity() const { return last_activity_; }
  [[nodiscard]] std::size_t works() const { return works_.size(); }  // that are not posted
  [[nodiscard]] bool any_under_way() const { return under_way_ > 0; }
  // Posted, and waited for: how much work, and how many Sends of it.
  [[nodiscard]] std::size_t waited_for() const { return waited_since_.size(); }
  [[nodiscard]] std::size_t sends() const { return sends_; }
  [[nodiscard]] std::size_t bytes_under_way() const { return bytes_under_way_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }  // ever, and taken
  // Sends of the peer that were not looked at, the oldest first.
  [[nodiscard]] const std::deque<Completion>& arrived() const { return arrived_; }
  // What arrived first is read, and its memory is free for another.
  void receive_again();
  void add(Work work) { works_.push_back(std::move(work)); }
  void post_work();
  // There is no memory for it: it is asked for again soon, until the deadline. What arrives finding
  // some says nothing of what is to be sent.
  enum class Want : std::uint8_t { kToReceive, kToSend };
  void starve(Want what);
  void fed(Want what) { since(what) = {}; }
  void flushed_all();
  void fail_with(Error why);

 private:
  [[nodiscard]] Result<> post_receives();
  void start_timer();
  void tick();
  [[nodiscard]] TimePoint& since(Want what) {
    return what == Want::kToReceive ? starved_receiving_ : starved_sending_;
  }
  [[nodiscard]] bool starves() const {
    return starved_receiving_ != TimePoint{} || starved_sending_ != TimePoint{};
  }
  [[nodiscard]] std::optional<Error> late(TimePoint now);
  void finish_close();
  // Asks when what nobody waits for is done.
  void ask_for_quiet();

  boost::asio::io_context& context_;
  const Options options_;
  const std::unique_ptr<QueuePair> queue_pair_;
  const std::size_t credits_;
  const std::size_t most_quiet_;
  RunningClock clock_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<ChannelUser> user_;

  State state_ = State::kOpen;
  Error why_{Errc::kClosed, {}};
  bool connected_ = false;
  bool paused_ = false;
  bool process_posted_ = false;

  std::deque<Completion> arrived_;
  std::deque<Work> works_;           // to be posted
  std::size_t under_way_ = 0;        // posted, without receives
  std::size_t quiet_ = 0;            // of those: Work::quiet
  std::size_t sends_ = 0;            // of the others
  std::size_t bytes_under_way_ = 0;  // of what is sent
  std::uint64_t bytes_sent_ = 0;
  std::deque<TimePoint> waited_since_;  // work that is not quiet was posted, the oldest first

  // Since when, for the deadlines; the epoch when not so.
  TimePoint starved_receiving_{};
  TimePoint starved_sending_{};
  TimePoint closing_since_{};
  TimePoint last_activity_;
};

}  // namespace weft::rpc::rdma
