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

// The client that handles of the metadata server itself name (layout/handle.h), with its boot epoch
// as client epoch: with each run what earlier ones sent is fenced. No client has this id.
constexpr std::uint64_t kOwnClientId = UINT64_MAX;

}  // namespace weft::rpc::control
