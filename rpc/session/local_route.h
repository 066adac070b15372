// How a server of a system reaches another one that may be on its own machine: through shared
// memory where that is possible, by the network where not. Chosen anew for each connection, by
// itself.
//
// Shared memory is tried when the other server says that it listens on a socket of this machine.
// What cannot be reached there, refuses, is another server, or breaks the rules, is reached by the
// network; whoever uses the connection notices nothing. After anything but "nobody listens" shared
// memory is left alone for kBan. A session that has come to the network looks every kLookEvery,
// when it is used, whether there is shared memory by now (look()), and goes there when that is
// found to work.
//
// Threading: transport(), counts() and wants_look() from any thread; the rest on the context's.
//
// Ownership: context and pool outlive it. What dial() gave owns it; channels do not. Let go of it
// on the context's thread.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "rpc/base/clock.h"
#include "rpc/base/machine.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/shm/bulk_channel.h"

namespace weft::rpc {

enum class Transport : std::uint8_t { kNone, kTcp, kRdma, kSharedMemory };
// "none", "tcp", "rdma", "shared memory"
[[nodiscard]] std::string_view to_string(Transport transport);

class LocalRoute : public std::enable_shared_from_this<LocalRoute> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kBan{30};
  static constexpr std::chrono::seconds kLookEvery{10};

  struct Parts {
    boost::asio::io_context& context;
    BufferPool& pool;                      // without an arena there is only the network
    std::string name;                      // of the other server, for logs
    std::function<LocalEndpoint()> where;  // as it says at the moment
    ServerIdentity server{};
    Dial network;
    std::chrono::milliseconds connect_deadline{2000};  // of shared memory
    std::function<Clock::time_point()> now = [] { return system_clock().now(); };
  };
  explicit LocalRoute(Parts parts) : parts_(std::move(parts)) {}
  LocalRoute(const LocalRoute&) = delete;
  LocalRoute& operator=(const LocalRoute&) = delete;
  ~LocalRoute();

  // Owns the route.
  [[nodiscard]] Dial dial();
  // Of the newest connection.
  [[nodiscard]] Transport transport() const { return transport_.load(std::memory_order_relaxed); }
  [[nodiscard]] const BulkCounts& counts() const { return *counts_; }

  // Whether it is time to look for something better than the network. True once for each look.
  [[nodiscard]] bool wants_look();
  // Calls `found` if the next dial() will give shared memory.
  void look(std::function<void()> found);

 private:
  using Done = std::move_only_function<void(Result<std::shared_ptr<Channel>>)>;

  void now_by(Transport transport);
  void dial_shared(Done done);
  void dial_network(Done done);
  [[nodiscard]] bool by_network() const;
  [[nodiscard]] bool may_share(const LocalEndpoint& endpoint) const;
  void failed(const Error& why);
  void ended(Clock::time_point made, const Error& why);
  void ban(const Error& why);

  const Parts parts_;
  const std::shared_ptr<BulkCounts> counts_ = std::make_shared<BulkCounts>();
  std::atomic<Transport> transport_{Transport::kNone};
  std::atomic<Clock::time_point> next_look_{};
  Clock::time_point banned_until_{};
  unsigned short_ = 0;              // connections in a row that ended at once
  std::string complaint_;           // the last in the log
  std::shared_ptr<Channel> found_;  // by look(), for the next dial
};

}  // namespace weft::rpc
