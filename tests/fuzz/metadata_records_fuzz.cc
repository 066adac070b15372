// The metadata store's values and keys. The first byte chooses the decoder; what decodes must
// encode to the same bytes, or the store would change what it only read.
#include <algorithm>
#include <string>

#include "ganesha-fsal/meta/schema/journal.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "ganesha-fsal/meta/schema/records.h"
#include "rpc/base/assert.h"

using namespace weft::mds;

namespace {

// XDR padding may hold anything and is written as zeros, so compare what the second round gives.
template <class Decode>
void value(std::string_view input, Decode decode) {
  const auto record = decode(input);
  if (!record) return;
  const auto again = decode(encode(*record));
  WEFT_ASSERT(again && encode(*again) == encode(*record));
}

void key(std::string_view input) {
  if (const auto at = keys::parse_number(keys::Prefix::kInode, input)) {
    WEFT_ASSERT(keys::inode(at->id) == input);
  }
  if (const auto at = keys::parse_named(keys::Prefix::kEntry, input)) {
    WEFT_ASSERT(keys::entry(at->id, at->name) == input);
  }
  if (const auto at = keys::parse_cookie(input)) {
    WEFT_ASSERT(keys::cookie(at->dir, at->cookie) == input);
  }
  if (const auto at = keys::parse_reverse(input)) {
    WEFT_ASSERT(keys::reverse(at->ds_id, at->id, at->generation) == input);
  }
  if (const auto at = keys::parse_removal(input)) {
    WEFT_ASSERT(keys::removal(at->id, at->generation) == input);
  }
  if (const auto at = keys::parse_writers(input)) {
    WEFT_ASSERT(keys::writers(at->id) == input);
  }
  if (const auto at = keys::parse_stale(input)) {
    WEFT_ASSERT(keys::stale(at->ds_id, at->id, at->copy) == input);
  }
  if (const auto at = keys::parse_move(input)) {
    WEFT_ASSERT(keys::move(at->id) == input);
  }
}

// Any extents added in any order stay well-formed, and what was added is in them.
void dirty(std::string_view input) {
  DirtyExtents extents;
  for (; input.size() >= 4; input.remove_prefix(4)) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
    const std::uint64_t offset =
        (std::uint64_t{byte(0)} << 55 | std::uint64_t{byte(1)} << 20) + byte(2);
    const std::uint64_t end = std::min(kMaxFileSize, offset + (std::uint64_t{byte(3)} << 12) + 1);
    if (offset >= end) continue;
    add_dirty(extents, {offset, end});
    WEFT_ASSERT(well_formed(extents));
    WEFT_ASSERT(std::ranges::any_of(extents, [&](const DirtyExtent& extent) {
      return extent.offset <= offset && end <= extent.end;
    }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 17) {
    case 0: value(rest, decode_inode); break;
    case 1: value(rest, decode_entry); break;
    case 2: value(rest, decode_cookie); break;
    case 3: value(rest, decode_parent); break;
    case 4: value(rest, decode_truncate); break;
    case 5: value(rest, decode_removal); break;
    case 6: value(rest, decode_superblock); break;
    case 9: value(rest, decode_writers); break;
    case 10: value(rest, decode_stale); break;
    case 11: dirty(rest); break;
    case 12: value(rest, decode_policy); break;
    case 13: value(rest, decode_move); break;
    case 14: value(rest, decode_inline); break;
    case 15: value(rest, decode_restore); break;
    case 16: value(rest, decode_restored); break;
    case 7: static_cast<void>(decode_counter(rest)); break;
    default: key(rest);
  }
  return 0;
}
