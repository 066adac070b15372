// A channel that is told to close, and never says that it has: as when its I/O thread ends first.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "rpc/transport/channel.h"

namespace weft::rpc::test {

struct SilentChannel final : Channel {
  void start(std::shared_ptr<ChannelUser> user) override { user_ = std::move(user); }
  void send(Message /*message*/) override {}
  void pause() override {}
  void resume() override {}
  void close(Error why, bool /*drain*/) override { closed = why.code; }
  void post(std::move_only_function<void()> work) override { work(); }
  [[nodiscard]] const std::string& peer() const override { return peer_; }
  [[nodiscard]] std::size_t queued_bytes() const override { return 0; }
  std::optional<Errc> closed;

 private:
  std::shared_ptr<ChannelUser> user_;
  const std::string peer_ = "192.0.2.7:812";
};

}  // namespace weft::rpc::test
