#include "rpc/transport/rdma/verbs_queue_pair.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "rpc/base/assert.h"

namespace weft::rpc::rdma {
namespace {

// So often a peer tries again to reach a receive of ours: it finds one if it keeps to its credits.
// How often we try to reach one of its is what it said when it connected, or accepted; 7 is for
// ever, and then a deadline of the channel's ends it.
constexpr std::uint8_t kAttempts = 6;
// A server that is asked waits for 4.096 us * 2^16, seven times: so that who calls it goes another
// way within two seconds.
constexpr std::uint8_t kAckTimeout = 16;
constexpr std::uint8_t kRetries = 6;
constexpr int kMostReads = 16;  // of a server, at once
constexpr int kPolled = 16;
constexpr int kRounds = 8;  // of polling, until others of this thread have their turn

struct QueueCloser {
  void operator()(ibv_cq* queue) const { ::ibv_destroy_cq(queue); }
};

class VerbsQueuePair final : public QueuePair, public ConnectionUser, public CompletionUser {
 public:
  using Connected = std::move_only_function<void(Result<>)>;

  VerbsQueuePair(std::shared_ptr<DeviceEvents> events, std::shared_ptr<Device> device,
                 std::shared_ptr<ConnectionId> id, std::string peer,
                 const QueuePairOptions& options)
      : events_(std::move(events)),
        device_(std::move(device)),
        id_(std::move(id)),
        options_(options),
        peer_(std::move(peer)) {
    const auto limits = device_->limits();
    const auto most = static_cast<std::size_t>(std::max(limits.max_qp_wr, 1));
    options_.receives = std::min(options_.receives, most);
    options_.work = std::min(options_.work, most);
    slots_.resize(options_.receives + options_.work);
    pieces_.resize(options_.work);
    requests_.resize(options_.work);
    for (std::size_t i = slots_.size(); i > 0; --i) free_.push_back(i - 1);
  }
  ~VerbsQueuePair() override { destroy(); }

  // A connection that is asked for.
  [[nodiscard]] Result<> take(const ConnectionEvent& request);
  // Or that this side asks for.
  [[nodiscard]] Result<> connect(Connected connected);

  void start(std::shared_ptr<QueuePairUser> user) override;
  void post(Work work) override;
  void disconnect() override { end({Errc::kClosed, "disconnected"}); }
  [[nodiscard]] bool registered(std::span<const std::byte> bytes) const override {
    return device_ != nullptr && device_->reaches(bytes);
  }
  [[nodiscard]] Exposed exposed() const override { return exposed_; }
  [[nodiscard]] std::size_t max_work() const override { return options_.work; }
  [[nodiscard]] std::size_t max_receives() const override { return options_.receives; }
  [[nodiscard]] std::size_t max_send_bytes() const override { return send_bytes_; }
  [[nodiscard]] bool may_invalidate() const override { return may_invalidate_; }
  [[nodiscard]] const std::string& peer() const override { return peer_; }

  void on_event(const ConnectionEvent& event) override;
  void on_completions() override;
  void on_events_closed() override;

 private:
  [[nodiscard]] Result<> open();
  void heard_from(const ConnectionEvent& event);
  [[nodiscard]] Result<> accept();
  void connected(Result<> result);
  [[nodiscard]] ibv_sge piece_of(const Work& work) const;
  [[nodiscard]] int post_receive(std::uint64_t slot, const Work& work);
  void join(std::uint64_t slot, const Work& work);
  [[nodiscard]] int post_joined();
  // Takes what is done, in turns if that is much.
  void poll_all();
  // Takes some; whether there may be more.
  bool poll();
  void complete(const ibv_wc& done);
  void told(std::size_t slot, bool done, std::size_t received = 0);
  void end(Error why);
  void end_later();
  void finish();
  void destroy();

  const std::shared_ptr<DeviceEvents> events_;
  std::shared_ptr<Device> device_;
  const std::shared_ptr<ConnectionId> id_;
  QueuePairOptions options_;
  const std::string peer_;
  std::size_t send_bytes_ = kLeastInline;
  std::uint8_t reads_ = 0;  // that may be under way
  bool calling_ = false;
  bool may_invalidate_ = false;
  bool known_ = false;        // to events_
  bool has_channel_ = false;  // of events_, for queue_
  Exposed exposed_;           // of a calling one
  Connected connected_;
  std::unique_ptr<ibv_cq, QueueCloser> queue_;
  ibv_qp* pair_ = nullptr;
  std::shared_ptr<QueuePairUser> user_;
  std::vector<std::optional<Work>> slots_;  // what is under way, by its number
  std::vector<std::size_t> free_;
  std::deque<std::size_t> posted_;  // without receives, in the order in which they are done
  // What the device is to be given at once: the first `joined_` of them.
  std::vector<ibv_sge> pieces_;
  std::vector<ibv_send_wr> requests_;
  std::size_t joined_ = 0;
  bool turn_posted_ = false;  // of poll_all()
  std::optional<Error> ending_;
};

Result<> VerbsQueuePair::take(const ConnectionEvent& request) {
  heard_from(request);
  reads_ = static_cast<std::uint8_t>(std::min<int>(
      request.initiator_depth, std::clamp(device_->limits().max_qp_init_rd_atom, 0, 255)));
  if (reads_ == 0) return fail(Errc::kNotSupported, "a peer of which nothing can be read");
  return open();
}

Result<> VerbsQueuePair::connect(Connected connected) {
  calling_ = true;
  exposed_ = device_->exposed();
  if (auto opened = open(); !opened) return opened;
  std::uint8_t timeout = kAckTimeout;
  // Not all kernels have it: then it takes longer until a peer that is gone is noticed.
  static_cast<void>(::rdma_set_option(id_->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
                                      &timeout, sizeof timeout));
  const auto said = encode(
      PrivateData{.send_bytes = options_.send_bytes, .receive_bytes = options_.receive_bytes});
  rdma_conn_param asked{};
  asked.private_data = said.data();
  asked.private_data_len = static_cast<std::uint8_t>(said.size());
  asked.responder_resources =
      static_cast<std::uint8_t>(std::clamp(device_->limits().max_qp_rd_atom, 1, kMostReads));
  asked.retry_count = kRetries;
  asked.rnr_retry_count = kAttempts;
  if (::rdma_connect(id_->get(), &asked) != 0) return fail_errno(errno, "connect to " + peer_);
  connected_ = std::move(connected);
  return {};
}

void VerbsQueuePair::heard_from(const ConnectionEvent& event) {
  const auto said = decode_private_data(std::span(event.private_data).first(event.private_size));
  send_bytes_ = std::min(said ? said->receive_bytes : kLeastInline, options_.send_bytes);
  may_invalidate_ = said && said->remote_invalidation &&
                    (device_->limits().device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
}

Result<> VerbsQueuePair::open() {
  const auto channel = events_->completions(device_);
  if (!channel) return std::unexpected(channel.error());
  has_channel_ = true;
  rdma_cm_id* const id = id_->get();
  // It may be asked for with a queue of its own only if the device has one.
  const auto entries = static_cast<int>(slots_.size());
  queue_.reset(::ibv_create_cq(id->verbs, entries, static_cast<CompletionUser*>(this), *channel,
                               events_->vector(id->verbs->num_comp_vectors)));
  if (queue_ == nullptr) return fail_errno(errno, "a completion queue");
  if (const int error = ::ibv_req_notify_cq(queue_.get(), 0); error != 0) {
    return fail_errno(error, "hear of completions");
  }
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue_.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = static_cast<std::uint32_t>(options_.work);
  wanted.cap.max_recv_wr = static_cast<std::uint32_t>(options_.receives);
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  if (::rdma_create_qp(id, device_->domain(), &wanted) != 0) {
    return fail_errno(errno, "a queue pair");
  }
  pair_ = id->qp;
  id->context = static_cast<ConnectionUser*>(this);
  events_->add(this);
  known_ = true;
  return {};
}

void VerbsQueuePair::start(std::shared_ptr<QueuePairUser> user) {
  WEFT_ASSERT(user_ == nullptr && !connected_);
  user_ = std::move(user);
  // It ended before anybody could be told.
  if (ending_) return end_later();
  if (calling_) return;
  if (auto accepted = accept(); !accepted) end({Errc::kUnreachable, accepted.error().text});
}

Result<> VerbsQueuePair::accept() {
  const auto said = encode(PrivateData{.send_bytes = options_.send_bytes,
                                       .receive_bytes = options_.receive_bytes,
                                       .remote_invalidation = may_invalidate_});
  rdma_conn_param answer{};
  answer.private_data = said.data();
  answer.private_data_len = static_cast<std::uint8_t>(said.size());
  answer.initiator_depth = reads_;
  answer.rnr_retry_count = kAttempts;
  if (::rdma_accept(id_->get(), &answer) != 0) return fail_errno(errno, "accept " + peer_);
  return {};
}

void VerbsQueuePair::post(Work work) {
  const bool nothing = work.kind == Work::Kind::kNothing;
  WEFT_ASSERT(!free_.empty() && work.memory.empty() == nothing);
  if (pair_ == nullptr) return;
  WEFT_ASSERT(nothing || device_->reaches(work.memory.span()));
  const std::size_t slot = free_.back();
  free_.pop_back();
  int error = 0;
  if (work.kind == Work::Kind::kReceive) {
    error = post_receive(slot, work);
  } else {
    posted_.push_back(slot);
    join(slot, work);
    if (!work.joined) error = post_joined();
  }
  // It is told to have failed with all that is under way.
  slots_[slot] = std::move(work);
  if (error != 0) end({Errc::kUnreachable, "the device takes no work for " + peer_});
}

ibv_sge VerbsQueuePair::piece_of(const Work& work) const {
  return {.addr = reinterpret_cast<std::uintptr_t>(work.memory.data()),
          .length = static_cast<std::uint32_t>(work.memory.size()),
          .lkey = device_->key()};
}

int VerbsQueuePair::post_receive(std::uint64_t slot, const Work& work) {
  ibv_sge piece = piece_of(work);
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ::ibv_post_recv(pair_, &request, &bad);
}

void VerbsQueuePair::join(std::uint64_t slot, const Work& work) {
  WEFT_ASSERT(joined_ < requests_.size());
  ibv_sge& piece = pieces_[joined_] = piece_of(work);
  ibv_send_wr& request = requests_[joined_] = {};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.send_flags = work.joined || work.quiet ? 0 : IBV_SEND_SIGNALED;
  request.opcode = IBV_WR_SEND;
  if (work.invalidate) {
    request.opcode = IBV_WR_SEND_WITH_INV;
    request.invalidate_rkey = *work.invalidate;
  }
  if (work.kind == Work::Kind::kNothing) {
    // Of no bytes: no address is looked at (InfiniBand's specification, C9-88).
    request.opcode = IBV_WR_RDMA_WRITE;
    request.num_sge = 0;
  } else if (work.kind != Work::Kind::kSend) {
    request.opcode = work.kind == Work::Kind::kRead ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = work.remote.offset;
    request.wr.rdma.rkey = work.remote.handle;
  }
  if (joined_++ > 0) requests_[joined_ - 2].next = &request;
}

int VerbsQueuePair::post_joined() {
  joined_ = 0;
  ibv_send_wr* bad = nullptr;
  return ::ibv_post_send(pair_, requests_.data(), &bad);
}

void VerbsQueuePair::on_event(const ConnectionEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      if (!connected_) return;
      heard_from(event);
      return connected({});
    case RDMA_CM_EVENT_DISCONNECTED:
      // What it sent before that is still to be delivered, and no more than can be there now: it
      // may go on to send.
      for (std::size_t left = slots_.size() / kPolled + 1; left > 0 && poll(); --left) {
      }
      return end({Errc::kClosed, "closed by the peer"});
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return end({Errc::kUnreachable, "the RDMA device was removed"});
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED: return end({Errc::kUnreachable, peer_ + " did not connect"});
    default: return;
  }
}

void VerbsQueuePair::on_completions() {
  if (user_ == nullptr) return;
  // First: what is done from now on is told again.
  if (::ibv_req_notify_cq(queue_.get(), 0) != 0) {
    return end({Errc::kUnreachable, "the device tells no more of completions"});
  }
  poll_all();
}

// Later turns do not ask to be told: a queue that was asked twice could have told twice, and then
// those who take one event of each queue (DeviceEvents) would miss another's.
void VerbsQueuePair::poll_all() {
  for (int i = 0; i < kRounds; ++i) {
    if (!poll()) return;
  }
  if (std::exchange(turn_posted_, true)) return;
  boost::asio::post(events_->context(), [this, user = user_] {
    turn_posted_ = false;
    poll_all();
  });
}

bool VerbsQueuePair::poll() {
  if (user_ == nullptr || ending_) return false;
  std::array<ibv_wc, kPolled> done{};
  const int count = ::ibv_poll_cq(queue_.get(), kPolled, done.data());
  if (count < 0) {
    end({Errc::kUnreachable, "the device lost completions"});
    return false;
  }
  for (int i = 0; i < count; ++i) complete(done.at(static_cast<std::size_t>(i)));
  return count == kPolled;
}

void VerbsQueuePair::complete(const ibv_wc& done) {
  const std::size_t slot = done.wr_id;
  WEFT_ASSERT(slots_.at(slot).has_value());
  const bool success = done.status == IBV_WC_SUCCESS;
  if (slots_[slot]->kind == Work::Kind::kReceive) {
    told(slot, success, success ? done.byte_len : 0);
  } else {
    // The device does what is sent in order, and tells of all that fails.
    while (posted_.front() != slot) {
      const std::size_t before = posted_.front();
      posted_.pop_front();
      told(before, true);
    }
    posted_.pop_front();
    told(slot, success);
  }
  if (success) return;
  end({Errc::kUnreachable, std::string("the device could not reach ") + peer_ + ": " +
                               ::ibv_wc_status_str(done.status)});
}

void VerbsQueuePair::told(std::size_t slot, bool done, std::size_t received) {
  Completion completion{.work = std::move(*slots_[slot]), .done = done};
  slots_[slot].reset();
  free_.push_back(slot);
  completion.received = std::min(received, completion.work.memory.size());
  user_->on_completion(std::move(completion));
}

// It may be destroyed by who is told.
void VerbsQueuePair::connected(Result<> result) {
  auto told = std::exchange(connected_, nullptr);
  told(std::move(result));
}

void VerbsQueuePair::end(Error why) {
  if (ending_) return;
  ending_ = std::move(why);
  if (connected_) return connected(std::unexpected(*ending_));
  if (user_ != nullptr) end_later();
}

void VerbsQueuePair::on_events_closed() {
  const Error why{Errc::kClosed, "RDMA is shut down"};
  if (connected_) return end(why);
  if (!ending_) ending_ = why;
  finish();
}

// Who is told of it may be in the middle of a call.
void VerbsQueuePair::end_later() {
  boost::asio::post(events_->context(), [this, user = user_] { finish(); });
}

void VerbsQueuePair::finish() {
  destroy();
  if (user_ == nullptr) return;
  // It owns this, and may be gone after it was told.
  const auto user = std::move(user_);
  for (auto& slot : slots_) {
    if (!slot) continue;
    Completion failed{.work = std::move(*slot)};
    slot.reset();
    user->on_completion(std::move(failed));
  }
  user->on_disconnected(*ending_);
}

void VerbsQueuePair::destroy() {
  if (std::exchange(known_, false)) events_->remove(this);
  if (pair_ != nullptr) id_->get()->context = nullptr;
  id_->destroy_pair();
  pair_ = nullptr;
  queue_.reset();
  if (std::exchange(has_channel_, false)) events_->forget(*device_);
  device_.reset();
  id_->destroy();
}

}  // namespace

void ConnectionId::destroy_pair() {
  const MutexLock lock(mutex_);
  if (id_ != nullptr && id_->qp != nullptr) ::rdma_destroy_qp(id_);
}

void ConnectionId::destroy() {
  destroy_pair();
  const MutexLock lock(mutex_);
  if (id_ == nullptr) return;
  ::rdma_destroy_id(std::exchange(id_, nullptr));
}

void ConnectionId::cut() {
  const MutexLock lock(mutex_);
  if (id_ != nullptr) ::rdma_disconnect(id_);
}

Result<std::unique_ptr<QueuePair>> make_queue_pair(std::shared_ptr<DeviceEvents> events,
                                                   std::shared_ptr<Device> device,
                                                   std::shared_ptr<ConnectionId> id,
                                                   const ConnectionEvent& request, std::string peer,
                                                   const QueuePairOptions& options) {
  auto pair = std::make_unique<VerbsQueuePair>(std::move(events), std::move(device), std::move(id),
                                               std::move(peer), options);
  if (auto taken = pair->take(request); !taken) return pass(taken);
  return pair;
}

Result<std::unique_ptr<QueuePair>> connect_queue_pair(
    std::shared_ptr<DeviceEvents> events, std::shared_ptr<Device> device,
    std::shared_ptr<ConnectionId> id, std::string peer, const QueuePairOptions& options,
    std::move_only_function<void(Result<>)> connected) {
  auto pair = std::make_unique<VerbsQueuePair>(std::move(events), std::move(device), std::move(id),
                                               std::move(peer), options);
  if (auto asked = pair->connect(std::move(connected)); !asked) return pass(asked);
  return pair;
}

}  // namespace weft::rpc::rdma
