#include "rpc/session/compound_run.h"

#include "rpc/base/assert.h"
#include "rpc/session/session_calls.h"

namespace weft::rpc {
namespace {

using nfs4::Op;
using nfs4::Status;

// Room any result but READ's needs at most, on a data server or in a session operation.
constexpr std::size_t kResultRoom = 320;
// And those of which there are many, which fit among the replies that are kept: operation, status;
// count, stability, verifier.
constexpr std::size_t kPlainRoom = 8;
constexpr std::size_t kWriteRoom = kPlainRoom + 16;
// READ: op, status, eof, length, padding.
constexpr std::size_t kReadRoom = 20;
// Where the part of a reply begins that is kept for retransmissions: after the xid.
constexpr std::size_t kAfterXid = 4;

std::size_t room_of(Op op) {
  switch (op) {
    case Op::OP_PUTFH: return kPlainRoom;
    case Op::OP_WRITE:
    case Op::OP_COMMIT: return kWriteRoom;
    default: return kResultRoom;
  }
}

}  // namespace

CompoundRun::CompoundRun(std::shared_ptr<ServerConnection> connection, const CallHeader& call,
                         nfs4::CompoundHeader header, ReceivedRecord record, std::size_t at)
    : connection_(std::move(connection)),
      call_(call),
      header_(std::move(header)),
      record_(std::move(record.bytes)),
      record_size_(record_.size() + record.apart.size()),
      apart_(std::move(record.apart)),
      room_(std::move(record.room)),
      head_only_(record.head_only),
      in_(record_.span()) {
  in_.skip(at);
  compound_.minor_version = header_.minor_version;
  compound_.sends_files = !connection_->by_rdma();
  compound_.uid = call_.uid;
  compound_.gid = call_.gid;
  encode_accepted(reply_.bytes(), call_.xid);
  status_at_ = reply_.bytes().size();
  reply_.bytes().u32(0);
  reply_.bytes().string(header_.tag);
  count_at_ = reply_.bytes().size();
  reply_.bytes().u32(0);
  connection_->run_started();
}

CompoundRun::~CompoundRun() {
  if (loop_ != nullptr) loop_->abandoned = true;
  connection_->run_ended();
}

void CompoundRun::start(std::shared_ptr<ServerConnection> connection, const CallHeader& call,
                        nfs4::CompoundHeader header, ReceivedRecord record, std::size_t at) {
  go(Owner(new CompoundRun(std::move(connection), call, std::move(header), std::move(record), at)));
}

void CompoundRun::go(Owner run) {
  Next next = run->begin();
  while (next == Next::kPark) {
    if (park(run)) return;
    next = run->begin_sequence(run->sequence_);
  }
  if (next == Next::kDrive) return drive(std::move(run));
  finish(std::move(run));
}

CompoundRun::Next CompoundRun::begin() {
  if (header_.minor_version != 1 && header_.minor_version != 2) {
    status_ = Status::NFS4ERR_MINOR_VERS_MISMATCH;
    reject();
    return Next::kFinish;
  }
  if (header_.op_count == 0) return Next::kFinish;
  nfs4::OpArgs op = next_op();
  if (!in_.ok()) {
    append(failed(op.op, Status::NFS4ERR_BADXDR));
    return Next::kFinish;
  }
  if (const auto* sequence = std::get_if<nfs4::SequenceArgs>(&op.args)) {
    return begin_sequence(*sequence);
  }
  answer_alone(std::move(op));
  return Next::kFinish;
}

void CompoundRun::answer_alone(nfs4::OpArgs op) {
  if (const auto* unknown = std::get_if<nfs4::UnknownArgs>(&op.args);
      unknown != nullptr && !nfs4::is_defined_op(unknown->op, header_.minor_version)) {
    append(failed(Op::OP_ILLEGAL, Status::NFS4ERR_OP_ILLEGAL));
  } else if (!may_stand_alone(op.op)) {
    append(failed(op.op, Status::NFS4ERR_OP_NOT_IN_SESSION));
  } else if (header_.op_count != 1) {
    append(failed(op.op, Status::NFS4ERR_NOT_ONLY_OP));
  } else {
    append(*answer_session_op(connection_->core(),
                              {call_, connection_->host(), connection_->by_rdma()}, nullptr, op));
  }
  if (status_ != Status::NFS4_OK) reject();
}

CompoundRun::Next CompoundRun::begin_sequence(const nfs4::SequenceArgs& args) {
  const std::shared_ptr<ServerSession>& session = connection_->session(args.session);
  Status refused = Status::NFS4_OK;
  if (session == nullptr) {
    refused = Status::NFS4ERR_BADSESSION;
  } else if (header_.op_count > session->limits().max_operations) {
    refused = Status::NFS4ERR_TOO_MANY_OPS;
  } else if (record_size_ > session->limits().max_request) {
    refused = Status::NFS4ERR_REQ_TOO_BIG;
  } else if (reply_.size() + kResultRoom > session->limits().max_response) {
    refused = Status::NFS4ERR_REP_TOO_BIG;  // the tag fills the reply already
  }
  ServerSession::Begun begun;
  if (refused == Status::NFS4_OK) {
    begun = session->begin(args, header_.op_count);
    if (begun.verdict == ServerSession::Verdict::kRefuse) refused = begun.status;
  }
  if (refused == Status::NFS4_OK && !connection_->core().table.renew(session->client())) {
    refused = Status::NFS4ERR_BADSESSION;
    if (begun.verdict == ServerSession::Verdict::kExecute) {
      for (auto& taker : session->finish(args.slot, {})) taker->take({});
    }
  }
  if (refused != Status::NFS4_OK) {
    append(failed(Op::OP_SEQUENCE, refused));
    reject();
    return Next::kFinish;
  }
  sequence_ = args;
  if (begun.verdict == ServerSession::Verdict::kRunning) {
    runs_in_ = session;
    return Next::kPark;
  }
  append({Op::OP_SEQUENCE, Status::NFS4_OK, session->answer(args), 0});
  if (begun.verdict != ServerSession::Verdict::kExecute) {
    answer_replay(std::move(begun));
    return Next::kFinish;
  }
  session_ = session;
  compound_.client = &session_->client().info;
  return Next::kDrive;
}

// A run that waits in the session, and goes back to its thread for the reply.
struct CompoundRun::Parked final : ReplyTaker {
  Parked(Owner waiting, std::shared_ptr<Channel> its)
      : run(std::move(waiting)), channel(std::move(its)) {}
  void take(std::optional<Message> reply) override {
    channel->post([run = std::move(run), reply = std::move(reply)]() mutable {
      if (reply) run->answer_with(std::move(*reply));
    });
  }
  Owner run;
  const std::shared_ptr<Channel> channel;
};

bool CompoundRun::park(Owner& run) {
  CompoundRun& self = *run;
  const std::shared_ptr<ServerSession> session = std::exchange(self.runs_in_, nullptr);
  // What it brought is not needed: the first one's is being carried out.
  if (!self.after_sequence_) self.after_sequence_ = self.next_op().op;
  self.record_ = {};
  self.apart_ = {};
  auto parked = std::make_unique<Parked>(std::move(run), self.connection_->channel());
  Parked& waits = *parked;
  std::unique_ptr<ReplyTaker> taker = std::move(parked);
  if (session->wait_for_reply(self.sequence_, taker)) {
    self.connection_->core().replays.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  run = std::move(waits.run);
  return false;
}

void CompoundRun::answer_with(Message reply) {
  reply.bytes().patch_u32(0, call_.xid);
  reply.set_room(std::move(room_));
  connection_->reply(std::move(reply));
}

void CompoundRun::answer_replay(ServerSession::Begun begun) {
  connection_->core().replays.fetch_add(1, std::memory_order_relaxed);
  switch (begun.verdict) {
    case ServerSession::Verdict::kReplay: {
      xdr::Encoder bytes(kAfterXid + begun.reply.size());
      bytes.u32(call_.xid);
      bytes.raw(begun.reply);
      connection_->reply(Message(std::move(bytes)));
      drop_ = true;
      break;
    }
    default: {
      // The operation after SEQUENCE carries the news.
      const Op op = after_sequence_ ? *after_sequence_ : next_op().op;
      append(failed(op, Status::NFS4ERR_RETRY_UNCACHED_REP));
    }
  }
}

void CompoundRun::drive(Owner run) {
  while (run->status_ == Status::NFS4_OK && run->started_ops_ < run->header_.op_count) {
    nfs4::OpArgs op = run->next_op();
    if (auto answer = run->answer_here(op)) {
      run->append(std::move(*answer));
      continue;
    }
    CompoundRun* const here = run.get();
    OpHandler& handler = here->connection_->core().handler;
    Loop loop;
    here->loop_ = &loop;
    handler.execute(here->compound_, std::move(op),
                    [owner = std::move(run)](nfs4::OpResult result) mutable {
                      completed(std::move(owner), std::move(result));
                    });
    if (!loop.run) {
      if (!loop.abandoned) here->loop_ = nullptr;  // it completes later, on this thread
      return;
    }
    run = std::move(loop.run);
    run->append(std::move(*loop.result));
  }
  finish(std::move(run));
}

void CompoundRun::completed(Owner run, nfs4::OpResult result) {
  if (Loop* const loop = run->loop_; loop != nullptr) {
    run->loop_ = nullptr;
    loop->result = std::move(result);
    loop->run = std::move(run);
    return;
  }
  run->append(std::move(result));
  drive(std::move(run));
}

std::optional<nfs4::OpResult> CompoundRun::answer_here(nfs4::OpArgs& op) {
  // What was not worth receiving then is so now: a session or a key came in between.
  if (head_only_ && (op.op == Op::OP_WRITE || !in_.ok()))
    return failed(op.op, Status::NFS4ERR_DELAY);
  if (!in_.ok()) return failed(op.op, Status::NFS4ERR_BADXDR);
  if (const auto* unknown = std::get_if<nfs4::UnknownArgs>(&op.args)) {
    if (!nfs4::is_defined_op(unknown->op, header_.minor_version)) {
      return failed(Op::OP_ILLEGAL, Status::NFS4ERR_OP_ILLEGAL);
    }
    return failed(op.op, connection_->core().handler.unknown(unknown->op));
  }
  if (const Status room = make_room(op); room != Status::NFS4_OK) return failed(op.op, room);
  if (const auto* destroy = std::get_if<nfs4::DestroySessionArgs>(&op.args);
      destroy != nullptr && destroy->session == session_->id() &&
      started_ops_ != header_.op_count) {
    return failed(op.op, Status::NFS4ERR_NOT_ONLY_OP);  // its own session: the last or nothing
  }
  return answer_session_op(connection_->core(),
                           {call_, connection_->host(), connection_->by_rdma()}, session_.get(),
                           op);
}

nfs4::OpArgs CompoundRun::next_op() {
  ++started_ops_;
  return nfs4::decode_op(in_, record_, apart_);
}

Status CompoundRun::make_room(nfs4::OpArgs& op) {
  const auto& limits = session_->limits();
  const std::size_t used = reply_.size();
  const std::size_t left = limits.max_response - std::min<std::size_t>(used, limits.max_response);
  const std::size_t cache_left =
      limits.max_response_cached - std::min<std::size_t>(used, limits.max_response_cached);
  std::size_t wanted = room_of(op.op);
  if (auto* read = std::get_if<nfs4::ReadArgs>(&op.args)) {
    if (left < kReadRoom + 1 && read->count > 0) return Status::NFS4ERR_REP_TOO_BIG;
    compound_.max_read = left < kReadRoom ? 0 : (left - kReadRoom) & ~std::size_t{3};
    compound_.max_read = std::min(compound_.max_read, nfs4::kMaxIoBytes);
    read->count =
        static_cast<std::uint32_t>(std::min<std::size_t>(read->count, compound_.max_read));
    wanted = kReadRoom + read->count;
  }
  if (wanted > left) return Status::NFS4ERR_REP_TOO_BIG;
  if (sequence_.cache_this && wanted > cache_left) return Status::NFS4ERR_REP_TOO_BIG_TO_CACHE;
  return Status::NFS4_OK;
}

void CompoundRun::append(nfs4::OpResult result) {
  status_ = result.status;
  ++results_;
  if (compound_.shows_right) {
    std::atomic<bool>& has_right = session_->client().has_right;
    if (!has_right.load(std::memory_order_relaxed)) has_right.store(true);
  }
  encode(reply_, std::move(result));
}

void CompoundRun::finish(Owner run) {
  CompoundRun& self = *run;
  xdr::Encoder& bytes = self.reply_.bytes();
  bytes.patch_u32(self.status_at_, static_cast<std::uint32_t>(self.status_));
  bytes.patch_u32(self.count_at_, self.results_);
  if (self.session_ != nullptr) {
    static_cast<void>(self.connection_->core().table.renew(self.session_->client()));
    std::optional<std::span<const std::byte>> keep;
    std::vector<std::byte> flat;
    if (!self.reply_.has_payload()) {
      keep = bytes.bytes().subspan(kAfterXid);  // small replies are kept, asked for or not
    } else if (self.sequence_.cache_this) {
      if (auto copied = self.reply_.flatten()) {
        flat = std::move(*copied);
        keep = std::span<const std::byte>(flat).subspan(kAfterXid);
      }
    }
    for (const auto& taker : self.session_->finish(self.sequence_.slot, keep)) {
      taker->take(self.reply_.share());
    }
  }
  self.reply_.set_room(std::move(self.room_));
  if (!self.drop_) self.connection_->reply(std::move(self.reply_));
}

}  // namespace weft::rpc
