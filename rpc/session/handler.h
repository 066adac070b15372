// What a server plugs into a SessionServer: the operations that follow SEQUENCE.
//
// The session server reads records, checks RPC and compound headers, does every session operation
// by itself, and hands each other operation to an OpHandler, one at a time and in order: the next
// operation of a compound comes only after the one before was answered NFS4_OK. Compounds of
// different slots run at the same time.
//
// What the session server has done already, so a handler need not: PROG/PROC errors, minor version,
// the exactly-once rule (execute() is never called twice for a retransmission), NFS4ERR_BADXDR,
// NFS4ERR_OP_ILLEGAL, too many operations, request and reply size limits: a READ's count is capped
// to what the session's reply size leaves (Compound::max_read) before execute().
//
// Threading: execute() is called on the I/O thread of the connection; `done` must be called exactly
// once on that same thread, within execute() or later. Compounds of one client may come over
// several connections and so on several threads at once. A handler is shared by all threads and
// outlives the server.
//
// Ownership: `compound` stays valid until `done` has been called.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "rpc/nfs4/compound.h"
#include "rpc/onc/auth.h"

namespace weft::rpc {

// What is known of a client, constant after CREATE_SESSION.
struct ClientInfo {
  nfs4::ClientId id = 0;
  std::string owner;      // co_ownerid, printable characters only
  std::string impl_name;  // EXCHANGE_ID's implementation name ("Linux 6.1.0 ...")
  std::string principal;  // whom CREATE_SESSION was made by
  bool server = false;    // it has shown that it is one of the system's servers
};

// The state of one COMPOUND while its operations run.
struct Compound {
  std::uint32_t minor_version = 1;
  std::uint32_t uid = kNobody;  // from AUTH_SYS: a claim, not a proof
  std::uint32_t gid = kNobody;
  const ClientInfo* client = nullptr;  // never null in execute(); valid until `done`
  std::size_t max_read = 0;            // bytes of data that still fit into the reply
  bool sends_files = true;             // the connection sends file ranges without reading them
  bool shows_right =
      false;         // set by the handler: the client has a right, and so it keeps its place
  std::any scratch;  // what the handler keeps between operations (PUTFH)
};

using OpDone = std::move_only_function<void(nfs4::OpResult)>;

class OpHandler {
 public:
  OpHandler() = default;
  OpHandler(const OpHandler&) = delete;
  OpHandler& operator=(const OpHandler&) = delete;
  virtual ~OpHandler() = default;

  // op.args is never UnknownArgs nor a session operation. Answer what you do not do with
  // failed(op.op, NFS4ERR_NOTSUPP). The result's op must be op.op.
  virtual void execute(Compound& compound, nfs4::OpArgs op, OpDone done) = 0;

  // Whether PUTFH may take this handle, as far as that can be told at a glance, on any thread: what
  // a WRITE brings is not received if it may not. execute() decides.
  [[nodiscard]] virtual bool genuine(std::span<const std::byte> /*handle*/) const { return true; }

  // The operation is defined by the protocol but not by our codecs: the answer is its status.
  [[nodiscard]] virtual nfs4::Status unknown(std::uint32_t /*op*/) {
    return nfs4::Status::NFS4ERR_NOTSUPP;
  }
};

}  // namespace weft::rpc
