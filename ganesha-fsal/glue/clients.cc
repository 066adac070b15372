#include "ganesha-fsal/glue/clients.h"

#include <spdlog/fmt/fmt.h>

#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/glue/guard.h"

namespace weft::mds {
namespace {

constexpr std::size_t kMaxOwnerBytes = 128;

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxOwnerBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

void add_client(rbt_node* node, void* argument) {
  auto& clients = *static_cast<std::map<ClientId, std::string>*>(argument);
  const auto* entry = static_cast<const hash_data*>(RBT_OPAQ(node));
  const auto& client = *static_cast<const nfs_client_id_t*>(entry->val.addr);
  if (client.cid_confirmed != CONFIRMED_CLIENT_ID) return;
  const nfs_client_record_t& record = *client.cid_client_record;
  const std::string owner =
      printable({record.cr_client_val, static_cast<std::size_t>(record.cr_client_val_len)});
  const gsh_client* host = client.gsh_client;
  clients[client.cid_clientid] =
      host == nullptr ? owner : fmt::format("{} ({})", host->hostaddr_str, owner);
}

}  // namespace

std::map<ClientId, std::string> nfs_clients() {
  std::map<ClientId, std::string> clients;
  if (ht_confirmed_client_id == nullptr) return clients;  // exports are made before it is
  hashtable_for_each(ht_confirmed_client_id, guarded<&add_client>, &clients);
  return clients;
}

}  // namespace weft::mds
