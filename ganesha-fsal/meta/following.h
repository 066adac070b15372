// Which files come after one in its directory: what a client that goes through the directory opens
// next.
//
// Threading: any thread. Nothing is locked, so what is returned may be outdated at once: it is for
// guesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

enum class FileOrder : std::uint8_t {
  kListing,  // as the directory is listed (READDIR)
  kNames,    // by the bytes of the names
  kNumbers,  // by the last number in the name, without a gap: img9.png, img10.png
};

struct NamedFile {
  std::string name;
  FileId id = 0;
  friend bool operator==(const NamedFile&, const NamedFile&) = default;
};

// The regular files after the entry `name` of `dir`, in this order, at most `limit` entries of any
// type away. None if there is no such entry.
[[nodiscard]] Result<std::vector<NamedFile>> files_after(const KvReader& store, FileId dir,
                                                         std::string_view name, FileOrder order,
                                                         std::size_t limit);

// "img10.png" of "img9.png", "a010" of "a009"; empty if there is no number of at most 18 digits.
[[nodiscard]] std::string next_in_numbers(std::string_view name);

}  // namespace weft::mds
