// An in-memory channel that does what a TcpChannel does with large records: it leaves the bulk data
// of a WRITE in a pipe, here whatever its size, up to PipedBytes::kMaxPut; and delivers heads of
// those that are not worth receiving.
#pragma once

#include <algorithm>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/onc/record_reader.h"
#include "rpc/transport/forwarding_channel.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::test {

class PipingChannel final : public ForwardingChannel {
 public:
  PipingChannel(std::shared_ptr<Channel> inner, BufferPool& pool, LookAtHead look = {})
      : ForwardingChannel(std::move(inner)), pool_(pool), look_(std::move(look)) {}

  void start(std::shared_ptr<ChannelUser> user) override {
    inner_->start(std::make_shared<User>(std::move(user), pool_, look_));
  }
  void send(Message message) override { inner_->send(std::move(message)); }

 private:
  struct User final : ChannelUser {
    User(std::shared_ptr<ChannelUser> u, BufferPool& p, LookAtHead l)
        : user(std::move(u)), pool(p), look(std::move(l)) {}
    void on_record(ReceivedRecord received) override {
      const Buffer& record = received.bytes;
      const std::size_t size = record.size();
      const auto begin = record.span().first(std::min(size, RecordReader::kHead));
      if (look && look(begin, Standing::kClient) == Glance::kSkip) {
        return user->on_record({.bytes = record.share(0, begin.size()).value(), .head_only = true});
      }
      const std::size_t at = nfs4::locate_payload(begin);
      if (at < 4 || at >= size || (size - at) % 4 != 0 || size - at > PipedBytes::kMaxPut) {
        return user->on_record(std::move(received));
      }
      xdr::Decoder length(record.span().subspan(at - 4, 4));
      auto pipe = PipedBytes::open(pool);
      if (length.u32() != size - at || !pipe || !pipe->put(record.span().subspan(at))) {
        return user->on_record(std::move(received));
      }
      user->on_record({.bytes = record.share(0, at).value(), .apart = {.piped = std::move(*pipe)}});
    }
    void on_closed(const Error& why) override { user->on_closed(why); }
    const std::shared_ptr<ChannelUser> user;
    BufferPool& pool;
    const LookAtHead look;
  };

  BufferPool& pool_;
  const LookAtHead look_;
};

}  // namespace weft::rpc::test
