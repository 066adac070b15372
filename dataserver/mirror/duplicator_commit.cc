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
  commit_copies(handle, std::move(done)).start();
}

Flow Duplicator::commit_copies(layout::Handle handle, Store::Done<WriteVerifier> done) {
  const Flow::Self self = co_await Flow::self();
  const TimePoint deadline = parts_.clock.now() + parts_.options.timeout;
  if (handle.duplication != layout::Duplication::kServerSync) {
    // What was answered early is at the partners, or recorded as missed, when this is granted.
    static_cast<void>(co_await call<RangeLocks::Hold>(self, [&](auto granted) {
      locks_.acquire(handle.object, {0, kMaxEnd}, std::move(granted));
    }));
  }
  CommitOp op{.handle = handle,
              .copies = {},
              .owed = {},
              .own = book_.owed(handle.object, handle.ds_id),
              .here = 0,
              .refused = {}};
  for (const std::uint32_t id : handle.partners) {
    if (id == 0) continue;
    op.copies.emplace_back(id, partners_.find(id));
    op.owed.push_back(book_.owed(handle.object, id));
  }
  // The partners and the own store commit at the same time.
  Callbacks answers(self);
  for (CopyPart& copy : op.copies) {
    if (copy.sent) ask_partner(op, copy, answers);
  }
  op.here = co_await commit_here(handle.object, deadline, self);
  co_await answers;
  if (op.here) {
    done(co_await report_lost(op, self));
  } else {
    done(co_await failed_here(op, self));
  }
}

void Duplicator::ask_partner(CommitOp& op, CopyPart& copy, Callbacks& answers) {
  const auto sealed = seal(layout::mirror_handle(op.handle, copy.ds_id));
  PartnerLink::Ops ops;
  ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(sealed)}});
  ops.push_back({Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
  link(copy.ds_id)
      .patient_call(std::move(ops), answers.make([&op, &copy](Result<CompoundResult> result) {
        if (const auto* ok = result ? result->get<rpc::nfs4::CommitOk>(1) : nullptr) {
          copy.good = true;
          copy.verifier = ok->verifier;
          copy.partner->saw_verifier(ok->verifier);
        } else if (result && result->status == rpc::nfs4::Status::NFS4ERR_ACCESS) {
          op.refused = Error{Errc::kFenced, "fenced at a partner"};
        }
      }));
}

// "Later" is asked again, for as long as a partner has to answer.
Task<Result<WriteVerifier>> Duplicator::commit_here(layout::ObjectId object, TimePoint deadline,
                                                    Flow::Self self) {
  for (;;) {
    auto here = co_await call<Result<WriteVerifier>>(
        self, [&](auto committed) { parts_.store.commit(object, std::move(committed)); });
    const bool later = !here && here.error() == Errc::kBusy;
    if (!later || parts_.clock.now() >= deadline) co_return here;
    co_await call(self, [this](auto then) { after_rest(std::move(then)); });
  }
}

// The client writes it all again: nothing is promised, and what is owed stays so. Where, depends on
// whether there is a copy to go on with.
Task<Result<WriteVerifier>> Duplicator::failed_here(CommitOp& op, Flow::Self self) {
  if (op.refused) co_return std::unexpected(std::move(*op.refused));
  if (!failed_by_store(op.here.error()) || std::ranges::none_of(op.copies, &CopyPart::good)) {
    co_return std::move(op.here);
  }
  ExtentSet all;
  all.add({0, kMaxEnd});
  Result<> told = co_await call<Result<>>(self, [&](auto done) {
    mine().reports.report_own(op.handle.object, op.handle.ds_id, op.handle.object_epoch, all,
                              std::move(done));
  });
  if (own_copy_told(std::move(told), op.refused)) {
    if (*op.refused == Errc::kBusy) {
      book_.add_unreported(op.handle.object, op.handle.ds_id, {0, kMaxEnd});
    }
    co_return std::unexpected(std::move(*op.refused));
  }
  co_return std::move(op.here);
}

// The own store failed earlier, and the metadata server could not be told.
Task<bool> Duplicator::report_behind(CommitOp& op, Flow::Self self) {
  Result<> told = co_await call<Result<>>(self, [&](auto done) {
    mine().reports.report_own(op.handle.object, op.handle.ds_id, op.handle.object_epoch,
                              op.own.unreported, std::move(done));
  });
  if (!own_copy_told(std::move(told), op.refused)) co_return true;
  if (*op.refused == Errc::kFenced) {
    book_.settled(op.handle.object, op.handle.ds_id, op.own.generation);
  }
  co_return false;
}

// What a copy lacks or may lose, though the client will hear that it is durable. If the copy here
// is behind, and cannot be left out, it is as with a write: the partners have too much.
Task<Result<WriteVerifier>> Duplicator::report_lost(CommitOp& op, Flow::Self self) {
  const bool behind = !op.own.unreported.empty();
  if (behind && !co_await report_behind(op, self)) {
    co_return std::unexpected(std::move(*op.refused));
  }
  Callbacks reports(self);
  for (std::size_t i = 0; i < op.copies.size(); ++i) {
    const std::uint32_t id = op.copies[i].ds_id;
    ExtentSet lost = op.owed[i].unreported;
    lost.add(op.own.unreported);
    if (!op.copies[i].good) lost.add(op.owed[i].uncommitted);
    if (lost.empty()) {
      book_.settled(op.handle.object, id, op.owed[i].generation);
      continue;
    }
    mine().reports.report(op.handle.object, id, {op.handle.object_epoch, behind}, lost,
                          reports.make([this, &op, i, id](Result<> reported) {
                            if (reported) {
                              book_.settled(op.handle.object, id, op.owed[i].generation);
                            } else {
                              op.refused = std::move(reported.error());
                            }
                          }));
  }
  co_await reports;
  if (op.refused) co_return std::unexpected(std::move(*op.refused));
  if (behind) book_.settled(op.handle.object, op.handle.ds_id, op.own.generation);
  co_return combine(*op.here, verifiers_of(op.copies));
}

}  // namespace weft::ds
