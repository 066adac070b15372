// One COMPOUND being executed by a SessionServer. Internal to rpc/session.
//
// A run decodes one operation at a time, answers session operations by itself (session_calls.h),
// gives the others to the OpHandler, and appends each result to the reply. An operation may
// complete at once or later; either way the next starts from the same loop, so that a chain of
// operations that complete at once does not recurse.
//
// Threading: the connection's I/O thread.
//
// Ownership: a run is owned by the completion it gave out (OpDone), by the loop, or, when it is one
// more of a request that runs already, by the session, until that one's reply is there. It ends
// with finish(), which sends the reply and gives the slot back. A handler that drops its completion
// uncalled breaks its promise: the slot stays in use, the request is never answered.
#pragma once

#include <memory>
#include <optional>

#include "rpc/session/server_connection.h"

namespace weft::rpc {

class CompoundRun {
 public:
  // `at` is where the operations begin in the record.
  static void start(std::shared_ptr<ServerConnection> connection, const CallHeader& call,
                    nfs4::CompoundHeader header, ReceivedRecord record, std::size_t at);
  ~CompoundRun();
  CompoundRun(const CompoundRun&) = delete;
  CompoundRun& operator=(const CompoundRun&) = delete;

 private:
  using Owner = std::unique_ptr<CompoundRun>;
  // Lets an operation that completes within execute() hand its result to the loop.
  struct Loop {
    Owner run;
    std::optional<nfs4::OpResult> result;
    bool abandoned = false;  // the completion was destroyed uncalled
  };
  struct Parked;

  CompoundRun(std::shared_ptr<ServerConnection> connection, const CallHeader& call,
              nfs4::CompoundHeader header, ReceivedRecord record, std::size_t at);

  static void go(Owner run);
  static void drive(Owner run);
  static void completed(Owner run, nfs4::OpResult result);
  static void finish(Owner run);

  // Waits for the reply to the same request, which runs. False: it is over, begin_sequence() anew.
  [[nodiscard]] static bool park(Owner& run);
  void answer_with(Message reply);

  // The first operation decides: SEQUENCE, or one that may stand alone.
  enum class Next : std::uint8_t {
    kDrive,   // on to the operations
    kFinish,  // the compound has its answer already
    kPark,    // it runs already: park()
  };
  [[nodiscard]] Next begin();
  [[nodiscard]] Next begin_sequence(const nfs4::SequenceArgs& args);
  void answer_alone(nfs4::OpArgs op);
  void answer_replay(ServerSession::Begun begun);
  // The answer to an operation that must not reach the handler; nothing when it may.
  [[nodiscard]] std::optional<nfs4::OpResult> answer_here(nfs4::OpArgs& op);
  [[nodiscard]] nfs4::OpArgs next_op();
  // Whether the reply still has room for the operation; caps a READ.
  [[nodiscard]] nfs4::Status make_room(nfs4::OpArgs& op);
  void append(nfs4::OpResult result);
  void reject() { connection_->core().rejected.fetch_add(1, std::memory_order_relaxed); }

  const std::shared_ptr<ServerConnection> connection_;
  const CallHeader call_;
  const nfs4::CompoundHeader header_;
  Buffer record_;                  // until it waits for the reply to another
  const std::size_t record_size_;  // with what came apart
  BulkApart apart_;                // until an operation takes it
  Buffer room_;                    // the caller's, for the answer
  const bool head_only_;           // the rest was thrown away
  xdr::Decoder in_;
  Compound compound_;
  std::shared_ptr<ServerSession> session_;  // set once the slot is ours
  std::shared_ptr<ServerSession> runs_in_;  // set when the request runs already
  std::optional<nfs4::Op> after_sequence_;  // the same, once record_ is gone
  nfs4::SequenceArgs sequence_;
  std::uint32_t started_ops_ = 0;
  std::uint32_t results_ = 0;
  nfs4::Status status_ = nfs4::Status::NFS4_OK;
  bool drop_ = false;  // send nothing
  Message reply_;
  std::size_t status_at_ = 0;  // where the status word stands in reply_
  std::size_t count_at_ = 0;
  Loop* loop_ = nullptr;
};

}  // namespace weft::rpc
