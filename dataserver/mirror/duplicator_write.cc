#include <spdlog/spdlog.h>

#include <algorithm>

#include "dataserver/mirror/duplicator_internal.h"
#include "dataserver/store/failure.h"
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
  auto op = std::make_shared<WriteOp>();
  op->handle = handle;
  op->epoch = handle.object_epoch;
  op->offset = offset;
  op->range = {offset, offset + bytes};
  op->wanted = wanted;
  op->data = std::move(data);
  op->token = std::move(token);
  op->done = std::move(done);
  locks_.acquire(handle.object, op->range, [this, op](RangeLocks::Hold hold) {
    op->hold = std::move(hold);
    begin(op);
  });
}

void Duplicator::begin(const WritePtr& op) {
  op->deadline = parts_.clock.now() + parts_.options.timeout;
  if (op->handle.duplication != layout::Duplication::kNone && op->range.begin < op->range.end) {
    for (const std::uint32_t id : op->handle.partners) {
      if (id == 0) continue;
      CopyPart& copy = op->copies.emplace_back(id, partners_.find(id));
      copy.known_missed = book_.missed(op->handle.object, id, op->epoch, op->range);
      copy.sent = copy.sent && !copy.known_missed;
    }
  }
  op->left = 1 + static_cast<std::size_t>(std::ranges::count(op->copies, true, &CopyPart::sent));
  for (std::size_t i = 0; i < op->copies.size(); ++i) {
    if (op->copies[i].sent) send(op, i);
  }
  // What was sent goes out from the thread's queue: behind it, so that both go on at once.
  if (op->left == 1) return write_here(op);
  mine().ring.post([this, op] { write_here(op); });
}

// The same bytes to the same place, under the same hold: doing it twice is as good as once.
void Duplicator::write_here(const WritePtr& op) {
  parts_.store.write(op->handle.object, op->offset, share_all(op->data), op->wanted,
                     [this, op](Result<WriteResult> result) {
                       const bool later = !result && result.error() == Errc::kBusy;
                       if (!later || op->copies.empty() || parts_.clock.now() >= op->deadline) {
                         return written_here(op, std::move(result));
                       }
                       after_rest([this, op] { write_here(op); });
                     });
}

void Duplicator::send(const WritePtr& op, std::size_t copy) {
  const std::uint32_t id = op->copies[copy].ds_id;
  const auto sealed = seal(layout::mirror_handle(op->handle, id));
  rpc::nfs4::WriteArgs args{.stateid = {},
                            .offset = op->offset,
                            .stable = static_cast<rpc::nfs4::StableHow>(op->wanted),
                            .data = share_all(op->data)};
  PartnerLink::Ops ops;
  ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(sealed)}});
  ops.push_back({Op::OP_WRITE, std::move(args)});
  link(id).call(std::move(ops), [this, op, copy](Result<CompoundResult> result) {
    answered(op, copy, std::move(result));
  });
}

void Duplicator::answered(const WritePtr& op, std::size_t index, Result<CompoundResult> result) {
  CopyPart& copy = op->copies[index];
  const std::uint64_t bytes = op->range.end - op->range.begin;
  if (result && asks_for_patience(*result) && parts_.clock.now() < op->deadline) {
    return after_rest([this, op, index] { send(op, index); });
  }
  if (const auto* ok = result ? good_answer(*result, bytes) : nullptr) {
    copy.good = true;
    copy.stability = static_cast<Stability>(ok->committed);
    copy.verifier = ok->verifier;
    copy.partner->verifier.store(ok->verifier);
    forwarded_bytes_.fetch_add(bytes);
    if (copy.stability == Stability::kUnstable) {
      book_.add_uncommitted(op->handle.object, copy.ds_id, op->range);
    }
  } else if (result) {
    spdlog::warn("event=partner_refused ds={} object={} status={}", copy.ds_id,
                 layout::to_string(op->handle.object), rpc::nfs4::to_string(result->status));
    // Its right was taken back there already: here it is about to be.
    if (result->status == Status::NFS4ERR_ACCESS) {
      op->refused = Error{Errc::kFenced, "fenced at a partner"};
    }
  }
  one_done(op);
}

void Duplicator::written_here(const WritePtr& op, Result<WriteResult> result) {
  op->here = std::move(result);
  op->hold.local_done();
  if (op->left > 1 && *op->here && window_takes(*op)) answer_early(op);
  one_done(op);
}

bool Duplicator::window_takes(const WriteOp& op) const {
  if (op.handle.duplication != layout::Duplication::kServerAsync) return false;
  if (op.wanted != Stability::kUnstable) return false;
  // A verifier that is not known yet would differ from COMMIT's: better to wait for it.
  if (std::ranges::any_of(op.copies, [](const CopyPart& copy) { return copy.verifier == 0; })) {
    return false;
  }
  const std::uint64_t bytes = op.range.end - op.range.begin;
  if (pending_bytes_.load() + bytes > parts_.options.window_bytes) return false;
  const MutexLock lock(pending_mutex_);
  return pending_.empty() || parts_.clock.now() - *pending_.begin() <= parts_.options.window_age;
}

void Duplicator::answer_early(const WritePtr& op) {
  op->pending_since = parts_.clock.now();
  pending_bytes_.fetch_add(op->range.end - op->range.begin);
  {
    const MutexLock lock(pending_mutex_);
    pending_.insert(*op->pending_since);
  }
  WriteResult result = **op->here;
  // Those that have answered already did so with what is current.
  result.verifier = combine(result.verifier, verifiers_of(op->copies));
  std::exchange(op->done, nullptr)(result);
}

void Duplicator::one_done(const WritePtr& op) {
  if (--op->left > 0) return;
  op->data.clear();
  op->token.reset();
  report_missed(op);
}

// Everything is over, here and there. What is not the same everywhere is told before the client is.
void Duplicator::report_missed(const WritePtr& op) {
  op->gives_way = !*op->here && failed_by_store(op->here->error()) && !op->refused &&
                  std::ranges::any_of(op->copies, &CopyPart::good);
  report_partners(op);
}

void Duplicator::report_partners(const WritePtr& op) {
  // What nobody answers for is undone by the copy that goes on; else the partners have too much.
  const bool failed_here = !*op->here && !op->gives_way;
  std::vector<std::uint32_t> missed;
  for (const CopyPart& copy : op->copies) {
    const bool told = copy.known_missed && !failed_here;
    if (!told && (!copy.good || failed_here)) missed.push_back(copy.ds_id);
  }
  if (missed.empty()) return partners_reported(op);
  op->left = missed.size();
  ExtentSet extents;
  extents.add(op->range);
  for (const std::uint32_t id : missed) {
    const MissedReports::What what{op->epoch, failed_here && failed_by_store(op->here->error())};
    mine().reports.report(op->handle.object, id, what, extents, [this, op, id](Result<> reported) {
      if (!reported) {
        if (op->pending_since) {
          book_.add_unreported(op->handle.object, id, op->range);
        }
        op->refused = std::move(reported.error());
      }
      if (--op->left > 0) return;
      partners_reported(op);
    });
  }
}

// The partners first: once the own copy is left out nobody listens to this server.
void Duplicator::partners_reported(const WritePtr& op) {
  if (!op->gives_way || op->refused) return finish(op);
  ExtentSet extents;
  extents.add(op->range);
  mine().reports.report_own(op->handle.object, op->handle.ds_id, op->epoch, extents,
                            [this, op](Result<> told) {
                              if (own_copy_told(std::move(told), op->refused)) return finish(op);
                              op->gives_way = false;
                              report_partners(op);
                            });
}

void Duplicator::finish(const WritePtr& op) {
  const bool missed = std::ranges::any_of(op->copies, std::logical_not{}, &CopyPart::good);
  if (op->pending_since) {
    pending_bytes_.fetch_sub(op->range.end - op->range.begin);
    const MutexLock lock(pending_mutex_);
    pending_.erase(pending_.find(*op->pending_since));
  }
  op->hold.release();
  if (!op->done) {
    if (op->refused) {  // COMMIT will see to it
      spdlog::error("event=copy_refused object={} error=\"{}\"",
                    layout::to_string(op->handle.object), op->refused->describe());
    }
    if (missed) missed_writes_.fetch_add(1);
    return;
  }
  auto done = std::exchange(op->done, nullptr);
  const bool refused = op->refused && (op->gives_way || *op->refused == Errc::kFenced);
  if (!*op->here && !refused) return done(std::move(*op->here));
  if (op->refused) return done(std::unexpected(std::move(*op->refused)));
  if (missed) missed_writes_.fetch_add(1);
  WriteResult result = **op->here;
  if (!op->copies.empty()) result.verifier = combine(result.verifier, verifiers_of(op->copies));
  for (const CopyPart& copy : op->copies) {
    if (copy.good) result.stability = std::min(result.stability, copy.stability);
  }
  done(std::move(result));
}

}  // namespace weft::ds
