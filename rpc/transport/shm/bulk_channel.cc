#include "rpc/transport/shm/bulk_channel.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <unordered_map>

#include "rpc/base/assert.h"
#include "rpc/base/payload_copy.h"
#include "rpc/transport/forwarding_channel.h"
#include "rpc/transport/shm/record.h"
#include "rpc/transport/shm/shm_dialer.h"

namespace weft::rpc {

using boost::system::error_code;

namespace {

constexpr std::size_t kMaxPadding = 3;
constexpr std::size_t kReserve = 8;  // one part of so many of the pool is not for room

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// The one payload of a message that ends with it, but for its padding; null if it has none such.
Payload* payload_at_end(Message& message) {
  if (message.splices().size() != 1) return nullptr;
  Message::Splice& only = message.splices().front();
  if (message.bytes().size() - only.at > kMaxPadding) return nullptr;
  return only.payload.size() < kApartFrom || only.payload.size() > UINT32_MAX ? nullptr
                                                                              : &only.payload;
}

// Head and message; without what comes behind `end`, if the bulk data is apart.
Message with_head(const BulkHead& head, std::span<const std::byte> message) {
  xdr::Encoder bytes(sizeof head + message.size());
  bytes.raw(bytes_of(head));
  bytes.raw(message);
  return Message(std::move(bytes));
}

// What behind the head of a record is the message. Precondition: it has a head.
Buffer message_of(const Buffer& record) {
  auto message = record.share(sizeof(BulkHead), record.size() - sizeof(BulkHead));
  WEFT_ASSERT(message.has_value());
  return std::move(*message);
}

// What a message has instead of a payload apart: the same bytes in one run.
Result<Message> in_one_run(const Message& message) {
  auto flat = message.flatten();
  if (!flat) return pass(flat);
  return with_head({}, *flat);
}

// --- Both sides ----------------------------------------------------------------------------------

// What the inner channel calls back. It owns the user, as a channel does, and nothing that owns it.
class Link : public ChannelUser {
 public:
  explicit Link(const std::shared_ptr<Channel>& inner) : inner_(inner) {}

  void on_closed(const Error& why) override {
    closed_ = why;
    if (auto user = std::exchange(user_, nullptr)) user->on_closed(why);
  }
  void give(std::shared_ptr<ChannelUser> user) { user_ = std::move(user); }
  [[nodiscard]] const std::optional<Error>& closed() const { return closed_; }

 protected:
  void refuse(Error why) {
    if (const auto inner = inner_.lock()) inner->close(std::move(why), false);
  }

  std::shared_ptr<ChannelUser> user_;

 private:
  const std::weak_ptr<Channel> inner_;
  std::optional<Error> closed_;
};

class BulkChannel : public ForwardingChannel {
 public:
  BulkChannel(std::shared_ptr<Channel> inner, std::shared_ptr<BulkCounts> counts)
      : ForwardingChannel(std::move(inner)), counts_(std::move(counts)) {}

 protected:
  const std::shared_ptr<BulkCounts> counts_;
};

// --- The accepting side --------------------------------------------------------------------------

class ServerLink final : public Link {
 public:
  ServerLink(const std::shared_ptr<Channel>& inner, std::shared_ptr<BulkCounts> counts)
      : Link(inner), counts_(std::move(counts)) {}

  void on_record(ReceivedRecord record) override {
    if (user_ == nullptr) return;
    std::vector<Buffer>& loans = record.loans;
    std::vector<std::size_t> sizes;
    for (const Buffer& loan : loans) sizes.push_back(loan.size());
    const auto head = decode_call_head(record.bytes.span(), sizes);
    if (!head) return refuse(head.error());
    Buffer room;
    if ((head->flags & BulkHead::kRoom) != 0) {
      room = std::move(loans.back());
      loans.pop_back();
    }
    counts_->to_server.fetch_add(head->bulk, std::memory_order_relaxed);
    user_->on_record({.bytes = message_of(record.bytes),
                      .apart = {.lent = std::move(loans)},
                      .room = std::move(room)});
  }

 private:
  const std::shared_ptr<BulkCounts> counts_;
};

class ServerChannel final : public BulkChannel {
 public:
  ServerChannel(std::shared_ptr<Channel> inner, const ServerIdentity& self,
                std::shared_ptr<BulkCounts> counts)
      : BulkChannel(std::move(inner), std::move(counts)), self_(self) {}

  void start(std::shared_ptr<ChannelUser> user) override {
    auto link = std::make_shared<ServerLink>(inner_, counts_);
    link->give(std::move(user));
    inner_->start(std::move(link));
    Message hello;
    hello.bytes().raw(bytes_of(BulkHello{.server = self_}));
    inner_->send(std::move(hello));
  }

  void send(Message message) override {
    Payload* payload = payload_at_end(message);
    Buffer room = std::move(message.room());
    if (payload == nullptr || payload->size() > room.size()) {
      room.reset();
      return send_whole(in_one_run(message));
    }
    const std::size_t size = payload->size();
    if (auto copied = copy_payload(*payload, room.span().first(size)); !copied) {
      return inner_->close(std::move(copied.error()), false);
    }
    counts_->to_client.fetch_add(size, std::memory_order_relaxed);
    const std::size_t end = message.splices().front().at;
    room.reset();  // so that it goes back with the answer
    inner_->send(
        with_head({.bulk = static_cast<std::uint32_t>(size)}, message.bytes().bytes().first(end)));
  }

 private:
  void send_whole(Result<Message> message) {
    if (!message) return inner_->close(std::move(message.error()), false);
    inner_->send(std::move(*message));
  }

  const ServerIdentity self_;
};

// --- The connecting side -------------------------------------------------------------------------

class ClientLink final : public Link {
 public:
  using Greeted = std::move_only_function<void(Result<BulkHello>)>;

  ClientLink(const std::shared_ptr<Channel>& inner, std::shared_ptr<BulkCounts> counts,
             Greeted greeted, std::function<void(const Error&)> ended)
      : Link(inner),
        counts_(std::move(counts)),
        greeted_(std::move(greeted)),
        ended_(std::move(ended)) {}

  void expect(std::uint32_t xid, Buffer room) { rooms_.insert_or_assign(xid, std::move(room)); }

  void on_record(ReceivedRecord received) override {
    const Buffer& record = received.bytes;
    if (greeted_) {
      auto hello = decode_bulk_hello(record.span());
      return std::exchange(greeted_, nullptr)(std::move(hello));
    }
    if (user_ == nullptr) return refuse({Errc::kProtocol, "an answer to nothing"});
    constexpr std::size_t kAny = UINT32_MAX;
    if (auto plain = decode_answer_head(record.span(), kAny); !plain) return refuse(plain.error());
    Buffer room;
    if (auto kept = rooms_.extract(xid_behind_head(record.span())); !kept.empty()) {
      room = std::move(kept.mapped());
    }
    const auto head = decode_answer_head(record.span(), room.size());
    if (!head) return refuse(head.error());
    if (head->bulk == 0) return user_->on_record({.bytes = message_of(record)});
    room.truncate(head->bulk);
    counts_->to_client.fetch_add(head->bulk, std::memory_order_relaxed);
    std::vector<Buffer> bulk;
    bulk.push_back(std::move(room));
    user_->on_record({.bytes = message_of(record), .apart = {.lent = std::move(bulk)}});
  }

  void on_closed(const Error& why) override {
    rooms_.clear();
    if (greeted_) {
      std::exchange(greeted_, nullptr)(std::unexpected(why));
    } else if (ended_) {
      ended_(why);
    }
    Link::on_closed(why);
  }

 private:
  const std::shared_ptr<BulkCounts> counts_;
  Greeted greeted_;
  const std::function<void(const Error&)> ended_;
  std::unordered_map<std::uint32_t, Buffer> rooms_;  // by the call's xid
};

class ClientChannel final : public BulkChannel {
 public:
  ClientChannel(const std::shared_ptr<Channel>& inner, BufferPool& pool,
                std::shared_ptr<BulkCounts> counts, std::shared_ptr<ClientLink> link)
      : BulkChannel(inner, std::move(counts)), pool_(pool), link_(std::move(link)) {}

  // Listens for the hello; before start(), which whoever dialled calls.
  void greet() { inner_->start(link_); }

  void start(std::shared_ptr<ChannelUser> user) override {
    if (!link_->closed()) return link_->give(std::move(user));
    post([user = std::move(user), why = *link_->closed()] { user->on_closed(why); });
  }

  void send(Message message) override {
    Payload payload;
    BulkHead head;
    std::size_t end = message.bytes().size();
    Payload* bulk = payload_at_end(message);
    if (bulk != nullptr && may_lend(*bulk)) {
      head.bulk = static_cast<std::uint32_t>(bulk->size());
      end = message.splices().front().at;
      payload = std::move(*bulk);
      counts_->to_server.fetch_add(head.bulk, std::memory_order_relaxed);
    } else if (message.has_payload()) {
      auto whole = in_one_run(message);
      if (!whole) return inner_->close(std::move(whole.error()), false);
      return inner_->send(std::move(*whole));
    }
    const auto bytes = message.bytes().bytes().first(end);
    if (Buffer room = room_for(message); !room.empty()) {
      head.flags = BulkHead::kRoom;
      payload.append(std::move(room));
    }
    Message out = with_head(head, bytes);
    out.splice(std::move(payload));
    inner_->send(std::move(out));
  }

 private:
  [[nodiscard]] bool may_lend(const Payload& payload) const {
    return payload.pieces().size() < kMaxLoans &&
           std::ranges::all_of(
               payload.pieces(),
               [this](const Payload::Piece& piece) {
                 const auto* buffer = std::get_if<Buffer>(&piece);
                 return buffer != nullptr && inner_->lends(*buffer);
               });
  }

  // Empty: the answer brings little, or there is no memory, and then it comes through the ring.
  [[nodiscard]] Buffer room_for(const Message& message) {
    if (message.expected_bulk() < kApartFrom || message.bytes().size() < 4) return {};
    // Answers must find memory to be received into, or those that hold it would never end.
    const std::size_t most = pool_.limit_bytes() - pool_.limit_bytes() / kReserve;
    if (pool_.in_use_bytes() + message.expected_bulk() > most) return {};
    auto room = pool_.allocate(message.expected_bulk());
    if (!room || !inner_->lends(*room)) return {};
    auto mine = room->share(0, room->size());
    WEFT_ASSERT(mine.has_value());
    xdr::Decoder in(message.bytes().bytes());
    link_->expect(in.u32(), std::move(*mine));
    return std::move(*room);
  }

  BufferPool& pool_;
  const std::shared_ptr<ClientLink> link_;
};

// One attempt to connect and to hear a hello. Its timer owns it, and whoever connects.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  using Done = std::move_only_function<void(Result<std::shared_ptr<Channel>>)>;

  Attempt(boost::asio::io_context& context, BufferPool& pool, BulkDialOptions options,
          std::shared_ptr<BulkCounts> counts, Done done)
      : pool_(pool),
        options_(std::move(options)),
        counts_(std::move(counts)),
        timer_(context),
        done_(std::move(done)) {}

  void connected(const std::shared_ptr<Channel>& inner) {
    auto link = std::make_shared<ClientLink>(
        inner, counts_,
        [weak = weak_from_this()](Result<BulkHello> hello) {
          if (const auto self = weak.lock()) self->greeted(std::move(hello));
        },
        options_.on_closed);
    channel_ = std::make_shared<ClientChannel>(inner, pool_, counts_, std::move(link));
    timer_.expires_after(options_.shm.limits.connect_deadline);
    timer_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled) self->give_up({Errc::kTimedOut, "no hello from " + self->options_.shm.path});
    });
    channel_->greet();
  }

 private:
  void greeted(Result<BulkHello> hello) {
    if (!hello) return give_up(std::move(hello.error()));
    if (hello->server != options_.server) {
      return give_up({Errc::kStale, "another server is behind " + options_.shm.path});
    }
    finish(std::exchange(channel_, nullptr));
  }
  void give_up(Error why) {
    if (channel_ != nullptr) std::exchange(channel_, nullptr)->close(why, false);
    finish(std::unexpected(std::move(why)));
  }
  void finish(Result<std::shared_ptr<Channel>> result) {
    timer_.cancel();
    if (done_) std::exchange(done_, nullptr)(std::move(result));
  }

  BufferPool& pool_;
  const BulkDialOptions options_;
  const std::shared_ptr<BulkCounts> counts_;
  boost::asio::steady_timer timer_;
  Done done_;
  std::shared_ptr<ClientChannel> channel_;
};

}  // namespace

std::shared_ptr<Channel> serve_bulk(std::shared_ptr<Channel> accepted, const ServerIdentity& self,
                                    std::shared_ptr<BulkCounts> counts) {
  return std::make_shared<ServerChannel>(std::move(accepted), self, std::move(counts));
}

Dial bulk_dialer(boost::asio::io_context& context, BufferPool& pool, BulkDialOptions options,
                 std::shared_ptr<BulkCounts> counts) {
  return [&context, &pool, options = std::move(options),
          counts = std::move(counts)](Attempt::Done done) {
    shm_dialer(context, pool,
               options.shm)([&context, &pool, options, counts, done = std::move(done)](
                                Result<std::shared_ptr<Channel>> lender) mutable {
      if (!lender) return done(pass(lender));
      connect_bulk(context, pool, std::move(*lender), std::move(options), std::move(counts),
                   std::move(done));
    });
  };
}

void connect_bulk(boost::asio::io_context& context, BufferPool& pool,
                  std::shared_ptr<Channel> lender, BulkDialOptions options,
                  std::shared_ptr<BulkCounts> counts, Attempt::Done done) {
  std::make_shared<Attempt>(context, pool, std::move(options), std::move(counts), std::move(done))
      ->connected(lender);
}

}  // namespace weft::rpc
