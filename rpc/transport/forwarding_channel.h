// A Channel over another one, for those that change what goes through: all but start() and send()
// goes to the inner one.
//
// Threading and ownership: channel.h; it owns the inner channel.
#pragma once

#include <memory>

#include "rpc/transport/channel.h"

namespace weft::rpc {

class ForwardingChannel : public Channel {
 public:
  explicit ForwardingChannel(std::shared_ptr<Channel> inner) : inner_(std::move(inner)) {}

  void pause() override { inner_->pause(); }
  void resume() override { inner_->resume(); }
  [[nodiscard]] bool promote(Standing to) override { return inner_->promote(to); }
  void close(Error why, bool drain) override { inner_->close(std::move(why), drain); }
  void post(std::move_only_function<void()> work) override { inner_->post(std::move(work)); }
  [[nodiscard]] const std::string& peer() const override { return inner_->peer(); }
  [[nodiscard]] bool by_rdma() const override { return inner_->by_rdma(); }
  [[nodiscard]] bool lacks_memory() const override { return inner_->lacks_memory(); }
  [[nodiscard]] std::size_t queued_bytes() const override { return inner_->queued_bytes(); }

 protected:
  const std::shared_ptr<Channel> inner_;
};

}  // namespace weft::rpc
