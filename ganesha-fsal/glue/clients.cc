#include "ganesha-fsal/glue/clients.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

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

// An IPv4 address as people write it: Ganesha's socket is of IPv6.
std::string_view address_of(const gsh_client& host) {
  constexpr std::string_view kMapped = "::ffff:";
  std::string_view text = host.hostaddr_str;
  if (text.starts_with(kMapped) && text.contains('.')) text.remove_prefix(kMapped.size());
  return text;
}

struct List {
  std::map<ClientId, NfsClient> clients;
  time_t now = 0;  // by Ganesha's clock of leases
};

void add_client(rbt_node* node, void* argument) {
  auto& list = *static_cast<List*>(argument);
  const auto* entry = static_cast<const hash_data*>(RBT_OPAQ(node));
  const auto& client = *static_cast<const nfs_client_id_t*>(entry->val.addr);
  if (client.cid_confirmed != CONFIRMED_CLIENT_ID) return;
  const nfs_client_record_t& record = *client.cid_client_record;
  const std::string owner =
      printable({record.cr_client_val, static_cast<std::size_t>(record.cr_client_val_len)});
  const gsh_client* host = client.gsh_client;
  // Requests under way hold the lease. What is read here is of no consequence.
  const bool asks = __atomic_load_n(&client.cid_lease_reservations, __ATOMIC_RELAXED) != 0;
  const time_t renewed = __atomic_load_n(&client.cid_last_renew, __ATOMIC_RELAXED);
  list.clients[client.cid_clientid] = {
      .address = host == nullptr ? "" : std::string(address_of(*host)),
      .owner = owner,
      .minor_version = client.cid_minorversion,
      .opens = __atomic_load_n(&client.cid_open_state_counter, __ATOMIC_RELAXED),
      .renewed = std::chrono::seconds(asks ? 0 : std::max<time_t>(0, list.now - renewed))};
}

}  // namespace

std::optional<layout::NetAddress> caller_address() {
  if (op_ctx == nullptr || op_ctx->client == nullptr) return std::nullopt;
  const auto address = layout::make_address(address_of(*op_ctx->client), 0);
  return address ? std::optional(*address) : std::nullopt;
}

std::map<ClientId, NfsClient> nfs_clients() {
  if (ht_confirmed_client_id == nullptr) return {};  // exports are made before it is
  List list{.clients = {}, .now = lease_time()};
  hashtable_for_each(ht_confirmed_client_id, guarded<&add_client>, &list);
  return std::move(list.clients);
}

NfsPlaces nfs_places() {
  nfs4_client_counts counts{};
  nfs4_count_clients(&counts);
  return {.clients = counts.clients,
          .most_clients = counts.most_clients,
          .sessions = counts.sessions,
          .most_sessions = counts.most_sessions};
}

}  // namespace weft::mds
