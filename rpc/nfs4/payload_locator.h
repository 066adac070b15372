// Where in a record its bulk data begins, told from the record's first bytes: the data of a WRITE
// call or of a READ reply, in the compounds that pNFS clients send (SEQUENCE, PUTFH, then the one);
// under which session it comes, and with which handle.
//
// A hint for where to place the record in memory, and whether to, nothing more: the codecs decide
// what it means.
//
// Threading: pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "rpc/nfs4/types.h"

namespace weft::rpc::nfs4 {

// The session that a COMPOUND call names first, told from the same bytes; nothing when there is
// none.
[[nodiscard]] std::optional<SessionId> locate_session(std::span<const std::byte> head);

// The file handle of such a WRITE, in `head`; nothing when the call is another, or it cannot be
// told.
[[nodiscard]] std::optional<std::span<const std::byte>> locate_handle(
    std::span<const std::byte> head);

// 0 when there is none, or it cannot be told. Fits transport's LocatePayload.
[[nodiscard]] std::size_t locate_payload(std::span<const std::byte> head);

}  // namespace weft::rpc::nfs4
