// A Channel: one connection that carries whole RPC records both ways.
//
// Outgoing messages are gathered (bytes, buffers, file ranges); what comes is a ReceivedRecord,
// whose bytes are one Buffer from the pool, so that a WRITE's payload can be passed on by share().
// Whoever uses a channel implements ChannelUser; the implementations are tcp_channel.h (the
// kernel's TCP), shm/shm_channel.h (shared memory), over that shm/bulk_channel.h (an NFS session's
// data in memory of both), rdma/server_channel.h and rdma/client_channel.h (the ends of RDMA), and
// one in memory for tests.
//
// Threading: a channel lives on one I/O thread; every call to it and every call it makes comes on
// that thread. post() alone may be called from any thread.
//
// Ownership: the channel keeps its user alive from start() until after on_closed(). A user keeps a
// shared_ptr to the channel and drops it in on_closed(). Neither on_record() nor on_closed() is
// called from within start(), send(), pause() or resume(); close() calls on_closed() later.
//
// Invariants:
//  1. on_closed() is called exactly once, and nothing after it.
//  2. What is queued to be sent is bounded: beyond the limit reading stops until the peer has
//     taken its replies, so a peer that does not read cannot make us buffer without end. What was
//     being carried out by then still adds its replies. By TCP the limit is on bytes and, but for
//     servers, on what the queue takes of memory (tcp_options.h).
//  3. A record is never larger than the channel's limit, and a record that stays half-received
//     longer than its deadline ends the connection.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "rpc/base/buffer.h"
#include "rpc/base/error.h"
#include "rpc/base/standing.h"
#include "rpc/onc/message.h"
#include "rpc/transport/received_record.h"

namespace weft::rpc {

class ChannelUser {
 public:
  ChannelUser() = default;
  ChannelUser(const ChannelUser&) = delete;
  ChannelUser& operator=(const ChannelUser&) = delete;
  virtual ~ChannelUser() = default;

  virtual void on_record(ReceivedRecord record) = 0;
  // Whether the peer waits for an answer: so long a connection is not idle.
  [[nodiscard]] virtual bool is_awaited() const { return false; }
  // The connection is gone; `why` says how: kClosed (peer closed it, or close() was called),
  // kTimedOut, kProtocol, kTooLarge, kUnreachable, kBusy (no memory for too long), kFenced (the
  // right to a file that is being sent is gone).
  virtual void on_closed(const Error& why) = 0;
};

class Channel {
 public:
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  virtual ~Channel() = default;

  // Begins to deliver records. Called once.
  virtual void start(std::shared_ptr<ChannelUser> user) = 0;
  // Queues one record. Dropped without notice when the channel is closed or closing.
  virtual void send(Message message) = 0;
  // Whether a buffer spliced into a message is lent to the peer as it is, instead of its bytes
  // becoming part of the record. The peer may write into it too, until it gives it back: so lending
  // is how data is sent and how room for data is. The channel holds the buffer so long.
  [[nodiscard]] virtual bool lends(const Buffer& /*buffer*/) const { return false; }
  // Hands a descriptor over, for the record that is sent next: the peer gets one of its own. False:
  // not through this channel, or the peer has too many untaken.
  [[nodiscard]] virtual bool hand_over(int /*descriptor*/) { return false; }
  // What the peer handed over, in that order, one for each call. kNotFound: there is none. kBusy:
  // it is lost, this process may have no more.
  [[nodiscard]] virtual Result<OwnedFd> take_handed() {
    return fail(Errc::kNotFound, "no descriptors come through this channel");
  }
  // Stops and goes on delivering records; not counted, the last call wins.
  virtual void pause() = 0;
  virtual void resume() = 0;
  // The peer has shown who it is. It is never less after; false: there are as many of those as may
  // be, and the connection is to be closed.
  [[nodiscard]] virtual bool promote(Standing /*to*/) { return true; }
  // Ends the connection: at once, or (drain) when everything queued has been sent or the drain
  // deadline passes. Nothing is delivered after.
  virtual void close(Error why, bool drain = false) = 0;
  // Runs `work` on the channel's thread later. From any thread.
  virtual void post(std::move_only_function<void()> work) = 0;

  [[nodiscard]] virtual const std::string& peer() const = 0;  // "192.0.2.7:812", for logs
  [[nodiscard]] virtual bool by_rdma() const { return false; }
  // Whether something that has come waits for memory to receive it into.
  [[nodiscard]] virtual bool lacks_memory() const { return false; }
  [[nodiscard]] virtual std::size_t queued_bytes() const = 0;
};

// Makes a connection (tcp_dialer.h, or a test's); called on an I/O thread, `done` comes on it too.
using Dial =
    std::function<void(std::move_only_function<void(Result<std::shared_ptr<Channel>>)> done)>;

}  // namespace weft::rpc
