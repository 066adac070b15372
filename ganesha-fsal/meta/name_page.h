// A page of a file's extended attributes' names, for a caller who comes back for the next.
//
// Names are told in the order of a hash of them, and a page's cookie is the hash of its last: so
// names that come and go between two pages change nothing for the others. Those with one hash are
// on one page.
//
// Threading: a pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/base/error.h"

namespace weft::mds {

struct NamePage {
  std::vector<std::string> names;
  std::uint64_t cookie = 0;  // for the next page; 0 is the first's
  bool end = false;
};

struct NamePageLimits {
  std::size_t names = 0;
  std::size_t bytes = 0;  // of names as XDR has them
};

// kTooLarge: the first does not fit.
[[nodiscard]] Result<NamePage> name_page(std::vector<std::string> names, std::uint64_t cookie,
                                         const NamePageLimits& limits);

}  // namespace weft::mds
