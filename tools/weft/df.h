// How much room there is, by failure domain, and for files with one, two or three copies.
//
// Threading: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "rpc/xdr/describe_json.h"

namespace weft::cli {

// Of data servers that serve and are not being left. The others are counted only.
struct DomainSpace {
  std::string name;  // empty: of servers that say none
  std::uint32_t servers = 0;
  std::uint32_t away = 0;  // that do not count
  std::uint64_t free_bytes = 0;
  std::uint64_t capacity_bytes = 0;
};
// Of files with so many copies, each at another data server: in another failure domain as far as
// there are enough.
struct CopiesSpace {
  std::uint64_t free_bytes = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t apart_bytes = 0;  // free, with each copy in another domain
};
struct SpaceReport {
  std::vector<DomainSpace> domains;  // by name
  std::array<CopiesSpace, 3> copies;
};

[[nodiscard]] SpaceReport space_of(const std::vector<mds::DataServerReport>& servers);
[[nodiscard]] std::string space_text(const SpaceReport& space);
[[nodiscard]] Json space_json(const SpaceReport& space);

}  // namespace weft::cli
