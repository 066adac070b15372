// Duplication by the client: what a client does with the copies that a flexible files layout names
// (CEFT-PVFS protocols 3 and 4).
//
// Each write is sent to all copies at once. kAll (protocol 4, client-synchronous, what a Linux
// client does): it is done when all have answered. kFirst (protocol 3, client-asynchronous): it is
// done when the first has answered, while what the others owe is within a window of bytes; beyond
// it, as with kAll. drain() waits for all; a COMMIT or close that promises durability comes after.
//
// A copy that fails a write after that was answered makes the next write and drain() fail: nothing
// is said to be safe that is not on all copies.
//
// Threading: one I/O thread calls and is called back. Ownership: lives as a shared_ptr; a write in
// flight keeps it alive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/error.h"

namespace weft::load {

enum class AnswerWhen : std::uint8_t { kAll, kFirst };

class ClientCopies : public std::enable_shared_from_this<ClientCopies> {
 public:
  using Done = std::move_only_function<void(Result<>)>;
  // Writes at one copy; `done` is called once, later or at once.
  using Send = std::function<void(std::size_t copy, std::uint64_t offset, Buffer data, Done done)>;

  // Precondition: at least one copy. `window_bytes`: of kFirst, owed to copies at most.
  ClientCopies(std::size_t copies, AnswerWhen when, std::uint64_t window_bytes, Send send)
      : copies_(copies), when_(when), window_(window_bytes), send_(std::move(send)) {}

  void write(std::uint64_t offset, Buffer data, Done done);
  // When no write is in flight any more: the first failure that no write was answered with.
  void drain(Done done);

 private:
  struct Write;
  void answered(const std::shared_ptr<Write>& write, Result<> result);

  const std::size_t copies_;
  const AnswerWhen when_;
  const std::uint64_t window_;
  const Send send_;
  std::uint64_t owed_ = 0;  // bytes of writes that are done, and not yet at every copy
  std::size_t in_flight_ = 0;
  std::optional<Error> failed_;
  std::vector<Done> draining_;
};

}  // namespace weft::load
