// A small durable record: one file, or one slot of a file, that says whether it is whole.
//
//   u32 magic | u32 version | body | u64 XXH64 of all before
//
// Big-endian. A record that is a whole file is put in place with replace_file() (disk.h): written
// beside it, synced, renamed, and the folder synced, so that a crash leaves the old or the new one.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/xdr/xdr.h"

namespace weft::ds {

struct RecordKind {
  std::uint32_t magic;
  std::uint32_t oldest;  // versions that are read
  std::uint32_t newest;  // the version that is written
  const char* name;      // for people: "the group record"
};

class RecordWriter {
 public:
  explicit RecordWriter(const RecordKind& kind) {
    body.u32(kind.magic);
    body.u32(kind.newest);
  }
  // The record with its checksum. Nothing is written to the body after it.
  [[nodiscard]] std::vector<std::byte> seal();

  xdr::Encoder body;
};

struct RecordReader {
  std::uint32_t version;
  xdr::Decoder body;
  [[nodiscard]] bool whole() const { return body.ok() && body.remaining() == 0; }
};

// The body of a record whose magic, version and checksum are right. kNotSupported: its checksum is
// right, but its version is not one of these. kCorrupt: anything else. The reader refers to
// `bytes`.
[[nodiscard]] Result<RecordReader> open_record(std::span<const std::byte> bytes,
                                               const RecordKind& kind);
// The error for a body that nobody can have written.
[[nodiscard]] std::unexpected<Error> damaged(const RecordKind& kind);

}  // namespace weft::ds
