// An in-memory channel that does what a TcpChannel does with large records: it leaves the bulk data
// of a WRITE in a pipe, here whatever its size, up to PipedBytes::kMaxPut.
#pragma once

#include <algorithm>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/transport/forwarding_channel.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::test {

class PipingChannel final : public ForwardingChannel {
 public:
  PipingChannel(std::shared_ptr<Channel> inner, BufferPool& pool)
      : ForwardingChannel(std::move(inner)), pool_(pool) {}

  void start(std::shared_ptr<ChannelUser> user) override {
    inner_->start(std::make_shared<User>(std::move(user), pool_));
  }
  void send(Message message) override { inner_->send(std::move(message)); }

 private:
  struct User final : ChannelUser {
    User(std::shared_ptr<ChannelUser> u, BufferPool& p) : user(std::move(u)), pool(p) {}
    void on_record(Buffer record) override {
      const std::size_t size = record.size();
      const std::size_t at =
          nfs4::locate_payload(record.span().first(std::min<std::size_t>(size, 512)));
      if (at < 4 || at >= size || (size - at) % 4 != 0 || size - at > PipedBytes::kMaxPut) {
        return user->on_record(std::move(record));
      }
      xdr::Decoder length(record.span().subspan(at - 4, 4));
      auto pipe = PipedBytes::open(pool);
      if (length.u32() != size - at || !pipe || !pipe->put(record.span().subspan(at))) {
        return user->on_record(std::move(record));
      }
      auto head = record.share(0, at);
      user->on_piped_record(std::move(*head), std::move(*pipe));
    }
    void on_closed(const Error& why) override { user->on_closed(why); }
    const std::shared_ptr<ChannelUser> user;
    BufferPool& pool;
  };

  BufferPool& pool_;
};

}  // namespace weft::rpc::test
