// Data servers that were removed from a metadata store that had come back from a backup. There a
// data server that the store does not know is taken for one that registered after the backup: not
// so one of these.
//
//   W 'r' ds_id:u32     it was removed: ds_id: u32
//
// Threading: that of the store.
#pragma once

#include <cstdint>
#include <string>

#include "ganesha-fsal/meta/kv/kv.h"
#include "rpc/base/error.h"

namespace weft::mds {

namespace cluster_keys {

[[nodiscard]] std::string removed_server(std::uint32_t ds_id);

}  // namespace cluster_keys

void note_removed(Transaction& transaction, std::uint32_t ds_id);
[[nodiscard]] Result<bool> was_removed(const KvReader& store, std::uint32_t ds_id);

}  // namespace weft::mds
