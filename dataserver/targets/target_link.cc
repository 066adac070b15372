#include "dataserver/targets/target_link.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>

#include "dataserver/targets/rdma_records.h"
#include "rpc/base/assert.h"
#include "rpc/base/log_text.h"
#include "rpc/base/machine.h"
#include "rpc/base/streaming_copy.h"
#include "rpc/peer/resolve.h"
#include "rpc/session/preferred_dial.h"
#include "rpc/transport/shm/record.h"
#include "rpc/transport/shm/shm_dialer.h"
#include "rpc/transport/tcp_dialer.h"

namespace weft::ds {

namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::milliseconds kPingEvery{1'000};  // or a quarter of the silence allowed
constexpr std::chrono::seconds kNoLocalFor{60};
constexpr std::chrono::milliseconds kLookUpEvery{1'000};  // a name that was not found
constexpr unsigned kPingsToAbout = 8;                     // it changes by a reload
constexpr std::uint64_t kPingTag = 0;                     // of the pings; they are nobody's calls
constexpr std::uint64_t kBlock = 4096;
constexpr std::chrono::seconds kRenewWithin{2};  // calls may wait for a better connection
// Objects of a LIST by RDMA: its answer is to fit into rdma::kReplyRoom.
constexpr std::uint64_t kMostListedByRdma = 512;
constexpr std::uint64_t kHeadOfAnswer = 4096;  // what follows it begins at a page

// What a buffer of so many bytes takes of a pool.
std::size_t block_for(std::uint64_t bytes) {
  const auto block = std::ranges::lower_bound(BufferPool::kBlockSizes, bytes);
  return block == std::end(BufferPool::kBlockSizes) ? bytes : *block;
}

rpc::TcpLimits tcp_limits() {
  rpc::TcpLimits limits;
  limits.max_record_bytes = kMaxTargetRecord;
  limits.idle_deadline = rpc::Milliseconds{0};  // pings see to that
  limits.locate_payload = locate_response;
  return limits;
}

// Whether a connection that proved to have this may go on.
bool accepts(const rpc::peer::Keyring& keys, const rpc::peer::Key& proved) {
  return std::ranges::any_of(keys.now().cluster, [&proved](const rpc::peer::ClusterKey& one) {
    return target_key(one) == proved;
  });
}

}  // namespace

Result<TargetAddress> parse_target_address(std::string_view text) {
  TargetAddress address;
  if (text.starts_with("unix:")) {
    address.path = text.substr(5);
    if (address.path.starts_with('/') && address.path.size() <= kMaxSocketPath) return address;
    return fail(Errc::kInvalid, "must be unix: and the absolute path of a socket");
  }
  constexpr std::string_view kRdma = "rdma://";
  address.rdma = text.starts_with(kRdma);
  if (address.rdma) {
    text.remove_prefix(kRdma.size());
  } else if (text.starts_with("tcp:")) {
    text.remove_prefix(4);
  }
  if (auto inet = layout::parse_address(text)) {
    address.inet = *inet;
  } else if (rpc::peer::check_address(text)) {
    const std::size_t colon = text.rfind(':');
    address.host = text.substr(0, colon);
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), address.inet.port);
  }
  if (address.inet.port == 0) {
    return fail(Errc::kInvalid,
                "must be unix:PATH, or tcp: or rdma:// and an address or a name with a port");
  }
  return address;
}

std::string to_string(const TargetAddress& address) {
  if (!address.path.empty()) return "unix:" + address.path;
  const std::string scheme = address.rdma ? "rdma://" : "tcp:";
  if (address.host.empty()) return scheme + layout::to_string(address.inet);
  return fmt::format("{}{}:{}", scheme, address.host, address.inet.port);
}

std::string_view to_string(TargetTransport transport) {
  switch (transport) {
    case TargetTransport::kSharedMemory: return "shared memory";
    case TargetTransport::kTcp: return "tcp";
    case TargetTransport::kRdma: return "rdma";
    case TargetTransport::kNone: break;
  }
  return "none";
}

std::string transport_text(const TargetView& view) {
  const std::uint32_t rdma = view.by_rdma.load();
  if (rdma > 0) return rdma < view.connected.load() ? "rdma and tcp" : "rdma";
  return std::string(to_string(view.transport.load()));
}

// Passes on what concerns the link's present connection.
struct TargetLink::User final : rpc::ChannelUser {
  User(std::weak_ptr<TargetLink> of, std::uint64_t number) : link(std::move(of)), attempt(number) {}
  void on_record(rpc::ReceivedRecord record) override {
    const auto self = link.lock();
    if (self != nullptr && self->attempt_ == attempt) self->on_record(record);
  }
  void on_closed(const Error& why) override {
    const auto self = link.lock();
    if (self != nullptr && self->attempt_ == attempt) self->drop(why);
  }
  const std::weak_ptr<TargetLink> link;
  const std::uint64_t attempt;
};

TargetLink::TargetLink(boost::asio::io_context& context, std::uint32_t index, const Config& config)
    : context_(context),
      index_(index),
      config_(config),
      timer_(context),
      clock_(kTick),
      lookup_(config.address.host.empty()
                  ? nullptr
                  : std::make_shared<TargetLookup>(context, config.address.host)) {}

TargetLink::~TargetLink() = default;

void TargetLink::start() {
  connect();
  tick();
}

// --- Connecting ----------------------------------------------------------------------------------

void TargetLink::connect() {
  state_ = State::kConnecting;
  challenged_ = false;
  heard_at_ = clock_.now();
  ++attempt_;
  const std::string& path = config_.address.path.empty() ? local_socket_ : config_.address.path;
  if (!path.empty()) {
    rdma_or_tcp_ = nullptr;
    const rpc::ShmDialerOptions options{.path = path, .limits = config_.options.shm};
    return dial(rpc::shm_dialer(context_, config_.pool, options), TargetTransport::kSharedMemory);
  }
  if (lookup_ != nullptr) return look_up();
  dial_inet(layout::ip_text(config_.address.inet));
}

void TargetLink::look_up() {
  lookup_->start([weak = weak_from_this(), attempt = attempt_](Result<std::string> ip) {
    const auto self = weak.lock();
    if (self == nullptr || attempt != self->attempt_) return;
    if (!ip) return self->drop(ip.error());
    self->heard_at_ = self->clock_.now();
    self->dial_inet(std::move(*ip));
  });
}

void TargetLink::dial_inet(std::string ip) {
  ip_ = std::move(ip);
  if (!config_.address.rdma || !config_.dial_rdma) return dial(by_tcp(), TargetTransport::kTcp);
  if (!rdma_or_tcp_) rdma_or_tcp_ = by_rdma_or_tcp();
  dial(rdma_or_tcp_, TargetTransport::kTcp);
}

rpc::Dial TargetLink::by_tcp() const {
  return rpc::tcp_dialer(context_, config_.pool, ip_, config_.address.inet.port, tcp_limits(),
                         config_.options.silence);
}

rpc::Dial TargetLink::by_rdma() const {
  const LinkOptions& options = config_.options;
  return [dial = config_.dial_rdma(context_, ip_, config_.address.inet.port,
                                   std::min(options.rdma_within, options.silence / 4))](auto done) {
    dial([done = std::move(done)](Result<std::shared_ptr<rpc::Channel>> made) mutable {
      if (!made) return done(std::move(made));
      done(call_by_rdma(std::move(*made)));
    });
  };
}

// To what its name is an address of when it is dialled.
rpc::Dial TargetLink::by_rdma_or_tcp() {
  const auto by = [this](rpc::Dial (TargetLink::*way)() const) -> rpc::Dial {
    return [weak = weak_from_this(), way](auto done) {
      const auto self = weak.lock();
      if (self == nullptr) return done(fail(Errc::kClosed, "nobody wants it any more"));
      (self.get()->*way)()(std::move(done));
    };
  };
  rpc::PreferredDialOptions options;
  options.preferred = by(&TargetLink::by_rdma);
  options.other = by(&TargetLink::by_tcp);
  // A connection may carry a challenge, and then no answer to the Hello.
  options.proven = std::max<std::chrono::milliseconds>(
      rpc::kProven, config_.options.greeting + 2 * config_.options.silence);
  options.look_every = config_.options.rdma_look_every;
  options.on_better = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->renew();
  };
  return rpc::preferred_dial(context_, std::move(options));
}

void TargetLink::dial(rpc::Dial by, TargetTransport transport) {
  by([weak = weak_from_this(), attempt = attempt_,
      transport](Result<std::shared_ptr<rpc::Channel>> channel) {
    const auto self = weak.lock();
    if (self != nullptr) return self->connected(attempt, transport, std::move(channel));
    if (channel) (*channel)->close({Errc::kClosed, {}});
  });
}

void TargetLink::connected(std::uint64_t attempt, TargetTransport transport,
                           Result<std::shared_ptr<rpc::Channel>> channel) {
  if (stopped_ || attempt != attempt_) {
    if (channel) (*channel)->close({Errc::kClosed, {}});
    return;
  }
  if (!channel) return drop(channel.error());
  channel_ = std::move(*channel);
  transport_ = channel_->by_rdma() ? TargetTransport::kRdma : transport;
  state_ = State::kGreeting;
  heard_at_ = clock_.now();
  channel_->start(std::make_shared<User>(weak_from_this(), attempt));
}

void TargetLink::on_challenge(const Buffer& record) {
  auto challenge = decode_challenge(record.span());
  if (!challenge) return drop(challenge.error());
  const bool here = is_this_machine(challenge->machine);
  if (transport_ != TargetTransport::kSharedMemory && here && !challenge->socket.empty() &&
      config_.options.prefer_shared_memory && clock_.now() >= no_local_until_) {
    leave();
    local_socket_ = challenge->socket;
    return connect();
  }
  challenge_ = challenge->nonce;
  hello_ = {.space = config_.space, .boot = config_.boot, .link = index_};
  config_.random.fill(hello_.nonce);
  key_ = target_key(config_.keys->first());
  hello_.proof = hello_proof(key_, challenge_, hello_);
  expected_ = config_.noted();
  rpc::Message message;
  encode(message.bytes(), TargetRequest{.op = TargetOp::kHello, .tag = offer(), .hello = hello_});
  channel_->send(std::move(message));
}

void TargetLink::on_welcome(const TargetResponse& response) {
  if (!response.good) return drop({response.error, log_text(response.text)});
  if (!same_proof(response.proof, welcome_proof(key_, challenge_, hello_, response.store))) {
    return drop({Errc::kAuth, "a target without the cluster's key"});
  }
  const auto version = chosen_version(response.tag);
  if (!version) return drop(version.error());
  const bool notes = *version >= kTargetVersionWithNote;
  const TargetStore store{.store = response.store,
                          .objects = response.objects,
                          .instance = response.instance,
                          .expected = expected_,
                          .noted = notes ? std::optional(response.noted) : std::nullopt};
  if (auto same = config_.same_store(store); !same) return drop(same.error());
  state_ = State::kReady;
  version_ = *version;
  config_.view.version = version_;
  complaint_.clear();
  if (std::exchange(unsettled_, false)) config_.view.unsettled.fetch_sub(1);
  config_.view.verifier = response.verifier;
  config_.view.transport = transport_;
  if (transport_ == TargetTransport::kRdma) config_.view.by_rdma.fetch_add(1);
  config_.view.connected.fetch_add(1);
  config_.view.connections.fetch_add(1);
  spdlog::info("event=target_connected target={} link={} transport=\"{}\" version={}",
               to_string(config_.address), index_, to_string(transport_), version_);
  pings_ = 0;
  ping();
  transmit_waiting();
  if (notes) config_.greeted(*this, store);
}

// In the order they came. What is sent may complete calls, but only of its own tag.
void TargetLink::transmit_waiting() {
  std::vector<std::uint64_t> tags;
  for (const auto& [tag, call] : calls_) {
    if (!call.sent) tags.push_back(tag);
  }
  for (const std::uint64_t tag : tags) {
    const auto call = calls_.find(tag);
    if (call != calls_.end() && state_ == State::kReady) transmit(tag, call->second);
  }
}

// RDMA gets through now: a connection by TCP is made anew if nothing is out within a moment.
void TargetLink::renew() {
  if (stopped_ || state_ != State::kReady || transport_ != TargetTransport::kTcp) return;
  renew_until_ = clock_.now() + kRenewWithin;
  renew_if_quiet();
}

void TargetLink::renew_if_quiet() {
  if (renew_until_ == TimePoint{} || state_ != State::kReady) return;
  if (std::ranges::any_of(calls_, [](const auto& one) { return one.second.sent; })) return;
  leave();
  connect();
}

// Ends the connection, and what is known of it.
void TargetLink::leave() {
  renew_until_ = {};
  if (state_ == State::kReady && transport_ == TargetTransport::kRdma) {
    config_.view.by_rdma.fetch_sub(1);
  }
  if (state_ == State::kReady && config_.view.connected.fetch_sub(1) == 1) {
    config_.view.transport = TargetTransport::kNone;
    config_.view.set_keys({});
    config_.view.set_about({});
  }
  if (state_ == State::kReady && config_.left) config_.left();
  state_ = State::kIdle;
  ++attempt_;
  if (lookup_ != nullptr) lookup_->cancel();
  if (channel_ != nullptr) channel_->close({Errc::kClosed, "left"});
  channel_.reset();
  for (auto& [tag, call] : calls_) {
    call.sent = false;
    call.room.reset();  // the target may still write there: the channel keeps it
  }
}

void TargetLink::drop(const Error& why) {
  if (stopped_) return;
  // Each reason once: a target that died may be followed by one that is refused.
  if (std::string text = why.describe(); text != complaint_) {
    complaint_ = std::move(text);
    spdlog::warn("event=target_away target={} link={} error=\"{}\"", to_string(config_.address),
                 index_, complaint_);
  }
  // Ask by TCP again where its socket is; if it could not be reached, stay with TCP for a while.
  if (!std::exchange(local_socket_, {}).empty() && state_ != State::kReady) {
    no_local_until_ = clock_.now() + kNoLocalFor;
  } else if (lookup_ != nullptr && state_ != State::kReady) {
    lookup_->try_next();
  }
  const bool no_address = lookup_ != nullptr && lookup_->running();
  std::vector<std::uint64_t> reads;  // that memory may be short for
  for (const auto& [tag, call] : calls_) {
    const bool read = call.sent && call.request.op == TargetOp::kRead;
    if (read && why == Errc::kBusy) reads.push_back(tag);
  }
  leave();
  retry_at_ = clock_.now() + (no_address ? kLookUpEvery : config_.options.retry_every);
  for (const std::uint64_t tag : reads) {
    complete(tag, fail(Errc::kBusy, "no memory for what the target answered"));
  }
}

// --- Calls ---------------------------------------------------------------------------------------

void TargetLink::call(TargetRequest request, std::vector<Buffer> data, Done done, PoolShare share) {
  if (stopped_) return done(fail(Errc::kClosed, "shutting down"));
  if (calls_.size() >= config_.options.max_calls) {
    return done(fail(Errc::kBusy, "too many calls wait for the target"));
  }
  const bool syncs = request.op == TargetOp::kCommit || request.op == TargetOp::kNote ||
                     request.stability != Stability::kUnstable;
  const std::uint64_t tag = next_tag_++;
  request.tag = tag;
  Call& call = calls_[tag];
  call.request = request;
  call.data = std::move(data);
  call.done = std::move(done);
  call.share = share;
  call.since = clock_.now();
  call.deadline = call.since + (syncs ? config_.options.commit_patience : config_.options.patience);
  if (state_ == State::kReady && renew_until_ == TimePoint{}) transmit(tag, call);
}

// Makes the memory that is lent to the target.
Result<> TargetLink::prepare(Call& call) {
  TargetRequest& request = call.request;
  request.lent = false;
  if (transport_ == TargetTransport::kRdma && request.op == TargetOp::kList) {
    request.size = std::min(request.size, kMostListedByRdma);
  }
  call.hold.reset();
  if (transport_ != TargetTransport::kSharedMemory) {
    if (request.op != TargetOp::kRead) return {};
    call.hold.emplace(config_.pool);
    if (call.hold->grow(call.share, block_for(request.size + kHeadOfAnswer))) return {};
    return fail(Errc::kBusy, "memory is short for what is read");
  }
  if (request.op == TargetOp::kRead && request.size > 0) {
    // Whole blocks, for direct I/O. Nothing is not lent: the target would take that for a mistake.
    const std::uint64_t size = request.offset % kBlock + request.size;
    auto room = allocate(config_.pool, call.share, (size + kBlock - 1) & ~(kBlock - 1));
    if (!room) return pass(room);
    call.room = std::move(*room);
    request.lent = true;
  } else if (request.op == TargetOp::kWrite) {
    const auto lends = [this](const Buffer& piece) { return channel_->lends(piece); };
    std::erase_if(call.data, [](const Buffer& piece) { return piece.empty(); });
    if (!std::ranges::all_of(call.data, lends) || call.data.size() > rpc::kMaxLoans) {
      // It came in memory that is not shared, or in too many pieces.
      auto copy = config_.pool.allocate(static_cast<std::size_t>(request.size));
      if (!copy) return pass(copy);
      std::size_t at = 0;
      for (const Buffer& piece : call.data) {
        streaming_copy(copy->data() + at, piece.data(), piece.size());
        at += piece.size();
      }
      call.data.clear();
      call.data.push_back(std::move(*copy));
    }
    request.lent = !call.data.empty();
  }
  return {};
}

void TargetLink::transmit(std::uint64_t tag, Call& call) {
  if (auto ready = prepare(call); !ready) return complete(tag, pass(ready));
  const TargetRequest& request = call.request;
  rpc::Message message;
  encode(message.bytes(), request);
  Payload bulk;
  const auto add = [&bulk](const Buffer& buffer) {
    auto shared = buffer.share(0, buffer.size());
    WEFT_ASSERT(shared.has_value());
    bulk.append(std::move(*shared));
  };
  for (const Buffer& piece : call.data) add(piece);
  if (!call.room.empty()) add(call.room);
  const bool in_record = request.op == TargetOp::kWrite && !request.lent;
  if (in_record) begin_bulk(message.bytes(), static_cast<std::size_t>(request.size));
  message.splice(std::move(bulk));
  if (in_record) end_bulk(message.bytes(), static_cast<std::size_t>(request.size));
  if (request.op == TargetOp::kRead && !request.lent) {
    message.expect_bulk(static_cast<std::size_t>(request.size));
  }
  call.sent = true;
  channel_->send(std::move(message));
}

void TargetLink::complete(std::uint64_t tag, Result<Answer> answer) {
  auto call = calls_.extract(tag);
  if (!call.empty()) {
    call.mapped().hold.reset();  // what has come is in a block of its own
    call.mapped().done(std::move(answer));
  }
  renew_if_quiet();
}

void TargetLink::on_record(const rpc::ReceivedRecord& received) {
  heard_at_ = clock_.now();
  const Buffer& record = received.bytes;
  if (state_ == State::kReady) return on_response(received);
  if (state_ != State::kGreeting) return;
  if (!std::exchange(challenged_, true)) return on_challenge(record);
  auto decoded = decode_response(record.span());
  if (!decoded) return drop(decoded.error());
  if (decoded->message.op != TargetOp::kHello) {
    return drop({Errc::kProtocol, "an answer to nothing"});
  }
  on_welcome(decoded->message);
}

void TargetLink::on_response(const rpc::ReceivedRecord& received) {
  const Buffer& record = received.bytes;
  const std::vector<Buffer>& apart = received.apart.lent;
  auto decoded = decode_response(record.span(), xdr::padded(received.apart.size()));
  if (!decoded) return drop(decoded.error());
  TargetResponse& response = decoded->message;
  if (response.good) config_.view.verifier.store(response.verifier, std::memory_order_release);
  if (response.tag == kPingTag && response.op == TargetOp::kUsage) {
    config_.view.store_fails = !response.good;
    if (!response.good) return;
    config_.view.capacity_bytes = response.usage.capacity_bytes;
    config_.view.free_bytes = response.usage.free_bytes;
    config_.view.objects = response.usage.objects;
    return;
  }
  if (response.tag == kPingTag && response.op == TargetOp::kKeys) {
    return config_.view.set_keys(std::move(response.keys));
  }
  if (response.tag == kPingTag && response.op == TargetOp::kAbout) {
    return config_.view.set_about(std::move(response.about));
  }
  const auto found = calls_.find(response.tag);
  if (found == calls_.end() || !found->second.sent || found->second.request.op != response.op) {
    return drop({Errc::kProtocol, "an answer to nothing"});
  }
  if (!response.good) {
    return complete(response.tag, fail(response.error, log_text(response.text)));
  }
  Answer answer;
  if (response.op == TargetOp::kRead) {
    auto data = apart.empty() ? data_of(found->second, response, record, decoded->bulk)
                              : data_of(found->second, response, apart.front(), 0);
    if (!data) return drop(data.error());
    answer.data = std::move(*data);
  }
  if (response.descriptor) {
    if (!found->second.request.descriptor) {
      return drop({Errc::kProtocol, "a descriptor that was not asked for"});
    }
    auto descriptor = channel_->take_handed();
    if (descriptor) {
      answer.descriptor = std::move(*descriptor);
    } else if (!(descriptor.error() == Errc::kBusy)) {
      return drop(descriptor.error());
    }
  }
  if (found->second.request.lent) {
    config_.view.lent_bytes.fetch_add(
        response.op == TargetOp::kRead ? response.size : found->second.request.size,
        std::memory_order_relaxed);
  }
  answer.response = std::move(response);
  const std::uint64_t tag = answer.response.tag;
  complete(tag, std::move(answer));
}

Result<Buffer> TargetLink::data_of(Call& call, const TargetResponse& response, const Buffer& from,
                                   std::size_t at) {
  if (response.size > call.request.size || response.lent != call.request.lent) {
    return fail(Errc::kProtocol, "more data than was asked for");
  }
  if (response.size == 0) return Buffer{};
  const auto size = static_cast<std::size_t>(response.size);
  auto data = response.lent ? call.room.share(static_cast<std::size_t>(response.at), size)
                            : from.share(at, size);
  if (!data) return fail(Errc::kProtocol, "data outside of its room");
  return data;
}

void TargetLink::ping() {
  const auto ask = [this](TargetOp op) {
    rpc::Message message;
    encode(message.bytes(), TargetRequest{.op = op, .tag = kPingTag});
    message.set_urgent();
    channel_->send(std::move(message));
  };
  ask(TargetOp::kUsage);
  if (version_ >= kTargetVersionWithKeys) ask(TargetOp::kKeys);
  if (version_ >= kTargetVersionWithAbout && pings_++ % kPingsToAbout == 0) ask(TargetOp::kAbout);
  asked_at_ = clock_.now();
}

// --- Time ----------------------------------------------------------------------------------------

void TargetLink::tick() {
  const auto now = clock_.tick(channel_ != nullptr && channel_->lacks_memory());
  expire(now);
  if (renew_until_ != TimePoint{} && now >= renew_until_) {
    renew_until_ = {};
    transmit_waiting();
  }
  if (state_ == State::kIdle) {
    if (now >= retry_at_) connect();
  } else if (state_ == State::kReady &&
             now - asked_at_ > std::min(kPingEvery, config_.options.silence / 4)) {
    if (accepts(*config_.keys, key_)) {
      ping();
    } else {
      drop({Errc::kAuth, "the connection's cluster key was dropped"});
    }
  }
  // A Hello may have to wait for what an earlier connection began, or for a store to be opened.
  const bool greeting = state_ == State::kGreeting && challenged_;
  const auto limit = greeting ? config_.options.greeting : config_.options.silence;
  if (state_ != State::kIdle && now - heard_at_ > limit) {
    const bool no_address = lookup_ != nullptr && lookup_->running();
    drop({Errc::kTimedOut,
          no_address ? lookup_->host() + " is not looked up in time" : "the target says nothing"});
  }
  timer_.expires_after(kTick);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr && !self->stopped_) self->tick();
  });
}

bool TargetLink::is_late(const Call& call, TimePoint now) const {
  if (now >= call.deadline) return true;
  if (config_.view.awaited.load(std::memory_order_relaxed)) return false;
  return state_ != State::kReady || now - call.since > config_.options.silence;
}

void TargetLink::expire(TimePoint now) {
  std::vector<std::uint64_t> late;
  bool sent = false;
  for (const auto& [tag, call] : calls_) {
    if (!is_late(call, now)) continue;
    late.push_back(tag);
    sent = sent || call.sent;
  }
  if (late.empty()) return;
  config_.view.timed_out.fetch_add(late.size());
  // First: what was sent is not to be carried out once its caller has been told that it failed.
  if (sent) drop({Errc::kTimedOut, "the target did not answer a call"});
  // It may be under way there all the same, or be from a connection before. Where there was none,
  // nothing of this process can be.
  if (config_.view.connections.load() != 0 && !std::exchange(unsettled_, true)) {
    config_.view.unsettled.fetch_add(1);
  }
  for (const std::uint64_t tag : late) {
    complete(tag, fail(Errc::kTimedOut, "the target did not answer"));
  }
}

void TargetLink::stop() {
  if (stopped_) return;
  leave();
  rdma_or_tcp_ = nullptr;  // a connection that it keeps ends
  stopped_ = true;
  timer_.cancel();
  auto calls = std::exchange(calls_, {});
  for (auto& [tag, call] : calls) call.done(fail(Errc::kClosed, "shutting down"));
}

}  // namespace weft::ds
