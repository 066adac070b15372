#include <spdlog/spdlog.h>

#include <algorithm>

#include "dataserver/mirror/duplicator_internal.h"
#include "dataserver/store/failure.h"
#include "dataserver/store/vectors.h"
#include "rpc/session/cluster_session.h"

namespace weft::ds {

using rpc::nfs4::CompoundResult;
using rpc::nfs4::Op;
using rpc::nfs4::Status;

namespace {

// Its answer to PUTFH and WRITE, when the partner has all of the bytes.
const rpc::nfs4::WriteOk* good_answer(CompoundResult& result, std::uint64_t bytes) {
  const auto* ok = result.get<rpc::nfs4::WriteOk>(1);
  return ok != nullptr && ok->count == bytes ? ok : nullptr;
}

bool asks_for_patience(const CompoundResult& result) {
  return result.status == Status::NFS4ERR_DELAY || result.status == Status::NFS4ERR_GRACE;
}

}  // namespace

void Duplicator::write(const layout::Handle& handle, std::uint64_t offset, std::vector<Buffer> data,
                       Stability wanted, WritesInFlight::Token token,
                       Store::Done<WriteResult> done) {
  std::uint64_t bytes = 0;
  for (const Buffer& piece : data) bytes += piece.size();
  if (bytes > kMaxEnd || offset > kMaxEnd - bytes) {
    return done(fail(Errc::kFileTooLarge, "a write beyond what a file can hold"));
  }
  write_copies({.handle = handle,
                .range = {offset, offset + bytes},
                .wanted = wanted,
                .data = std::move(data),
                .token = std::move(token),
                .done = std::move(done)})
      .start();
}

// Who brings a write here asks again, as long as it has patience: it may lead no more. A write of
// its own to the same bytes may be what the one that leads here waits for.
//
// Of its own a write needs one allocation here: the coroutine's frame.
Flow Duplicator::write_copies(WriteOp op) {
  const Flow::Self self = co_await Flow::self();
  op.hold = co_await call<RangeLocks::Hold>(self, [&](auto granted) {
    using enum RangeLocks::As;
    const bool leads = op.handle.duplication != layout::Duplication::kNone;
    locks_.acquire(op.handle.object, op.range, std::move(granted), leads ? kLeads : kFollows);
  });
  if (!op.hold) {
    op.data.clear();
    op.token.reset();
    op.done(fail(Errc::kBusy, "it is being written through this server, too"));
    co_return;
  }
  op.deadline = parts_.clock.now() + parts_.options.timeout;
  find_copies(op);
  Callbacks answers(self);
  for (CopyPart& copy : op.copies) {
    if (copy.sent) send(op, copy, answers);
  }
  // What was sent goes out from the thread's queue: behind it, so that both go on at once.
  if (!answers.await_ready()) {
    co_await call(self, [this](auto then) { mine().ring.post(std::move(then)); });
  }
  for (;;) {
    // The same bytes to the same place, under the same hold: doing it twice is as good as once.
    op.here = co_await call<Result<WriteResult>>(self, [&](auto written) {
      parts_.store.write(op.handle.object, op.range.begin, share_all(op.data), op.wanted,
                         std::move(written));
    });
    const bool later = !op.here && op.here.error() == Errc::kBusy;
    if (!later || op.copies.empty() || parts_.clock.now() >= op.deadline) break;
    co_await call(self, [this](auto then) { after_rest(std::move(then)); });
  }
  op.hold.local_done();
  if (!answers.await_ready() && op.here && window_takes(op)) answer_early(op);
  co_await answers;
  op.data.clear();
  op.token.reset();
  // What is not the same everywhere is told before the client is.
  op.gives_way = !op.here && failed_by_store(op.here.error()) && !op.refused &&
                 std::ranges::any_of(op.copies, &CopyPart::good);
  if (op.gives_way || !untold(op).empty()) static_cast<void>(co_await report_missed(op, self));
  finish(op);
}

void Duplicator::find_copies(WriteOp& op) {
  if (op.handle.duplication == layout::Duplication::kNone || op.bytes() == 0) return;
  for (const std::uint32_t id : op.handle.partners) {
    if (id == 0) continue;
    CopyPart& copy = op.copies.emplace_back(id, partners_.find(id));
    copy.known_missed = book_.missed(op.handle.object, id, op.handle.object_epoch, op.range);
    copy.sent = copy.sent && !copy.known_missed;
  }
}

void Duplicator::send(WriteOp& op, CopyPart& copy, Callbacks& answers) {
  const auto sealed = seal(layout::mirror_handle(op.handle, copy.ds_id));
  rpc::nfs4::WriteArgs args{.stateid = {},
                            .offset = op.range.begin,
                            .stable = static_cast<rpc::nfs4::StableHow>(op.wanted),
                            .data = share_all(op.data)};
  PartnerLink::Ops ops;
  ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(sealed)}});
  ops.push_back({Op::OP_WRITE, std::move(args)});
  link(copy.ds_id).call(std::move(ops), answers.make([&, this](Result<CompoundResult> result) {
    if (result && asks_for_patience(*result) && parts_.clock.now() < op.deadline) {
      return after_rest(answers.make([&, this] { send(op, copy, answers); }));
    }
    answered(op, copy, std::move(result));
  }));
}

void Duplicator::answered(WriteOp& op, CopyPart& copy, Result<CompoundResult> result) {
  if (const auto* ok = result ? good_answer(*result, op.bytes()) : nullptr) {
    copy.good = true;
    copy.stability = static_cast<Stability>(ok->committed);
    copy.verifier = ok->verifier;
    copy.partner->saw_verifier(ok->verifier);
    forwarded_bytes_.fetch_add(op.bytes());
    if (copy.stability == Stability::kUnstable) {
      book_.add_uncommitted(op.handle.object, copy.ds_id, op.range);
    }
  } else if (result) {
    partner_refused_log_.warn("event=partner_refused ds={} object={} status={}", copy.ds_id,
                              layout::to_string(op.handle.object),
                              rpc::nfs4::to_string(result->status));
    copy.too_large = result->status == Status::NFS4ERR_FBIG;
    // Its right was taken back there already: here it is about to be.
    if (result->status == Status::NFS4ERR_ACCESS) {
      op.refused = Error{Errc::kFenced, "fenced at a partner"};
    }
  }
}

bool Duplicator::window_takes(const WriteOp& op) const {
  if (op.handle.duplication != layout::Duplication::kServerAsync) return false;
  if (op.wanted != Stability::kUnstable) return false;
  // A verifier that is not known yet would differ from COMMIT's: better to wait for it.
  if (std::ranges::any_of(op.copies, [](const CopyPart& copy) { return copy.verifier == 0; })) {
    return false;
  }
  if (pending_bytes_.load() + op.bytes() > parts_.options.window_bytes) return false;
  const MutexLock lock(pending_mutex_);
  return pending_.empty() || parts_.clock.now() - *pending_.begin() <= parts_.options.window_age;
}

void Duplicator::answer_early(WriteOp& op) {
  op.pending_since = parts_.clock.now();
  pending_bytes_.fetch_add(op.bytes());
  {
    const MutexLock lock(pending_mutex_);
    pending_.insert(*op.pending_since);
  }
  WriteResult result = *op.here;
  // Those that have answered already did so with what is current.
  result.verifier = combine(result.verifier, verifiers_of(op.copies));
  std::exchange(op.done, nullptr)(result);
}

std::vector<std::uint32_t> Duplicator::untold(const WriteOp& op) {
  std::vector<std::uint32_t> missed;
  const bool too_large = !op.here && op.here.error() == Errc::kFileTooLarge;
  for (const CopyPart& copy : op.copies) {
    if (too_large && copy.too_large) continue;  // neither has it
    const bool told = copy.known_missed && !op.failed_here();
    if (!told && (!copy.good || op.failed_here())) missed.push_back(copy.ds_id);
  }
  return missed;
}

Task<bool> Duplicator::report_partners(WriteOp& op, Flow::Self self) {
  ExtentSet extents;
  extents.add(op.range);
  const MissedReports::What what{op.handle.object_epoch,
                                 op.failed_here() && failed_by_store(op.here.error())};
  Callbacks reports(self);
  for (const std::uint32_t id : untold(op)) {
    mine().reports.report(op.handle.object, id, what, extents,
                          reports.make([this, &op, id](Result<> reported) {
                            if (reported) return;
                            // Who is refused may give up, and COMMIT is told all the same. What is
                            // in doubt at both is equal after that, whichever it is.
                            if (op.pending_since || reported.error() == Errc::kBusy) {
                              book_.add_unreported(op.handle.object, id, op.range);
                            }
                            op.refused = std::move(reported.error());
                          }));
  }
  co_await reports;
  co_return !op.refused;
}

// The partners first: once the own copy is left out nobody listens to this server.
Task<bool> Duplicator::report_missed(WriteOp& op, Flow::Self self) {
  const bool reported = co_await report_partners(op, self);
  if (!op.gives_way) co_return reported;
  if (reported) {
    ExtentSet extents;
    extents.add(op.range);
    Result<> told = co_await call<Result<>>(self, [&](auto done) {
      mine().reports.report_own(op.handle.object, op.handle.ds_id, op.handle.object_epoch, extents,
                                std::move(done));
    });
    if (!own_copy_told(std::move(told), op.refused)) {
      op.gives_way = false;
      co_return co_await report_partners(op, self);
    }
  }
  // As of a partner: who is refused may give up, and COMMIT is told all the same.
  if (*op.refused == Errc::kBusy) {
    book_.add_unreported(op.handle.object, op.handle.ds_id, op.range);
  }
  co_return false;
}

void Duplicator::finish(WriteOp& op) {
  const bool missed = std::ranges::any_of(op.copies, std::logical_not{}, &CopyPart::good);
  if (op.pending_since) {
    pending_bytes_.fetch_sub(op.bytes());
    const MutexLock lock(pending_mutex_);
    pending_.erase(pending_.find(*op.pending_since));
    if (pending_.empty()) none_pending_.notify_all();
  }
  op.hold.release();
  if (!op.done) {
    if (op.refused) {  // COMMIT will see to it
      copy_refused_log_.write(spdlog::level::err, "event=copy_refused object={} error=\"{}\"",
                              layout::to_string(op.handle.object), op.refused->describe());
    }
    if (missed) missed_writes_.fetch_add(1);
    return;
  }
  const bool refused = op.refused && (op.gives_way || *op.refused == Errc::kFenced);
  if (!op.here && !refused) return op.done(std::move(op.here));
  if (op.refused) return op.done(std::unexpected(std::move(*op.refused)));
  if (missed) missed_writes_.fetch_add(1);
  WriteResult result = *op.here;
  if (!op.copies.empty()) result.verifier = combine(result.verifier, verifiers_of(op.copies));
  for (const CopyPart& copy : op.copies) {
    if (copy.good) result.stability = std::min(result.stability, copy.stability);
  }
  op.done(std::move(result));
}

}  // namespace weft::ds
