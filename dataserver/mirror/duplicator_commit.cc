#include <algorithm>

#include "dataserver/mirror/duplicator_internal.h"
#include "dataserver/store/failure.h"

namespace weft::ds {

using rpc::nfs4::CompoundResult;
using rpc::nfs4::Op;

void Duplicator::commit(const layout::Handle& handle, Store::Done<WriteVerifier> done) {
  if (handle.duplication == layout::Duplication::kNone) {
    return parts_.store.commit(handle.object, std::move(done));
  }
  auto op = std::make_shared<CommitOp>();
  op->handle = handle;
  op->epoch = handle.object_epoch;
  op->done = std::move(done);
  op->deadline = parts_.clock.now() + parts_.options.timeout;
  if (handle.duplication == layout::Duplication::kServerSync) return run_commit(op);
  // What was answered early is at the partners, or recorded as missed, when this is granted.
  locks_.acquire(handle.object, {0, kMaxEnd}, [this, op](RangeLocks::Hold hold) {
    hold.release();
    run_commit(op);
  });
}

void Duplicator::run_commit(const CommitPtr& op) {
  for (const std::uint32_t id : op->handle.partners) {
    if (id == 0) continue;
    op->copies.emplace_back(id, partners_.find(id));
    op->owed.push_back(book_.owed(op->handle.object, id));
  }
  op->left = 1 + static_cast<std::size_t>(std::ranges::count(op->copies, true, &CopyPart::sent));
  for (CopyPart& copy : op->copies) {
    if (!copy.sent) continue;
    const auto sealed = seal(layout::mirror_handle(op->handle, copy.ds_id));
    PartnerLink::Ops ops;
    ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(sealed)}});
    ops.push_back({Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
    link(copy.ds_id).patient_call(std::move(ops), [this, op, &copy](Result<CompoundResult> result) {
      if (const auto* ok = result ? result->get<rpc::nfs4::CommitOk>(1) : nullptr) {
        copy.good = true;
        copy.verifier = ok->verifier;
        copy.partner->verifier.store(ok->verifier);
      } else if (result && result->status == rpc::nfs4::Status::NFS4ERR_ACCESS) {
        op->refused = Error{Errc::kFenced, "fenced at a partner"};
      }
      one_committed(op);
    });
  }
  commit_here(op);
}

void Duplicator::commit_here(const CommitPtr& op) {
  parts_.store.commit(op->handle.object, [this, op](Result<WriteVerifier> verifier) {
    const bool later = !verifier && verifier.error() == Errc::kBusy;
    if (later && parts_.clock.now() < op->deadline) {
      return after_rest([this, op] { commit_here(op); });
    }
    op->here = std::move(verifier);
    one_committed(op);
  });
}

void Duplicator::one_committed(const CommitPtr& op) {
  if (--op->left > 0) return;
  if (op->here->has_value()) return report_lost(op);
  failed_here(op);
}

// The client writes it all again: nothing is promised, and what is owed stays so. Where, depends on
// whether there is a copy to go on with.
void Duplicator::failed_here(const CommitPtr& op) {
  if (op->refused) return op->done(std::unexpected(std::move(*op->refused)));
  if (!failed_by_store(op->here->error()) || std::ranges::none_of(op->copies, &CopyPart::good)) {
    return op->done(std::move(*op->here));
  }
  ExtentSet all;
  all.add({0, kMaxEnd});
  mine().reports.report_own(op->handle.object, op->handle.ds_id, op->epoch, all,
                            [op](Result<> told) {
                              if (own_copy_told(std::move(told), op->refused)) {
                                return op->done(std::unexpected(std::move(*op->refused)));
                              }
                              op->done(std::move(*op->here));
                            });
}

// What a partner may lose, though the client will hear that it is durable.
void Duplicator::report_lost(const CommitPtr& op) {
  op->left = 1;
  for (std::size_t i = 0; i < op->copies.size(); ++i) {
    const CopyPart& copy = op->copies[i];
    ExtentSet lost = op->owed[i].unreported;
    if (!copy.good) lost.add(op->owed[i].uncommitted);
    if (lost.empty()) {
      book_.settled(op->handle.object, copy.ds_id, op->owed[i].generation);
      continue;
    }
    ++op->left;
    mine().reports.report(
        op->handle.object, copy.ds_id, {op->epoch, false}, lost, [this, op, i](Result<> reported) {
          if (reported) {
            book_.settled(op->handle.object, op->copies[i].ds_id, op->owed[i].generation);
          } else {
            op->refused = std::move(reported.error());
          }
          finish_commit(op);
        });
  }
  finish_commit(op);
}

void Duplicator::finish_commit(const CommitPtr& op) {
  if (--op->left > 0) return;
  if (op->refused) return op->done(std::unexpected(std::move(*op->refused)));
  op->done(combine(**op->here, verifiers_of(op->copies)));
}

}  // namespace weft::ds
