// READ, WRITE and COMMIT (RFC 8881 sections 18.22, 18.32, 18.3), which carry the bulk data.
//
// Their bytes are never copied here. WRITE's arguments decode to slices of the record they came
// in (Buffer::share), READ's reply likewise on the client; on the way out both become splices of a
// Message. So their codecs take the Message, and the record that the Decoder reads.
//
// Precondition of the two decoders that share: the Decoder reads exactly record.span().
//
// Threading: values; see buffer.h for what shared slices allow.
#pragma once

#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/bulk_apart.h"
#include "rpc/base/piped_bytes.h"
#include "rpc/nfs4/codec.h"
#include "rpc/onc/message.h"

namespace weft::rpc::nfs4 {

struct ReadArgs {
  Stateid stateid;
  std::uint64_t offset = 0;  // bytes
  std::uint32_t count = 0;   // bytes
  friend bool operator==(const ReadArgs&, const ReadArgs&) = default;
};

struct ReadOk {
  bool eof = false;
  Payload data;
};

struct WriteArgs {
  Stateid stateid;
  std::uint64_t offset = 0;
  StableHow stable = StableHow::UNSTABLE4;
  std::vector<Buffer> data;  // in order; after decoding one element or what was lent, none if empty
  PipedBytes piped;          // or this, and no data: only at a server whose channels pipe
  [[nodiscard]] std::size_t size() const;
  // Moves piped bytes to `data`.
  [[nodiscard]] Result<> to_memory();
};

struct WriteOk {
  std::uint32_t count = 0;
  StableHow committed = StableHow::UNSTABLE4;
  Verifier verifier = 0;
  friend bool operator==(const WriteOk&, const WriteOk&) = default;
};

struct CommitArgs {
  std::uint64_t offset = 0;
  std::uint32_t count = 0;  // 0: to the end
  friend bool operator==(const CommitArgs&, const CommitArgs&) = default;
};

struct CommitOk {
  Verifier verifier = 0;
  friend bool operator==(const CommitOk&, const CommitOk&) = default;
};

void encode(xdr::Encoder& out, const ReadArgs& args);
void decode(xdr::Decoder& in, ReadArgs& args);
void encode(Message& out, ReadOk ok);  // takes the data over
void decode(xdr::Decoder& in, const Buffer& record, ReadOk& ok);
void encode(Message& out, WriteArgs args);
void decode(xdr::Decoder& in, const Buffer& record, WriteArgs& args);
// Of data that is apart, and is taken: the Decoder ends behind the data's length.
void decode(xdr::Decoder& in, BulkApart& apart, WriteArgs& args);
void decode(xdr::Decoder& in, BulkApart& apart, ReadOk& ok);
void encode(xdr::Encoder& out, const WriteOk& ok);
void decode(xdr::Decoder& in, WriteOk& ok);
void encode(xdr::Encoder& out, const CommitArgs& args);
void decode(xdr::Decoder& in, CommitArgs& args);
void encode(xdr::Encoder& out, const CommitOk& ok);
void decode(xdr::Decoder& in, CommitOk& ok);

}  // namespace weft::rpc::nfs4
