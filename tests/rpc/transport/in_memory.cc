#include "tests/rpc/transport/in_memory.h"

#include <algorithm>

#include "rpc/base/assert.h"

namespace weft::rpc {

class MemoryChannel final : public Channel, public std::enable_shared_from_this<MemoryChannel> {
 public:
  MemoryChannel(MemoryNetwork& network, std::size_t end)
      : network_(network), end_(end), name_("memory:" + std::to_string(end)) {}

  void start(std::shared_ptr<ChannelUser> user) override {
    WEFT_ASSERT(user_ == nullptr);
    user_ = std::move(user);
    started_ = true;
  }

  void send(Message message) override {
    if (closed_) return;
    auto bytes = message.flatten();
    if (!bytes) return close(std::move(bytes.error()), false);
    network_.ends_[end_ ^ 1].wire.push_back(std::move(*bytes));
  }

  void pause() override { paused_ = true; }
  void resume() override { paused_ = false; }
  [[nodiscard]] bool by_rdma() const override { return network_.by_rdma; }

  void close(Error why, bool drain) override {
    if (closed_) return;
    auto& wire = network_.ends_[end_ ^ 1].wire;
    if (!drain) wire.clear();  // like a reset: what was under way is lost
    wire.push_back(std::nullopt);
    end(std::move(why));
  }

  // Closed from now on; the user hears of it as an event of its own.
  void end(Error why) {
    if (std::exchange(closed_, true)) return;
    network_.ends_[end_].wire.clear();
    post([self = shared_from_this(), reason = std::move(why)] {
      if (auto user = std::exchange(self->user_, nullptr)) user->on_closed(reason);
    });
  }

  void post(std::move_only_function<void()> work) override {
    network_.ends_[end_].calls.push_back(std::move(work));
  }

  void receive(Buffer record) { user_->on_record({.bytes = std::move(record)}); }
  [[nodiscard]] bool awaited() const { return user_ != nullptr && user_->is_awaited(); }

  [[nodiscard]] bool can_receive() const { return started_ && !paused_ && !closed_; }
  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] std::size_t queued_bytes() const override { return 0; }

 private:
  MemoryNetwork& network_;
  const std::size_t end_;
  const std::string name_;
  std::shared_ptr<ChannelUser> user_;
  bool started_ = false;
  bool paused_ = false;
  bool closed_ = false;
};

MemoryNetwork::~MemoryNetwork() {
  // Channels own their users and those the channels: closing lets them go of each other.
  for (std::size_t i = 0; i < connections(); ++i) cut(i);
  static_cast<void>(run());
}

bool MemoryNetwork::awaited(std::size_t connection) const {
  for (const std::size_t end : {2 * connection, 2 * connection + 1}) {
    const auto channel = ends_[end].channel.lock();
    if (channel != nullptr && channel->awaited()) return true;
  }
  return false;
}

MemoryNetwork::Pair MemoryNetwork::connect() {
  const std::size_t first = ends_.size();
  auto a = std::make_shared<MemoryChannel>(*this, first);
  auto b = std::make_shared<MemoryChannel>(*this, first + 1);
  ends_.emplace_back().channel = a;
  ends_.emplace_back().channel = b;
  return {std::move(a), std::move(b)};
}

void MemoryNetwork::cut(std::size_t connection) {
  WEFT_ASSERT(connection < connections());
  for (const std::size_t i : {2 * connection, 2 * connection + 1}) {
    ends_[i].wire.clear();
    if (const auto channel = ends_[i].channel.lock()) channel->end({Errc::kUnreachable, "cut"});
  }
}

bool MemoryNetwork::can_receive(const End& end) {
  if (end.wire.empty()) return false;
  const auto channel = end.channel.lock();
  return channel != nullptr && channel->can_receive();
}

void MemoryNetwork::receive(End& end) {
  const auto channel = end.channel.lock();
  const Record record = std::move(end.wire.front());
  end.wire.pop_front();
  if (!record) return channel->end({Errc::kClosed, "closed by the peer"});
  auto buffer = pool_.allocate(record->size());
  if (!buffer) return channel->end(std::move(buffer.error()));
  std::copy(record->begin(), record->end(), buffer->data());
  channel->receive(std::move(*buffer));
}

bool MemoryNetwork::step() {
  std::size_t ready = 0;
  for (const End& end : ends_)
    ready += (can_receive(end) ? 1U : 0U) + (end.calls.empty() ? 0U : 1U);
  if (ready == 0) return false;
  std::size_t pick = random_.below(ready);
  for (End& end : ends_) {
    if (can_receive(end) && pick-- == 0) {
      receive(end);
      return true;
    }
    if (!end.calls.empty() && pick-- == 0) {
      auto call = std::move(end.calls.front());
      end.calls.pop_front();
      call();
      return true;
    }
  }
  return false;
}

bool MemoryNetwork::run(std::size_t limit) {
  for (std::size_t i = 0; i < limit; ++i) {
    if (!step()) return true;
  }
  return false;
}

}  // namespace weft::rpc
