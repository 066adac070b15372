// The operations of an NFSv4.1/4.2 data server: PUTFH, READ, WRITE, COMMIT; all else is NOTSUPP.
//
// What the session server does not do already (rpc/session/handler.h). The errors, chosen for what
// a Linux client makes of them:
//
//   PUTFH           BADHANDLE, STALE, ACCESS                      see handle_gate.h
//   without PUTFH   NOFILEHANDLE
//   WRITE, COMMIT   ACCESS with a handle for reading: the client drops that layout and asks again.
//                   OPENMODE would send it into state recovery, which cannot help
//   stateids        are not looked at: the handle is the right. A data server that refuses one
//   sends
//                   a flexfiles client into a loop without back-off
//   a full disk     NOSPC; a failing one IO; FBIG
//   no lease        DELAY, at PUTFH, and for a WRITE or COMMIT that the lease did not last for;
//                   but only after it was waited for (lease_wait.h)
//
// READ's eof and zeros past the object's end come from the size the metadata server knows, or the
// object's end if that is larger (writes not yet committed). It is asked only when a read reaches
// the object's end. A WRITE answered FILE_SYNC4 is reported to it first (size_authority.h).
//
// What concerns other copies goes by Duplication (duplication.h). A handle of access mirror is
// another data server's: it reads what is in the object and no more, NFS4ERR_NOENT when there is
// none, and its writes are no news to the metadata server. Through one of access compare a READ of
// at most kMaxSumRange bytes is answered with the checksums of its blocks (store/block_sums.h).
//
// When memory is short, a read waits a moment for it, and is answered DELAY after kMemoryWait.
//
// Threading: called on I/O threads with an IoRing bound, any number at a time.
//
// Ownership: everything in Parts outlives the handler; the handler outlives its operations.
#pragma once

#include "dataserver/nfs/counters.h"
#include "dataserver/nfs/duplication.h"
#include "dataserver/nfs/handle_gate.h"
#include "dataserver/nfs/lease_wait.h"
#include "dataserver/nfs/size_authority.h"
#include "dataserver/nfs/writes_in_flight.h"
#include "dataserver/store/store.h"
#include "rpc/base/clock.h"
#include "rpc/session/handler.h"

namespace weft::ds {

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
  };
  static constexpr std::chrono::milliseconds kMemoryWait{10'000};

  explicit DsHandler(Parts parts) : parts_(parts) {}

  void execute(rpc::Compound& compound, rpc::nfs4::OpArgs op, rpc::OpDone done) override;

 private:
  struct ReadJob;
  struct WriteJob;

  void put_handle(rpc::Compound& compound, const rpc::nfs4::PutFhArgs& args, rpc::OpDone done);
  void handle_checked(rpc::Compound& compound, const rpc::nfs4::FileHandle& bytes,
                      Result<layout::Handle> handle, rpc::OpDone done);
  // Calls back with the status that what this client did may be acknowledged with.
  void when_served(const layout::Handle& handle,
                   std::move_only_function<void(rpc::nfs4::Status)> then);
  void read(rpc::Compound& compound, const rpc::nfs4::ReadArgs& args, rpc::OpDone done);
  void read_store(std::unique_ptr<ReadJob> job);
  void read_for_partner(std::unique_ptr<ReadJob> job);
  void read_done(std::unique_ptr<ReadJob> job, Result<ReadResult> result);
  void read_failed(ReadJob& job, const Error& error);
  void reply_sums(std::unique_ptr<ReadJob> job);
  void read_past_end(std::unique_ptr<ReadJob> job, std::uint64_t file_size);
  void wait_for_memory(std::unique_ptr<ReadJob> job);
  void write(rpc::Compound& compound, rpc::nfs4::WriteArgs args, rpc::OpDone done);
  void write_done(std::unique_ptr<WriteJob> job, Result<WriteResult> result);
  void tell_write(std::unique_ptr<WriteJob> job, const WriteResult& result);
  void finish_write(std::unique_ptr<WriteJob> job, const WriteResult& result);
  void commit(rpc::Compound& compound, const rpc::nfs4::CommitArgs& args, rpc::OpDone done);

  // Counts the operation as over and answers with an error.
  void fail_op(rpc::nfs4::Op op, rpc::nfs4::Status status, rpc::OpDone& done);

  Parts parts_;
};

}  // namespace weft::ds
