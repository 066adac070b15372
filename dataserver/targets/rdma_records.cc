#include "dataserver/targets/rdma_records.h"

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "dataserver/targets/messages.h"
#include "rpc/base/assert.h"
#include "rpc/transport/forwarding_channel.h"

namespace weft::ds {
namespace {

using rpc::Message;

constexpr std::size_t kNumber = 4;  // bytes of a call's number

Message numbered(std::uint32_t number, Message message) {
  Message out;
  out.bytes().u32(number);
  const auto bytes = message.bytes().bytes();
  std::size_t at = 0;
  for (Message::Splice& splice : message.splices()) {
    out.bytes().raw(bytes.subspan(at, splice.at - at));
    at = splice.at;
    out.splice(std::move(splice.payload));
  }
  out.bytes().raw(bytes.subspan(at));
  out.expect_bulk(message.expected_bulk());
  if (message.urgent()) out.set_urgent();
  return out;
}

std::uint32_t number_of(const Buffer& record) { return xdr::Decoder(record.span()).u32(); }

// Precondition: it has a number, as all that comes by RDMA has.
Buffer without_number(const Buffer& record) {
  auto rest = record.share(kNumber, record.size() - kNumber);
  WEFT_ASSERT(rest.has_value());
  return std::move(*rest);
}

// What a response is told by: its operation, and its tag unless it is a Hello's.
using Kind = std::pair<std::uint32_t, std::uint64_t>;

std::optional<Kind> kind_of(std::span<const std::byte> message) {
  xdr::Decoder in(message);
  const std::uint32_t op = in.u32();
  const std::uint64_t tag = in.u64();
  if (!in.ok()) return std::nullopt;
  return Kind{op, op == static_cast<std::uint32_t>(TargetOp::kHello) ? 0 : tag};
}

// What the channel beneath calls back: it owns the user, as a channel does.
class Link : public rpc::ChannelUser {
 public:
  explicit Link(std::shared_ptr<rpc::ChannelUser> user) : user_(std::move(user)) {}

  void on_record(rpc::ReceivedRecord record) override {
    record.bytes = without_number(record.bytes);
    user_->on_record(std::move(record));
  }
  void on_closed(const Error& why) override { user_->on_closed(why); }
  [[nodiscard]] bool is_awaited() const override { return user_->is_awaited(); }

 protected:
  const std::shared_ptr<rpc::ChannelUser> user_;
};

// --- The data server's end -----------------------------------------------------------------------

class CallingChannel final : public rpc::ForwardingChannel {
 public:
  using ForwardingChannel::ForwardingChannel;

  void start(std::shared_ptr<rpc::ChannelUser> user) override {
    inner_->start(std::make_shared<Link>(std::move(user)));
    Message first;
    first.bytes().u32(0);
    send(std::move(first));
  }
  void send(Message message) override { inner_->send(numbered(++last_, std::move(message))); }

 private:
  std::uint32_t last_ = 0;
};

// --- The target's end ----------------------------------------------------------------------------

// Calls that are not answered; of the channel and of what the one beneath calls back.
struct Calls {
  std::optional<std::uint32_t> first;                 // until it is answered
  std::map<Kind, std::deque<std::uint32_t>> numbers;  // of the others, the oldest first
};

class AnsweringLink final : public Link {
 public:
  AnsweringLink(std::shared_ptr<rpc::ChannelUser> user, std::shared_ptr<Calls> calls,
                std::weak_ptr<rpc::Channel> beneath, std::function<void()> on_first)
      : Link(std::move(user)),
        calls_(std::move(calls)),
        beneath_(std::move(beneath)),
        on_first_(std::move(on_first)) {}

  void on_record(rpc::ReceivedRecord record) override {
    if (on_first_) {
      if (record.apart.size() != 0) return refuse();
      calls_->first = number_of(record.bytes);
      return std::exchange(on_first_, nullptr)();
    }
    if (note(record.bytes)) Link::on_record(std::move(record));
  }

 private:
  [[nodiscard]] bool note(const Buffer& record) {
    const auto kind = kind_of(record.span().subspan(kNumber));
    if (!kind) {
      refuse();
      return false;
    }
    calls_->numbers[*kind].push_back(number_of(record));
    return true;
  }
  void refuse() {
    if (const auto channel = beneath_.lock()) {
      channel->close({Errc::kProtocol, "a call that is no request to a target"}, false);
    }
  }

  const std::shared_ptr<Calls> calls_;
  const std::weak_ptr<rpc::Channel> beneath_;
  std::function<void()> on_first_;  // once
};

class AnsweringChannel final : public rpc::ForwardingChannel,
                               public std::enable_shared_from_this<AnsweringChannel> {
 public:
  using ForwardingChannel::ForwardingChannel;

  void start(std::shared_ptr<rpc::ChannelUser> user) override {
    inner_->start(std::make_shared<AnsweringLink>(std::move(user), calls_, std::weak_ptr(inner_),
                                                  [weak = weak_from_this()] {
                                                    if (const auto self = weak.lock())
                                                      self->answer_first();
                                                  }));
  }
  void send(Message message) override {
    if (!std::exchange(challenged_, true)) {
      challenge_ = std::move(message);
      return answer_first();
    }
    const auto kind = kind_of(message.bytes().bytes());
    const auto found = kind ? calls_->numbers.find(*kind) : calls_->numbers.end();
    if (found == calls_->numbers.end()) {
      return inner_->close({Errc::kInternal, "an answer to no call"}, false);
    }
    const std::uint32_t number = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) calls_->numbers.erase(found);
    inner_->send(numbered(number, std::move(message)));
  }

 private:
  // Once both the call and the Challenge are there, whichever is first.
  void answer_first() {
    if (!calls_->first || !challenge_) return;
    inner_->send(numbered(*calls_->first, std::move(*challenge_)));
    calls_->first.reset();
    challenge_.reset();
  }

  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
  std::optional<Message> challenge_;  // that is not sent
  bool challenged_ = false;
};

}  // namespace

std::shared_ptr<rpc::Channel> call_by_rdma(std::shared_ptr<rpc::Channel> calling) {
  return std::make_shared<CallingChannel>(std::move(calling));
}

std::shared_ptr<rpc::Channel> answer_by_rdma(std::shared_ptr<rpc::Channel> answering) {
  return std::make_shared<AnsweringChannel>(std::move(answering));
}

}  // namespace weft::ds
