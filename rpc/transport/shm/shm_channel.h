// A Channel through memory that two processes share. Internal to rpc/transport/shm: ShmServer and
// shm_dialer() make them.
//
// A record is copied into a ring and out of it (ring.h, record.h). Buffers in the arena, which is
// the connecting side's, are lent instead of copied: what goes through the ring is where they are.
// The side they are lent to uses the pages as they are, and gives them back when the last of its
// Buffers over them is gone; what it gives back goes along with the next record, or by itself at
// the end of the turn.
//
// A peer that sleeps is woken by its bell, an eventfd (bell.h), if its user is root or our own. A
// write to it can be made to wait for ever: whether it may belongs to the open file, which the peer
// shares. But who is root or our user could stop this process as well, and gains nothing. One who
// is only admitted by name would: he is woken by a byte through the socket, and sending one can
// never block, whatever the peer does. Each side decides for itself, and listens to both.
//
// The Unix socket the two met on stays: its end says that the peer is gone. The borrowing side
// keeps its end open until it has no page in use, and says so before it ends it; so the lender,
// once the socket has ended, knows that no thread of the peer touches its pages any more. Of a peer
// that died and said nothing a disk may, which the peer told to write there: pages not given back
// are retired, so that others take their place in the arena before they are used again
// (Arena::retire). A lender that closes with pages still out lingers until then.
//
// The accepting side can hand descriptors over with its records, through a socket of their own that
// nobody listens at: they are taken when a record says that one came with it.
//
// The peer is not trusted: positions, sizes, counts, loans and releases are checked, on copies. It
// can change lent bytes at any time, lie in them, and end the connection; nothing else.
//
// Threading and ownership: channel.h. Buffers over borrowed pages may be let go on any thread.
#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "rpc/base/clock.h"
#include "rpc/base/shared_memory.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/shm/bell.h"
#include "rpc/transport/shm/patience.h"
#include "rpc/transport/shm/record.h"
#include "rpc/transport/shm/ring.h"
#include "rpc/transport/shm/shm_options.h"

namespace weft::rpc {

// What an established connection consists of.
struct ShmConnection {
  boost::asio::local::stream_protocol::socket socket;  // of the thread's io_context
  std::shared_ptr<SharedMemory> rings;                 // to the accepting side, then back
  std::size_t ring_capacity = 0;                       // of each
  std::shared_ptr<SharedMemory> arena;
  OwnedFd handing{};    // for descriptors, from the accepting side
  OwnedFd bell{};       // by which this side is woken; none: through the socket only
  OwnedFd peer_bell{};  // by which it wakes the peer; none: through the socket
  bool lender = false;  // the connecting side
  std::string peer;
  const Clock& clock = system_clock();
};

class ShmChannel final : public Channel, public std::enable_shared_from_this<ShmChannel> {
 public:
  // Records are received into buffers of `pool`.
  ShmChannel(ShmConnection connection, BufferPool& pool, const ShmLimits& limits,
             std::move_only_function<void()> gone = {});
  ~ShmChannel() override;

  void start(std::shared_ptr<ChannelUser> user) override;
  void send(Message message) override;
  [[nodiscard]] bool lends(const Buffer& buffer) const override;
  [[nodiscard]] bool hand_over(int descriptor) override;
  [[nodiscard]] Result<OwnedFd> take_handed() override;
  void pause() override { paused_ = true; }
  void resume() override;
  void close(Error why, bool drain) override;
  void post(std::move_only_function<void()> work) override;
  [[nodiscard]] const std::string& peer() const override { return connection_.peer; }
  [[nodiscard]] bool lacks_memory() const override { return starved_since_ != TimePoint{}; }
  [[nodiscard]] std::size_t queued_bytes() const override { return queued_bytes_; }
  // Bytes that are lent and not given back.
  [[nodiscard]] std::size_t lent_bytes() const { return lent_bytes_; }

 private:
  enum class State {
    kOpen,
    kFlushing,   // closing, with records still to go into the ring
    kLingering,  // closed but for pages that the peer still has
    kClosed,
  };
  struct Borrowed;

  // Sending (shm_channel_send.cc).
  [[nodiscard]] std::vector<std::byte> encode(Message& message, std::vector<Loan>& loans);
  void push_or_queue(const RecordHead& head, std::span<const std::uint32_t> releases,
                     std::span<const Loan> loans, std::span<const std::byte> message);
  void flush_queue();
  void flush_releases();
  void ring_bell();
  void start_stall_timer(std::chrono::milliseconds limit);

  // Receiving.
  void listen_to_socket();
  void on_socket(const boost::system::error_code& error);
  void on_bell();
  void schedule_drain();
  void drain();
  // Takes one record; false when there is none, or reading must stop.
  [[nodiscard]] bool receive_one();
  [[nodiscard]] bool take_back(const Record& record);
  void deliver(const Record& record, Buffer message);
  void wait_for_more();
  void poll();
  void sleep();
  void out_of_memory();
  [[nodiscard]] bool may_read() const;

  void fail_with(Error why);
  void finish_close();
  void peer_gone();
  void retire_lent();

  ShmConnection connection_;
  BufferPool& pool_;
  const ShmLimits limits_;
  std::move_only_function<void()> gone_;
  std::shared_ptr<ChannelUser> user_;
  RingProducer out_;
  RingConsumer in_;
  Bell bell_;
  Patience patience_;
  boost::asio::steady_timer stall_timer_;
  boost::asio::steady_timer memory_timer_;

  std::unordered_map<std::uint32_t, Buffer> lent_;  // the lender's: out, by number
  std::uint32_t next_loan_ = 0;
  std::size_t lent_bytes_ = 0;
  std::shared_ptr<Borrowed> borrowed_;  // the borrower's

  std::deque<std::vector<std::byte>> queue_;  // records for which there was no room
  std::size_t queued_bytes_ = 0;
  std::vector<std::byte> scratch_;  // a received record, out of the peer's reach
  std::byte bytes_[64];             // that woke us through the socket

  State state_ = State::kOpen;
  Error why_{Errc::kClosed, {}};
  bool paused_ = false;
  bool drain_posted_ = false;
  bool polling_ = false;
  bool starved_ = false;         // waiting for the pool
  bool all_given_back_ = false;  // the borrower has said so, at its end
  TimePoint starved_since_{};
  TimePoint idle_since_{};
  TimePoint poll_until_{};
};

}  // namespace weft::rpc
