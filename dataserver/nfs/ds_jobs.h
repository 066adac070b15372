// What the parts of DsHandler share: the READs and WRITEs in progress.
//
// Threading: a job belongs to the I/O thread that its operation came on.
#pragma once

#include "dataserver/nfs/ds_handler.h"

namespace weft::ds {

struct DsHandler::ReadJob {
  layout::Handle handle;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;   // what the reply may hold at most
  bool for_partner = false;  // another data server's
  bool sums = false;         // of the bytes, in their place
  bool to_memory = false;    // StoreRead::to_memory
  Begun op;
  ReadResult result;
  std::optional<std::uint64_t> file_size;  // once the metadata server said it
  TimePoint deadline{};                    // once it waits for what the store needs
};

struct DsHandler::WriteJob {
  layout::Handle handle;
  std::uint64_t end = 0;  // the first byte after the write
  WritesInFlight::Token token;
  Begun op;
};

// The handle PUTFH left in the compound, or null.
[[nodiscard]] const layout::Handle* current_object(const rpc::Compound& compound);

}  // namespace weft::ds
