// Records between a data server and a target (messages.h) by RDMA: Channels over those of RPC over
// RDMA (rpc/transport/rdma), which know calls and their answers alone.
//
// A call is a number of its own and a request, its answer that number and the response. The
// target's Challenge answers a first call, which is a number and a word of zero. A response answers
// the oldest call with its operation and tag; a Hello, whose response has another tag, is one of
// its kind. A WRITE's data that is too large to go inline, and a READ's, come apart
// (rpc::ReceivedRecord).
//
// Threading and ownership: channel.h; each owns the channel beneath it.
#pragma once

#include <memory>

#include "rpc/transport/channel.h"

namespace weft::ds {

// The data server's end, over a channel that calls (rdma/client_channel.h).
[[nodiscard]] std::shared_ptr<rpc::Channel> call_by_rdma(std::shared_ptr<rpc::Channel> calling);
// The target's end, over one that answers (rdma/server_channel.h). What is sent first is the
// Challenge.
[[nodiscard]] std::shared_ptr<rpc::Channel> answer_by_rdma(std::shared_ptr<rpc::Channel> answering);

}  // namespace weft::ds
