// RPC-over-RDMA version 1 on the wire (RFC 8166 section 4): what goes in front of an RPC message in
// an RDMA Send, and what both sides say when they connect (RFC 8797).
//
// A header is its Start, and for kMessage and kNoMessage the Chunks: memory of the requester's that
// the responder reads a call's bulk data from, or writes an answer's into. Decoders believe
// nothing: more chunks or segments than the limits below allow is an error, so that what one
// message makes us keep is bounded.
//
// Sizes are in bytes. Threading: values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::rdma {

constexpr std::uint32_t kVersion = 1;
constexpr std::uint16_t kPort = 20049;  // where NFS servers listen (RFC 8267 section 6)
// What each side takes inline from one that did not say more (RFC 8166 section 3.3.2).
constexpr std::size_t kLeastInline = 1024;
constexpr std::size_t kLeastMessage = 8;  // an RPC message's number and its direction

// The word at this place of an RPC message: its number at 0. Precondition: it is there.
[[nodiscard]] inline std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  xdr::Decoder in(bytes.subspan(at, 4));
  return in.u32();
}

// Of one header. A requester has at most one Read chunk for a call that is inline, and one more if
// the call comes in a chunk itself; NFS version 4 has one Write chunk for each READ, and a client
// of files has one READ in a request.
constexpr std::size_t kMaxReadChunks = 2;
constexpr std::size_t kMaxWriteChunks = 1;
constexpr std::size_t kMaxSegments = 128;  // of all its chunks

enum class Procedure : std::uint32_t {
  kMessage = 0,    // RDMA_MSG: the RPC message follows
  kNoMessage = 1,  // RDMA_NOMSG: it is in the Read chunk of position zero, or the Reply chunk
  kPadded = 2,     // RDMA_MSGP: obsolete
  kDone = 3,       // RDMA_DONE: obsolete
  kError = 4,      // RDMA_ERROR
};

struct Start {
  std::uint32_t xid = 0;
  std::uint32_t version = kVersion;
  std::uint32_t credits = 0;  // asked for, or granted
  std::uint32_t procedure = 0;
  friend bool operator==(const Start&, const Start&) = default;
};

// A run of remote memory.
struct Segment {
  std::uint32_t handle = 0;
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct Chunk {
  std::vector<Segment> segments;
  [[nodiscard]] std::uint64_t size() const;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// Bulk data that was taken out of the RPC message.
struct ReadChunk {
  std::uint32_t position = 0;  // in the whole message, in front of it
  Chunk chunk;
  friend bool operator==(const ReadChunk&, const ReadChunk&) = default;
};

struct Chunks {
  std::vector<ReadChunk> reads;  // positions ascend, and differ
  std::vector<Chunk> writes;
  std::optional<Chunk> reply;
  friend bool operator==(const Chunks&, const Chunks&) = default;
};

void encode(xdr::Encoder& out, const Start& start);
void encode(xdr::Encoder& out, const Chunks& chunks);
// Bytes that it takes on the wire.
[[nodiscard]] std::size_t encoded_size(const Chunks& chunks);
constexpr std::size_t kStartBytes = 16;

// Each reads on from where `in` is. kProtocol: bytes are missing, or make no header.
[[nodiscard]] Result<Start> decode_start(xdr::Decoder& in);
// kTooLarge: beyond a limit above. kProtocol also for segments that reach beyond the last address,
// and for read segments out of order.
[[nodiscard]] Result<Chunks> decode_chunks(xdr::Decoder& in);

// What follows the Start of kError (RFC 8166 section 4.5).
enum class Refused : std::uint32_t {
  kVersion = 1,  // ERR_VERS
  kChunk = 2,    // ERR_CHUNK: the header cannot be used, or the answer has no place
};
void encode(xdr::Encoder& out, Refused why);
// kProtocol for anything else.
[[nodiscard]] Result<Refused> decode_refused(xdr::Decoder& in);

// --- Private data of a connection ----------------------------------------------------------------

// What a side can send and receive inline. Sizes are whole KiB, 1 to 256 of them.
struct PrivateData {
  std::size_t send_bytes = kLeastInline;
  std::size_t receive_bytes = kLeastInline;
  bool remote_invalidation = false;  // it takes Sends that invalidate a handle of its own
  friend bool operator==(const PrivateData&, const PrivateData&) = default;
};
constexpr std::size_t kPrivateDataBytes = 8;

// Sizes are rounded down to whole KiB. Precondition: they are within the range.
[[nodiscard]] std::array<std::byte, kPrivateDataBytes> encode(const PrivateData& data);
// Nothing where the peer did not say, or something else: then the least sizes hold (RFC 8797
// section 5.1). Bytes behind are padding.
[[nodiscard]] std::optional<PrivateData> decode_private_data(std::span<const std::byte> bytes);

}  // namespace weft::rpc::rdma
