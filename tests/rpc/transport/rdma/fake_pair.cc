#include "tests/rpc/transport/rdma/fake_pair.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>

#include "rpc/base/assert.h"

namespace weft::rpc::rdma {

class FakeEnd final : public QueuePair {
 public:
  FakeEnd(std::shared_ptr<FakePair> pair, FakePair::At at) : pair_(std::move(pair)), at_(at) {}

  void start(std::shared_ptr<QueuePairUser> user) override {
    pair_->side(at_).user = std::move(user);
    if (pair_->ended_) boost::asio::post(pair_->context_, [pair = pair_] { pair->cut(); });
  }
  void post(Work work) override { pair_->post(at_, std::move(work)); }
  void disconnect() override { pair_->end({Errc::kClosed, "disconnected"}); }
  [[nodiscard]] bool registered(std::span<const std::byte> bytes) const override {
    return pair_->reaches(at_, bytes);
  }
  [[nodiscard]] Exposed exposed() const override {
    return at_ == FakePair::At::kCalling ? pair_->exposed_ : Exposed{};
  }
  [[nodiscard]] std::size_t max_work() const override { return pair_->max_work; }
  [[nodiscard]] std::size_t max_receives() const override { return pair_->max_receives; }
  [[nodiscard]] std::size_t max_send_bytes() const override { return pair_->max_send_bytes; }
  [[nodiscard]] const std::string& peer() const override { return peer_; }

 private:
  const std::shared_ptr<FakePair> pair_;
  const FakePair::At at_;
  const std::string peer_ = "192.0.2.7:20049";
};

FakePair::FakePair(boost::asio::io_context& context, const BufferPool& serving, std::size_t exposed)
    : context_(context), serving_(serving) {
  exposed_ = {.memory = SharedMemory::create(exposed, "exposed").value(), .handle = 0x7777};
}

std::unique_ptr<QueuePair> FakePair::calling() {
  return std::make_unique<FakeEnd>(shared_from_this(), At::kCalling);
}

std::unique_ptr<QueuePair> FakePair::serving() {
  return std::make_unique<FakeEnd>(shared_from_this(), At::kServing);
}

bool FakePair::reaches(At at, std::span<const std::byte> bytes) const {
  if (at == At::kCalling) return exposed_.memory->contains(bytes);
  return serving_.arena() != nullptr && serving_.arena()->memory()->contains(bytes);
}

void FakePair::post(At at, Work work) {
  Side& own = side(at);
  const bool receive = work.kind == Work::Kind::kReceive;
  const bool nothing = work.kind == Work::Kind::kNothing;
  WEFT_ASSERT(work.memory.empty() == nothing && (nothing || reaches(at, work.memory.span())));
  WEFT_ASSERT(receive ? own.receives.size() < max_receives
                      : own.work.size() + own.untold.size() < max_work);
  if (ended_ && own.user == nullptr) return;
  if (receive) return own.receives.push_back(std::move(work));
  own.work.push_back(std::move(work));
  boost::asio::post(context_, [self = shared_from_this(), at] { self->step(at); });
}

void FakePair::step(At at) {
  Side& own = side(at);
  if (hold || ended_ || own.user == nullptr || own.work.empty()) return;
  const bool done = carry_out(at, own.work.front());
  Work work = std::move(own.work.front());
  own.work.pop_front();
  if (done && work.quiet) return own.untold.push_back(std::move(work));
  for (Work& before : std::exchange(own.untold, {})) {
    own.user->on_completion({.work = std::move(before), .done = true});
  }
  own.user->on_completion({.work = std::move(work), .done = done});
  if (!done) end({Errc::kUnreachable, "a remote error"});
}

bool FakePair::carry_out(At at, Work& work) {
  if (work.kind == Work::Kind::kNothing) return true;
  const auto bytes = work.memory.span();
  if (work.kind == Work::Kind::kSend) {
    WEFT_ASSERT(!work.invalidate);
    Side& to = other(at);
    if (to.user == nullptr || to.receives.empty()) return false;
    Work receive = std::move(to.receives.front());
    to.receives.pop_front();
    if (bytes.size() > receive.memory.size() || bytes.size() > max_send_bytes) return false;
    std::ranges::copy(bytes, receive.memory.data());
    if (at == At::kCalling) ++sends;
    to.user->on_completion({.work = std::move(receive), .done = true, .received = bytes.size()});
    return true;
  }
  if (at == At::kCalling || work.remote.handle != exposed_.handle) return false;
  const std::span<std::byte> remote(reinterpret_cast<std::byte*>(work.remote.offset),
                                    work.remote.length);
  if (remote.size() != bytes.size() || !exposed_.memory->contains(remote)) return false;
  if (work.kind == Work::Kind::kRead) {
    std::ranges::copy(remote, bytes.data());
    read += bytes.size();
  } else {
    std::ranges::copy(bytes, remote.data());
    written += bytes.size();
  }
  return true;
}

void FakePair::end(Error why) {
  const bool again = std::exchange(ended_, true);
  if (again && side(At::kCalling).user == nullptr && side(At::kServing).user == nullptr) return;
  boost::asio::post(context_, [self = shared_from_this(), reason = std::move(why)] {
    for (Side& own : self->sides_) {
      const auto user = std::exchange(own.user, nullptr);
      for (auto* queue : {&own.untold, &own.work, &own.receives}) {
        for (Work& work : std::exchange(*queue, {})) {
          if (user != nullptr) user->on_completion({.work = std::move(work)});
        }
      }
      if (user != nullptr) user->on_disconnected(reason);
    }
  });
}

}  // namespace weft::rpc::rdma
