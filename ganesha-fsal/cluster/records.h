// What the cluster part keeps in the metadata store: keys and values.
//
//   S ds_id:u32                         ServerRecord
//   D number:u64                        layout::Device (layout/device_table.h)
//   W 'd'                               the device ids' salt: u32
//   W 'l'                               the longest lease data servers were ever given, s: u32
//   W 's'                               what file handles of exports are sealed with: 16 bytes
//   W 'n'                               the next data server id: u32
//   W 'f' ds_id:u32 what:u8 object|client   a fence not acknowledged: control::Fence
//
// Numbers are big-endian. A ServerRecord is XDR: u32 format (4) | u32 id | 16 bytes store identity
// | string name | string domain | u32 address generation | addresses<8> as netaddr4 | u32
// duty | bool, and if true the state its store was accepted in last (state: u64 generation, u64
// boot) | bool, and if true the state before that | u32 review | if that is not 0, the state it is
// about | addresses<8> by RDMA | networks<8> of clients, at least one. Without networks it is of
// format 3, which has at least one address by RDMA and ends there; without these, too, of format 2,
// which ends before them. Format 1, which ends with the duty, is read.
//
// Threading: plain values and pure functions. Decoding believes nothing: kCorrupt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/client_network.h"
#include "layout/net_address.h"
#include "rpc/base/error.h"
#include "rpc/control/messages.h"

namespace weft::mds {

namespace control = weft::rpc::control;

// What an operator wants of a data server.
enum class Duty : std::uint32_t {
  kServing = 0,
  kDraining = 1,  // nothing new there, and what is there moves elsewhere
  kRemoving = 2,  // the same, and when nothing is left it is forgotten
};

[[nodiscard]] std::string_view to_string(Duty duty);

// The states of a data server's store that are accepted (docs/protocol.md, "A store's history").
struct StoreHistory {
  control::StoreState accepted;
  std::optional<control::StoreState> before;  // until the store has noted `accepted`

  friend bool operator==(const StoreHistory&, const StoreHistory&) = default;
};

// A store came in another state than those, and is refused until it is admitted.
enum class Review : std::uint32_t {
  kNone = 0,
  kTakeAsIs = 1,  // an administrator says that it is to be used, whatever it lacks
  kAdmitted = 2,  // every copy it holds is stale, or is taken as it is
};

struct ServerRecord {
  std::uint32_t id = 0;
  control::Uuid store{};
  std::string name;
  std::string domain;
  std::uint32_t address_generation = 1;  // counted up when the addresses change
  std::vector<layout::NetAddress> addresses;
  Duty duty = Duty::kServing;
  std::optional<StoreHistory> history;  // nullopt: whatever comes next is accepted, and remembered
  Review review = Review::kNone;
  control::StoreState reviewed;          // of the store that the review is about
  std::vector<layout::NetAddress> rdma;  // as `addresses`
  std::vector<layout::ClientNetwork> networks;

  friend bool operator==(const ServerRecord&, const ServerRecord&) = default;
};

// What clients are told unless there are networks, preferred first: RDMA before TCP, since those
// without it pass it over.
[[nodiscard]] std::vector<layout::DeviceAddress> clients_addresses(const ServerRecord& record);

[[nodiscard]] std::string encode(const ServerRecord& record);
[[nodiscard]] Result<ServerRecord> decode_server(std::string_view value);

[[nodiscard]] std::string encode(const control::Fence& fence);
[[nodiscard]] Result<control::Fence> decode_fence(std::string_view value);

[[nodiscard]] std::string encode_u32(std::uint32_t value);
[[nodiscard]] Result<std::uint32_t> decode_u32(std::string_view value);

// Whether a key that begins with S or W, and its value, are one of the above. kCorrupt;
// kNotSupported: of a later format.
[[nodiscard]] Result<> check_record(std::string_view key, std::string_view value);

namespace cluster_keys {

[[nodiscard]] std::string server(std::uint32_t ds_id);
[[nodiscard]] std::string device(std::uint64_t number);
[[nodiscard]] std::string device_salt();
[[nodiscard]] std::string next_server();
[[nodiscard]] std::string longest_lease();
[[nodiscard]] std::string seal_key();
[[nodiscard]] std::string fence(std::uint32_t ds_id, const control::Fence& fence);

struct KeyRange {
  std::string begin;
  std::string end;
};
[[nodiscard]] KeyRange all_servers();
[[nodiscard]] KeyRange all_devices();
[[nodiscard]] KeyRange fences_of(std::uint32_t ds_id);

}  // namespace cluster_keys

}  // namespace weft::mds
