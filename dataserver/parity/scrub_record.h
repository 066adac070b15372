// What is kept of a parity group's scrub: how far one is that goes on, when the last ended, and
// what it found. File `parity-scrub` of the data server's folder, replaced as a whole.
//
//   u32 0x57505353 | u32 version 1 | u32 1 if one goes on, otherwise 0 | u32 1 if it changes
//   nothing, otherwise 0 | u64 seconds since 1970 when the last ended | u64 objects gone through |
//   u32 folder | u32 0 | object | u64 bytes | u64 corrupt | u64 parity | u64 lost | u64 failed |
//   u64 XXH64 of all before
//
// object: u64 fileid | u32 generation | u32 fsid. Folder and object are the place (ListPlace) up to
// which it has gone through everything; the numbers after it are ScrubFindings. Big-endian. Nothing
// depends on the file: without it, or with one that is damaged, the next scrub begins anew.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataserver/store/store.h"
#include "rpc/base/error.h"

namespace weft::ds {

// Of one scrub.
struct ScrubFindings {
  std::uint64_t bytes = 0;    // gone through, at all members together
  std::uint64_t corrupt = 0;  // blocks or checksums that were wrong, and headers of objects
  std::uint64_t parity = 0;   // blocks of parity that did not fit the data
  std::uint64_t lost = 0;     // blocks that cannot be computed: another of their row is bad
  std::uint64_t failed = 0;   // parts of objects that could not be looked at
  friend bool operator==(const ScrubFindings&, const ScrubFindings&) = default;
};

struct ScrubRecord {
  static constexpr std::size_t kBytes = 104;
  bool running = false;
  bool only_tell = false;
  std::uint64_t ended = 0;
  std::uint64_t done = 0;
  ListPlace place;
  ScrubFindings found;
};

[[nodiscard]] std::vector<std::byte> encode(const ScrubRecord& record);
// kCorrupt for anything encode() cannot have made; kNotSupported for another version.
[[nodiscard]] Result<ScrubRecord> decode_scrub_record(std::span<const std::byte> bytes);

}  // namespace weft::ds
