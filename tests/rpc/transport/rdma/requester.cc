#include "tests/rpc/transport/rdma/requester.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <unordered_map>

#include "rpc/base/assert.h"

namespace weft::rpc::rdma {
namespace {

constexpr std::size_t kInline = 4096;
constexpr std::size_t kBulkFrom = 2048;
constexpr std::size_t kReplyRoom = std::size_t{16} << 10;

class Requester final : public Channel, public std::enable_shared_from_this<Requester> {
 public:
  Requester(boost::asio::io_context& context, BufferPool& pool, std::shared_ptr<FakeWire> wire)
      : context_(context), pool_(pool), wire_(std::move(wire)) {}

  void start(std::shared_ptr<ChannelUser> user) override {
    user_ = std::move(user);
    wire_->on_sent = [weak = weak_from_this()](std::vector<std::byte> bytes) {
      if (const auto self = weak.lock()) self->received(bytes);
    };
    wire_->on_ended = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->ended({Errc::kClosed, "the wire has ended"});
    };
  }
  void send(Message message) override {
    waiting_.push_back(std::move(message));
    send_waiting();
  }
  void pause() override {}
  void resume() override {}
  void close(Error /*why*/, bool /*drain*/) override { wire_->disconnect(); }
  void post(std::move_only_function<void()> work) override {
    boost::asio::post(context_, std::move(work));
  }
  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] std::size_t queued_bytes() const override { return 0; }

 private:
  struct Exposed {
    Chunk write;
    Chunk reply;
    std::vector<std::uint32_t> handles;
  };

  Chunk expose(std::span<const std::byte> bytes, Exposed& exposed) {
    Chunk chunk;
    // In two parts: what does not fit the first goes on in the second.
    const std::size_t half = bytes.size() / 2;
    for (const auto part : {bytes.first(half), bytes.subspan(half)}) {
      if (part.empty()) continue;
      chunk.segments.push_back(wire_->expose({part.begin(), part.end()}));
      exposed.handles.push_back(chunk.segments.back().handle);
    }
    return chunk;
  }

  void send_waiting() {
    while (!waiting_.empty() && exposed_.size() < credits_) {
      const Message message = std::move(waiting_.front());
      waiting_.pop_front();
      call(message);
    }
  }

  void call(const Message& message) {
    xdr::Decoder number(message.bytes().bytes());
    const std::uint32_t xid = number.u32();
    WEFT_ASSERT(!exposed_.contains(xid));
    Exposed& exposed = exposed_[xid];
    Chunks chunks;
    std::vector<std::byte> rest;
    if (message.splices().size() == 1 && message.splices()[0].payload.size() >= kBulkFrom) {
      const auto& [at, payload] = message.splices()[0];
      const auto bytes = message.bytes().bytes();
      const std::size_t padding = xdr::padded(payload.size()) - payload.size();
      WEFT_ASSERT(at + padding == bytes.size());
      rest.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
      chunks.reads.push_back({.position = static_cast<std::uint32_t>(at),
                              .chunk = expose(payload.flatten().value(), exposed)});
    } else {
      rest = message.flatten().value();
    }
    if (message.expected_bulk() > 0) {
      exposed.write = expose(std::vector<std::byte>(message.expected_bulk()), exposed);
      chunks.writes.push_back(exposed.write);
    } else {
      exposed.reply = expose(std::vector<std::byte>(kReplyRoom), exposed);
      chunks.reply = exposed.reply;
    }
    Procedure procedure = Procedure::kMessage;
    if (kStartBytes + encoded_size(chunks) + rest.size() > kInline) {
      procedure = Procedure::kNoMessage;
      chunks.reads.insert(chunks.reads.begin(), {.position = 0, .chunk = expose(rest, exposed)});
      rest.clear();
    }
    xdr::Encoder out;
    encode(out,
           Start{.xid = xid, .credits = 32, .procedure = static_cast<std::uint32_t>(procedure)});
    encode(out, chunks);
    out.raw(rest);
    wire_->send(out.bytes());
  }

  // The first bytes of a chunk's memory, as many as it says.
  std::vector<std::byte> content(const Chunk& filled) {
    std::vector<std::byte> out;
    for (const Segment& segment : filled.segments) {
      const auto& memory = wire_->memory(segment.handle);
      WEFT_ASSERT(segment.length <= memory.size());
      out.insert(out.end(), memory.begin(), memory.begin() + segment.length);
    }
    return out;
  }

  Buffer buffer(std::span<const std::byte> bytes) {
    auto out = pool_.allocate(bytes.size());
    WEFT_ASSERT(out.has_value());
    std::memcpy(out->data(), bytes.data(), bytes.size());
    return std::move(*out);
  }

  void received(std::span<const std::byte> bytes) {
    xdr::Decoder in(bytes);
    const auto start = decode_start(in);
    WEFT_ASSERT(start.has_value() && start->version == kVersion && start->credits > 0);
    credits_ = start->credits;
    const auto found = exposed_.find(start->xid);
    WEFT_ASSERT(found != exposed_.end());
    if (start->procedure == static_cast<std::uint32_t>(Procedure::kError)) {
      return wire_->disconnect();
    }
    const auto chunks = decode_chunks(in);
    WEFT_ASSERT(chunks.has_value() && chunks->reads.empty());
    std::vector<std::byte> message(bytes.begin() + static_cast<std::ptrdiff_t>(in.position()),
                                   bytes.end());
    if (chunks->reply) {
      WEFT_ASSERT(start->procedure == static_cast<std::uint32_t>(Procedure::kNoMessage));
      WEFT_ASSERT(chunks->reply->segments.size() == found->second.reply.segments.size());
      message = content(*chunks->reply);
    }
    std::vector<std::byte> bulk;
    if (!chunks->writes.empty()) {
      WEFT_ASSERT(chunks->writes[0].segments.size() == found->second.write.segments.size());
      bulk = content(chunks->writes[0]);
    }
    for (const std::uint32_t handle : found->second.handles) wire_->withdraw(handle);
    exposed_.erase(found);
    post([self = shared_from_this(), message = std::move(message), bulk = std::move(bulk)] {
      self->deliver(message, bulk);
    });
  }

  void deliver(std::span<const std::byte> message, std::span<const std::byte> bulk) {
    send_waiting();
    if (user_ == nullptr) return;
    if (bulk.empty()) return user_->on_record(buffer(message));
    std::vector<Buffer> parts;
    parts.push_back(buffer(bulk));
    user_->on_bulk_record(buffer(message), std::move(parts), {});
  }

  void ended(const Error& why) {
    if (const auto user = std::exchange(user_, nullptr)) user->on_closed(why);
  }

  boost::asio::io_context& context_;
  BufferPool& pool_;
  const std::shared_ptr<FakeWire> wire_;
  const std::string name_ = "fake";
  std::shared_ptr<ChannelUser> user_;
  std::deque<Message> waiting_;
  std::unordered_map<std::uint32_t, Exposed> exposed_;  // by the call's xid
  std::size_t credits_ = 1;  // until the server has said more (RFC 8166 section 3.3.1)
};

}  // namespace

std::shared_ptr<Channel> request(boost::asio::io_context& context, BufferPool& pool,
                                 std::shared_ptr<FakeWire> wire) {
  return std::make_shared<Requester>(context, pool, std::move(wire));
}

}  // namespace weft::rpc::rdma
