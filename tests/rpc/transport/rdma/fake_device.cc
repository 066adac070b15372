#include "tests/rpc/transport/rdma/fake_device.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>

#include "rpc/base/assert.h"
#include "rpc/base/shared_memory.h"

namespace weft::rpc::rdma {
namespace {

// Addresses are those in the client's own memory: far from 0, and different for each handle.
std::uint64_t base_of(std::uint32_t handle) { return std::uint64_t{handle} << 32 | 0x1000; }

}  // namespace

class FakeQueuePair final : public QueuePair {
 public:
  explicit FakeQueuePair(std::shared_ptr<FakeWire> wire) : wire_(std::move(wire)) {}

  void start(std::shared_ptr<QueuePairUser> user) override { wire_->user_ = std::move(user); }
  void post(Work work) override { wire_->post(std::move(work)); }
  void disconnect() override { wire_->end({Errc::kClosed, "disconnected"}); }
  [[nodiscard]] bool registered(std::span<const std::byte> bytes) const override {
    const auto& arena = wire_->pool_.arena();
    return arena != nullptr && arena->memory()->contains(bytes);
  }
  [[nodiscard]] std::size_t max_work() const override { return wire_->max_work; }
  [[nodiscard]] std::size_t max_receives() const override { return wire_->max_receives; }
  [[nodiscard]] std::size_t max_send_bytes() const override { return wire_->max_send_bytes; }
  [[nodiscard]] bool may_invalidate() const override { return wire_->may_invalidate; }
  [[nodiscard]] const std::string& peer() const override { return peer_; }

 private:
  const std::shared_ptr<FakeWire> wire_;
  const std::string peer_ = "192.0.2.7:20049";
};

std::unique_ptr<QueuePair> FakeWire::queue_pair() {
  return std::make_unique<FakeQueuePair>(shared_from_this());
}

Segment FakeWire::expose(std::vector<std::byte> bytes) {
  const std::uint32_t handle = ++last_handle_;
  const auto size = static_cast<std::uint32_t>(bytes.size());
  memory_.emplace(handle, std::move(bytes));
  return {.handle = handle, .length = size, .offset = base_of(handle)};
}

void FakeWire::send(std::span<const std::byte> bytes) {
  if (ended_) return;
  if (receives_.empty() || bytes.size() > receives_.front().memory.size()) {
    return end({Errc::kUnreachable, "a Send that nothing was posted for"});
  }
  Work work = std::move(receives_.front());
  receives_.pop_front();
  std::ranges::copy(bytes, work.memory.data());
  boost::asio::post(
      context_, [self = shared_from_this(), held = std::move(work), size = bytes.size()]() mutable {
        if (self->user_ == nullptr) return;
        self->user_->on_completion({.work = std::move(held), .done = true, .received = size});
      });
}

void FakeWire::post(Work work) {
  const bool receive = work.kind == Work::Kind::kReceive;
  const bool nothing = work.kind == Work::Kind::kNothing;
  WEFT_ASSERT(work.memory.empty() == nothing);
  WEFT_ASSERT(!work.quiet || (work.kind == Work::Kind::kSend && !work.joined));
  WEFT_ASSERT(receive ? receives_.size() < max_receives : work_.size() + untold_.size() < max_work);
  if (!nothing && pool_.arena() != nullptr) {
    WEFT_ASSERT(pool_.arena()->memory()->contains(work.memory.span()));
  }
  if (receive) return receives_.push_back(std::move(work));
  work_.push_back(std::move(work));
  boost::asio::post(context_, [self = shared_from_this()] { self->step(); });
}

void FakeWire::step() {
  if (hold || ended_ || user_ == nullptr || work_.empty()) return;
  const bool done = carry_out(work_.front());
  Work work = std::move(work_.front());
  work_.pop_front();
  if (done && work.quiet) return untold_.push_back(std::move(work));
  for (Work& before : std::exchange(untold_, {})) {
    user_->on_completion({.work = std::move(before), .done = true});
  }
  ++told;
  user_->on_completion({.work = std::move(work), .done = done});
  if (!done) end({Errc::kUnreachable, "a remote access error"});
}

bool FakeWire::carry_out(Work& work) {
  if (work.kind == Work::Kind::kNothing) return true;
  const auto bytes = work.memory.span();
  if (work.kind == Work::Kind::kSend) {
    if (bytes.size() > max_send_bytes) return false;
    if (work.invalidate) {
      WEFT_ASSERT(may_invalidate);
      const auto gone = memory_.find(*work.invalidate);
      if (gone == memory_.end()) return false;
      if (on_invalidate) on_invalidate(gone->second);
      memory_.erase(gone);
      invalidated.push_back(*work.invalidate);
    }
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    if (on_sent) {
      on_sent(std::move(copy));
    } else {
      sent.push_back(std::move(copy));
    }
    return true;
  }
  std::byte* remote = reach(work.remote, bytes.size());
  if (remote == nullptr) return false;
  if (work.kind == Work::Kind::kRead) {
    std::memcpy(bytes.data(), remote, bytes.size());
    read += bytes.size();
  } else {
    std::memcpy(remote, bytes.data(), bytes.size());
    written += bytes.size();
  }
  return true;
}

std::byte* FakeWire::reach(const Segment& segment, std::size_t size) {
  const auto found = memory_.find(segment.handle);
  if (found == memory_.end() || segment.length != size) return nullptr;
  const std::uint64_t base = base_of(segment.handle);
  auto& bytes = found->second;
  if (segment.offset < base || segment.offset - base > bytes.size()) return nullptr;
  if (size > bytes.size() - (segment.offset - base)) return nullptr;
  return bytes.data() + (segment.offset - base);
}

void FakeWire::end(Error why) {
  if (std::exchange(ended_, true)) return;
  boost::asio::post(context_, [self = shared_from_this(), reason = std::move(why)] {
    if (self->on_ended) self->on_ended();
    const auto user = std::exchange(self->user_, nullptr);
    if (user == nullptr) return;
    for (auto* queue : {&self->untold_, &self->work_, &self->receives_}) {
      for (Work& work : *queue) user->on_completion({.work = std::move(work)});
      queue->clear();
    }
    user->on_disconnected(reason);
  });
}

}  // namespace weft::rpc::rdma
