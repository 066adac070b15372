// What a metadata server calls its run (Registered::mds_boot): its boot epoch, which grows with
// each start over the same metadata, above a number that it draws, by which copies of the metadata
// differ. A data server follows none with a lower epoch, nor another with the same, any more.
#pragma once

#include <cstdint>

namespace weft::rpc::control {

[[nodiscard]] constexpr std::uint64_t mds_boot(std::uint64_t epoch, std::uint32_t drawn) {
  return epoch << 32 | drawn;
}
[[nodiscard]] constexpr std::uint64_t epoch_of(std::uint64_t mds_boot) { return mds_boot >> 32; }

}  // namespace weft::rpc::control
