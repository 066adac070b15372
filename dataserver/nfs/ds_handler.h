// The operations of an NFSv4.1/4.2 data server: PUTFH, READ, WRITE, COMMIT; all else is NOTSUPP.
//
// What the session server does not do already (rpc/session/handler.h). The errors, chosen for what
// a Linux client makes of them:
//
//   PUTFH           BADHANDLE, STALE, ACCESS                      see handle_gate.h
//   without PUTFH   NOFILEHANDLE
//   READ            ACCESS with a handle for bringing writes only
//   WRITE, COMMIT   ACCESS with a handle for reading: the client drops that layout and asks again.
//                   OPENMODE would send it into state recovery, which cannot help
//   stateids        are not looked at: the handle is the right. A data server that refuses one
//   sends
//                   a flexfiles client into a loop without back-off
//   a fence         that came after PUTFH: ACCESS. It is looked for again when a WRITE or COMMIT
//                   begins and when a READ has its bytes, since a compound may take long; and each
//                   time before bytes of a file are given to the kernel for an answer that waits to
//                   be taken: the connection ends then, and the READ is refused when it comes again
//   a full disk     NOSPC; a failing one IO; FBIG
//   stopped         ACCESS, while the store is not there and the metadata server knows it; also for
//                   what began before and would be DELAY: asked again, it would be refused
//   no lease        DELAY, at PUTFH, and for a WRITE or COMMIT that the lease did not last for;
//                   but only after it was waited for (lease_wait.h)
//   out of touch    ACCESS for what would need the metadata server, or be DELAY (lease.h)
//
// READ's eof and zeros past the object's end come from the size the metadata server knows, or the
// object's end if that is larger (writes not yet committed). It is asked only when a client's read
// asks for more than the object has: one that ends just there is answered without eof, also at the
// file's end, so that reading small files costs no question. The metadata server's own reads end
// with the object, since it knows how to go on. A WRITE answered FILE_SYNC4 is reported to it first
// (size_authority.h).
//
// What concerns other copies goes by Duplication (duplication.h). Three kinds of handles are other
// data servers': writes through one of access mirror are no news to the metadata server, and it
// reads nothing; one of access fetch reads what is in the object and no more, NFS4ERR_NOENT when
// there is none; and so does one of access compare, but a READ of at most kMaxSumRange bytes is
// answered with the checksums of its blocks (store/block_sums.h).
//
// When memory is short, or the store says "later" for another reason, a read waits for it for
// kReadWait. Then it is answered DELAY; but if the store is the reason, or does not answer at all,
// and there is another copy, ACCESS: the own copy is left out, and the client asks for a layout
// that does not name it.
//
// Threading: called on I/O threads with an IoRing bound, any number at a time.
//
// Ownership: everything in Parts outlives the handler; the handler outlives its operations.
#pragma once

#include "dataserver/mirror/duplication.h"
#include "dataserver/nfs/counters.h"
#include "dataserver/nfs/handle_gate.h"
#include "dataserver/nfs/lease_wait.h"
#include "dataserver/nfs/size_authority.h"
#include "dataserver/ring/writes_in_flight.h"
#include "dataserver/store/store.h"
#include "rpc/base/clock.h"
#include "rpc/session/handler.h"

namespace weft::ds {

struct ObjectSums;
class SegmentStore;

class DsHandler final : public rpc::OpHandler {
 public:
  struct Parts {
    Store& store;
    HandleGate& gate;
    SizeAuthority& sizes;
    WritesInFlight& writes;
    Counters& counters;
    Clock& clock;
    // Null: no handle may name partners.
    Duplication* duplication = nullptr;
    // Null: without a lease the answer is DELAY at once.
    LeaseWait* lease_wait = nullptr;
    // For checksums. Null: none are given.
    BufferPool* pool = nullptr;
    // Is told what clients read. Null: nobody learns from it.
    SegmentStore* segments = nullptr;
  };
  static constexpr std::chrono::milliseconds kReadWait{10'000};

  explicit DsHandler(Parts parts) : parts_(parts) {}

  void execute(rpc::Compound& compound, rpc::nfs4::OpArgs op, rpc::OpDone done) override;
  [[nodiscard]] bool genuine(std::span<const std::byte> handle) const override {
    return parts_.gate.genuine(handle);
  }

 private:
  struct ReadJob;
  struct WriteJob;
  // A READ, WRITE or COMMIT that is being done.
  struct Begun {
    rpc::nfs4::Op op{};
    TimePoint at{};
    rpc::OpDone done;
  };

  void put_handle(rpc::Compound& compound, const rpc::nfs4::PutFhArgs& args, rpc::OpDone done);
  void handle_checked(rpc::Compound& compound, Result<layout::Handle> handle, rpc::OpDone done);
  // Calls back with the status that what this client did may be acknowledged with.
  void when_served(const layout::Handle& handle,
                   std::move_only_function<void(rpc::nfs4::Status)> then);
  void read(rpc::Compound& compound, const rpc::nfs4::ReadArgs& args, rpc::OpDone done);
  void read_store(std::unique_ptr<ReadJob> job);
  void read_for_partner(std::unique_ptr<ReadJob> job);
  void read_done(std::unique_ptr<ReadJob> job, Result<ReadResult> result);
  void reply_read(ReadJob& job, bool eof);
  void read_failed(std::unique_ptr<ReadJob> job, const Error& error);
  void reply_sums(std::unique_ptr<ReadJob> job);
  void send_sums(ReadJob& job, const ObjectSums& made);
  void read_past_end(std::unique_ptr<ReadJob> job);
  void read_later(std::unique_ptr<ReadJob> job, const Error& error);
  void write(rpc::Compound& compound, rpc::nfs4::WriteArgs args, rpc::OpDone done);
  void write_done(std::unique_ptr<WriteJob> job, Result<WriteResult> result);
  void tell_write(std::unique_ptr<WriteJob> job, const WriteResult& result);
  void finish_write(std::unique_ptr<WriteJob> job, const WriteResult& result);
  void commit(rpc::Compound& compound, const rpc::nfs4::CommitArgs& args, rpc::OpDone done);

  // What an operation with this handle is answered for an error of the store, or of a partner.
  [[nodiscard]] rpc::nfs4::Status status_of(const Error& error, const layout::Handle& handle) const;
  // Counts an operation, and as over again when it is answered.
  [[nodiscard]] Begun begin(rpc::nfs4::Op op, rpc::OpDone done);
  void answer(Begun& begun, rpc::nfs4::OpResult result);
  void fail_op(Begun& begun, rpc::nfs4::Status status);

  Parts parts_;
};

}  // namespace weft::ds
