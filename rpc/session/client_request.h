// One call of a SessionClient, from call() to its completion. Internal to rpc/session.
//
// The call is encoded once; what depends on slot and session (the xid and SEQUENCE's arguments) is
// patched in each time it is given a slot. The message is kept until the answer comes, since a lost
// connection means sending exactly the same bytes again.
//
// Threading: the client's I/O thread, but for make_request(), which any thread may call.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/nfs4/compound.h"
#include "rpc/onc/auth.h"
#include "rpc/onc/message.h"
#include "rpc/session/session_client.h"

namespace weft::rpc {

struct ClientRequest {
  using Time = std::chrono::steady_clock::time_point;

  Message message;
  std::size_t sequence_at = 0;  // where SEQUENCE's arguments begin in message.bytes()
  CallOptions options;
  SessionClient::Done done;  // empty once the caller has been answered (deadline passed)
  Time expires;
  Time sent_at{};
  std::uint32_t xid = 0;
  std::uint32_t slot = 0;
  std::uint32_t sends = 0;  // transmissions under the present session
  bool closing = false;     // a lone SEQUENCE has taken the operations' place (RFC 8881 2.10.6.1)
  bool internal = false;    // RECLAIM_COMPLETE, keep-alive: may go before the session is ready
  std::size_t connection = SIZE_MAX;  // it was sent over; SIZE_MAX: must be sent (again)

  // Nobody waits for the answer.
  [[nodiscard]] bool given_up() const { return !done || options.give_up.stop_requested(); }
  void complete(Result<nfs4::CompoundResult> result) {
    options.unsettled.reset();
    if (done) std::exchange(done, nullptr)(std::move(result));
  }
};

[[nodiscard]] ClientRequest make_request(const SessionClientOptions& client,
                                         std::vector<nfs4::OpArgs> ops, CallOptions options,
                                         SessionClient::Done done,
                                         const Clock& clock = system_clock());
// Puts a lone SEQUENCE in the place of the operations, to be addressed as the request was.
void make_closing(ClientRequest& request, const SessionClientOptions& client);
// Writes xid and SEQUENCE's arguments into the message.
void address_request(ClientRequest& request, const nfs4::SequenceArgs& sequence);

}  // namespace weft::rpc
