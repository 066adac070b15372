// A QueuePair: one reliable connection of an RDMA device, and what is asked of it. It is as much of
// the verbs as the transport uses, so that tests have a device where there is none.
//
// Work is posted and completes later, in any order but for this: Writes and Sends that succeed take
// effect at the peer in the order in which they were posted. The first that fails ends the
// connection: what was posted then completes as failed.
//
// What a peer may read and write by itself is exposed: memory of one connection's, of which nothing
// else is ever made, so that a peer reaches nothing that is not its own. All that the end which
// exposes it posts lies there too.
//
// Threading: every call to it and every call it makes comes on one I/O thread. It calls nobody from
// within a call to it.
//
// Ownership: memory that work names is the queue pair's until the work has completed. The queue
// pair keeps its user alive until after on_disconnected(), and exposed memory until it is gone.
//
// Invariants:
//  1. Everything posted completes exactly once, before on_disconnected().
//  2. on_disconnected() is called exactly once, if start() was called, and nothing after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rpc/base/buffer.h"
#include "rpc/base/error.h"
#include "rpc/base/shared_memory.h"
#include "rpc/transport/rdma/header.h"

namespace weft::rpc::rdma {

struct Work {
  enum class Kind : std::uint8_t {
    kReceive,  // one Send of the peer, into `memory`
    kSend,     // `memory`, into what the peer has posted
    kRead,     // the peer's memory `remote`, into `memory`, which is as large
    kWrite,    // `memory`, into the peer's memory `remote`, which is as large
    kNothing,  // done when all is that was posted before it, but for receives
  };
  Kind kind = Kind::kReceive;
  Buffer memory;  // registered, and not empty but of a kNothing
  Segment remote;
  std::uint64_t tag = 0;  // whatever the poster wants to find again
  // More of the same is posted next, with no turn of the thread between: the device may be given
  // all of it at once, and tell of it at once when the last is done. Not of a kReceive.
  bool joined = false;
  // Of a kSend: nobody waits for it. That it is done may be told as late as of what is posted next
  // and is not quiet; that it failed is told at once. If the connection ends before, it is told to
  // have failed though it may be done.
  bool quiet = false;
  // Of a kSend: the peer's memory with this handle is out of reach when it arrives, and the peer is
  // told so. Only if the queue pair may_invalidate().
  std::optional<std::uint32_t> invalidate = std::nullopt;
};

struct Completion {
  Work work;
  bool done = false;         // or failed
  std::size_t received = 0;  // bytes; of a kReceive that is done, at most memory.size()
};

// Whole pages that the peer may reach, at any time until the queue pair is gone; named by `handle`
// and an address of this process.
struct Exposed {
  std::shared_ptr<SharedMemory> memory;  // null: none
  std::uint32_t handle = 0;
};

class QueuePairUser {
 public:
  QueuePairUser() = default;
  QueuePairUser(const QueuePairUser&) = delete;
  QueuePairUser& operator=(const QueuePairUser&) = delete;
  virtual ~QueuePairUser() = default;

  virtual void on_completion(Completion completion) = 0;
  // kClosed: the peer ended it, or disconnect() was called; kUnreachable: it failed.
  virtual void on_disconnected(const Error& why) = 0;
};

class QueuePair {
 public:
  QueuePair() = default;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  virtual ~QueuePair() = default;

  // The peer may send from now on: into receives that were posted before. Called once. A peer that
  // asked for the connection is told that it has it.
  virtual void start(std::shared_ptr<QueuePairUser> user) = 0;
  // Precondition: less than max_work() of it that is no kReceive is under way, and no more receives
  // than max_receives().
  virtual void post(Work work) = 0;
  virtual void disconnect() = 0;

  // Whether the device can reach these bytes.
  [[nodiscard]] virtual bool registered(std::span<const std::byte> bytes) const = 0;
  [[nodiscard]] virtual Exposed exposed() const { return {}; }
  [[nodiscard]] virtual std::size_t max_work() const = 0;
  [[nodiscard]] virtual std::size_t max_receives() const = 0;
  // What the peer takes in one Send: as it said, and no more than was offered to it.
  [[nodiscard]] virtual std::size_t max_send_bytes() const = 0;
  // Whether the peer wants Sends to invalidate handles of its, and the device can do that.
  [[nodiscard]] virtual bool may_invalidate() const { return false; }
  [[nodiscard]] virtual const std::string& peer() const = 0;  // "192.0.2.7:812", for logs
};

}  // namespace weft::rpc::rdma
