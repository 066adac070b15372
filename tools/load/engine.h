// The generator's one I/O thread, its memory, and blocking calls on top of asynchronous sessions.
//
// Threading: the set-up calls (wait_for, call) are for the main thread and block it; data
// operations run and complete on the engine's I/O thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/nfs4/compound.h"
#include "rpc/session/session_client.h"
#include "rpc/transport/io_threads.h"

namespace weft::load {

struct SessionSettings {
  std::uint32_t minor_version = 1;
  std::uint32_t slots = 64;
  std::uint32_t exchange_flags = 0;
};

class Engine {
 public:
  explicit Engine(std::size_t memory_bytes);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] boost::asio::io_context& context() { return threads_.context(0); }
  [[nodiscard]] BufferPool& pool() { return pool_; }

  // A session with the server at a numeric address, ready for calls.
  [[nodiscard]] Result<std::unique_ptr<rpc::SessionClient>> connect(
      const std::string& address, std::uint16_t port, const SessionSettings& settings);

  // One compound, waited for. An operation's failure is an error here, named after the operation.
  // `ops` makes the list of operations. Sent again for a while as long as the server says it will
  // do later (grace, a layout not yet).
  using Ops = std::function<std::vector<rpc::nfs4::OpArgs>()>;
  [[nodiscard]] static Result<rpc::nfs4::CompoundResult> call(rpc::SessionClient& session,
                                                              const Ops& ops,
                                                              bool cache_this = false);

  // Ends a session; waits for its goodbye for a moment.
  void disconnect(std::unique_ptr<rpc::SessionClient> session);

 private:
  BufferPool pool_;
  rpc::IoThreads threads_;
  std::string owner_;
  rpc::nfs4::Verifier verifier_;
};

// The open owner of every file, as a stock client has one for each user.
[[nodiscard]] std::vector<std::byte> open_owner();

// A list of operations (which an initializer list cannot hold: they only move).
template <class... Ops>
[[nodiscard]] std::vector<rpc::nfs4::OpArgs> compound(Ops&&... ops) {
  std::vector<rpc::nfs4::OpArgs> out;
  out.reserve(sizeof...(ops));
  (out.push_back(std::forward<Ops>(ops)), ...);
  return out;
}

// kIo or what the status means, naming operation and status, when the compound failed.
[[nodiscard]] Result<> check(const rpc::nfs4::CompoundResult& result);

}  // namespace weft::load
