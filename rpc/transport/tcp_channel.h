// A Channel over the kernel's TCP. Internal to rpc/transport: TcpServer and tcp_dialer() make them.
//
// Receiving: readiness from Asio, recvmsg(2) into the RecordReader's targets until the socket is
// empty or a budget of bytes and of records is used up (so that one busy peer does not starve the
// others of this thread).
// While a large record is under way the socket is asked to wake us for large parts only
// (SO_RCVLOWAT). The bulk data of such a record may go to a pipe instead (splice(2)).
//
// Sending: replies are queued and flushed once per turn of the I/O thread, so that those which
// become ready together leave in one system call.
//
// Deadlines are looked at by one timer per channel, ticking at a fraction of the shortest. Time in
// which this thread did not run counts for nothing (rpc/base/running_clock.h).
//
// Threading and ownership: channel.h. Pending Asio operations keep the channel alive.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "rpc/base/pool_hold.h"
#include "rpc/base/running_clock.h"
#include "rpc/onc/record_reader.h"
#include "rpc/transport/admission.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/send_queue.h"
#include "rpc/transport/slow_peer.h"
#include "rpc/transport/tcp_options.h"

namespace weft::rpc {

class TcpChannel final : public Channel, public std::enable_shared_from_this<TcpChannel> {
 public:
  // A connected socket, which must belong to the io_context whose thread runs this channel.
  TcpChannel(boost::asio::ip::tcp::socket socket, BufferPool& pool, const TcpLimits& limits,
             ConnectionPlace place = {});
  ~TcpChannel() override;

  void start(std::shared_ptr<ChannelUser> user) override;
  void send(Message message) override;
  void pause() override { paused_ = true; }
  void resume() override;
  [[nodiscard]] bool promote(Standing to) override;
  void close(Error why, bool drain) override;
  void post(std::move_only_function<void()> work) override;
  [[nodiscard]] const std::string& peer() const override { return peer_; }
  [[nodiscard]] bool lacks_memory() const override { return starved_since_ != TimePoint{}; }
  [[nodiscard]] std::size_t queued_bytes() const override { return queue_.bytes(); }

 private:
  enum class State {
    kOpen,
    kFlushing,   // closing, with replies still to send
    kLingering,  // everything sent and our side shut; the peer's end is awaited
    kClosed,
  };

  void set_socket_options();
  void wait_readable();
  void wait_writable();
  void on_readable();
  // Takes from the socket once; false when there is no more for now.
  [[nodiscard]] bool receive_once(std::size_t& budget);
  [[nodiscard]] bool receive_piped(std::size_t& budget);
  void end_of_stream();
  // Hands over whole records; false when reading must stop (paused, out of memory, closed, or so
  // many were handed over).
  [[nodiscard]] bool deliver(std::size_t& records);
  void discard_until_end();
  void set_low_water();
  void schedule_read();
  // Whether what is queued may be so much.
  [[nodiscard]] bool queue_has_room();
  void schedule_flush();
  void flush();
  void flushed_all();
  void tick();
  // Whether a peer that is to make haste does not.
  [[nodiscard]] std::uint64_t acknowledged();  // of queue_.sent()
  [[nodiscard]] bool crawls(TimePoint now, std::uint64_t taken);
  void start_timer();
  [[nodiscard]] Milliseconds tick_interval() const;
  [[nodiscard]] bool may_read() const;
  void fail_with(Error why);
  void finish_close();

  boost::asio::ip::tcp::socket socket_;
  const TcpLimits limits_;
  BufferPool& pool_;
  ConnectionPlace place_;
  RunningClock clock_;
  std::string peer_;
  std::shared_ptr<ChannelUser> user_;
  RecordReader reader_;
  SendQueue queue_;
  PoolHold queue_hold_;
  boost::asio::steady_timer timer_;

  State state_ = State::kOpen;
  Error why_{Errc::kClosed, {}};
  bool paused_ = false;
  bool throttled_ = false;     // the send queue is over its limit
  bool waiting_read_ = false;  // an Asio wait is pending
  bool waiting_write_ = false;
  bool read_posted_ = false;
  bool flush_posted_ = false;
  int low_water_ = 1;

  // Since when, for the deadlines; the epoch when not so.
  TimePoint partial_since_{};
  TimePoint starved_since_{};  // waiting for the pool
  TimePoint stalled_since_{};  // replies queued and none taken
  TimePoint closing_since_{};
  TimePoint stranger_since_;  // or since it was told last that it is one
  TimePoint last_activity_;
  TimePoint held_back_at_;  // the last tick at which we did not read, or had no memory
  std::uint64_t taken_at_tick_ = 0;
  std::uint64_t received_ = 0;
  SlowPeer slow_;
};

}  // namespace weft::rpc
