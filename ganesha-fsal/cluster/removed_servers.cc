#include "ganesha-fsal/cluster/removed_servers.h"

#include "ganesha-fsal/cluster/records.h"

namespace weft::mds {

std::string cluster_keys::removed_server(std::uint32_t ds_id) { return "Wr" + encode_u32(ds_id); }

void note_removed(Transaction& transaction, std::uint32_t ds_id) {
  transaction.put(cluster_keys::removed_server(ds_id), encode_u32(ds_id));
}

Result<bool> was_removed(const KvReader& store, std::uint32_t ds_id) {
  auto value = store.peek(cluster_keys::removed_server(ds_id));
  if (!value) return pass(value);
  return value->has_value();
}

}  // namespace weft::mds
