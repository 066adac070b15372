#include "ganesha-fsal/cluster/records.h"

#include <span>

#include "ganesha-fsal/cluster/removed_servers.h"
#include "layout/handle.h"
#include "rpc/xdr/xdr.h"

namespace weft::mds {
namespace {

constexpr std::uint32_t kServerFormat = 4;
constexpr std::uint32_t kFormatWithoutNetworks = 3;
constexpr std::uint32_t kFormatWithoutRdma = 2;
constexpr std::uint32_t kFormatWithoutHistory = 1;

std::span<const std::byte> bytes_of(std::string_view value) {
  return std::as_bytes(std::span(value));
}

std::string text_of(const xdr::Encoder& out) {
  const auto bytes = out.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put_big_endian(std::string& key, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) key += static_cast<char>(value >> (8 * i) & 0xff);
}

// The least key that is greater than every key that begins with `prefix`.
std::string past(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

void put(xdr::Encoder& out, const control::StoreState& state) {
  out.u64(state.generation);
  out.u64(state.boot);
}

control::StoreState get_state(xdr::Decoder& in) {
  control::StoreState state;
  state.generation = in.u64();
  state.boot = in.u64();
  return state;
}

void put_addresses(xdr::Encoder& out, const std::vector<layout::NetAddress>& addresses) {
  out.u32(static_cast<std::uint32_t>(addresses.size()));
  for (const auto& address : addresses) xdr::put(out, address);
}

std::vector<layout::NetAddress> get_addresses(xdr::Decoder& in) {
  std::vector<layout::NetAddress> addresses;
  const std::uint32_t count = in.count(control::kMaxAddresses);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) xdr::get(in, addresses.emplace_back());
  return addresses;
}

void put_history(xdr::Encoder& out, const ServerRecord& record) {
  out.boolean(record.history.has_value());
  if (record.history) {
    put(out, record.history->accepted);
    out.boolean(record.history->before.has_value());
    if (record.history->before) put(out, *record.history->before);
  }
  out.u32(static_cast<std::uint32_t>(record.review));
  if (record.review != Review::kNone) put(out, record.reviewed);
}

void get_history(xdr::Decoder& in, ServerRecord& record) {
  if (in.boolean()) {
    record.history.emplace().accepted = get_state(in);
    if (in.boolean()) record.history->before = get_state(in);
  }
  const std::uint32_t review = in.u32();
  if (review > static_cast<std::uint32_t>(Review::kAdmitted)) return in.reject();
  record.review = static_cast<Review>(review);
  if (record.review != Review::kNone) record.reviewed = get_state(in);
}

}  // namespace

std::string_view to_string(Duty duty) {
  switch (duty) {
    case Duty::kServing: return "serving";
    case Duty::kDraining: return "draining";
    case Duty::kRemoving: return "removing";
  }
  return "unknown";
}

std::vector<layout::DeviceAddress> clients_addresses(const ServerRecord& record) {
  std::vector<layout::DeviceAddress> all;
  all.reserve(record.rdma.size() + record.addresses.size());
  for (const auto& address : record.rdma) all.emplace_back(address, layout::Transport::kRdma);
  for (const auto& address : record.addresses) all.emplace_back(address);
  return all;
}

std::string encode(const ServerRecord& record) {
  xdr::Encoder out(128);
  const std::uint32_t format = !record.networks.empty() ? kServerFormat
                               : !record.rdma.empty()   ? kFormatWithoutNetworks
                                                        : kFormatWithoutRdma;
  out.u32(format);
  out.u32(record.id);
  out.fixed(record.store);
  out.string(record.name);
  out.string(record.domain);
  out.u32(record.address_generation);
  put_addresses(out, record.addresses);
  out.u32(static_cast<std::uint32_t>(record.duty));
  put_history(out, record);
  if (format >= kFormatWithoutNetworks) put_addresses(out, record.rdma);
  if (format == kServerFormat) layout::put_networks(out, record.networks);
  return text_of(out);
}

Result<ServerRecord> decode_server(std::string_view value) {
  xdr::Decoder in(bytes_of(value));
  const std::uint32_t format = in.u32();
  if (in.ok() && (format == 0 || format > kServerFormat)) {
    return fail(Errc::kNotSupported, "data server record of a later format");
  }
  ServerRecord record;
  record.id = in.u32();
  in.fixed(record.store);
  record.name = in.string(control::kMaxText);
  record.domain = in.string(control::kMaxText);
  record.address_generation = in.u32();
  record.addresses = get_addresses(in);
  record.duty = static_cast<Duty>(in.u32());
  if (format > kFormatWithoutHistory) get_history(in, record);
  if (format >= kFormatWithoutNetworks) record.rdma = get_addresses(in);
  if (format == kFormatWithoutNetworks && record.rdma.empty()) in.reject();
  if (format == kServerFormat) {
    record.networks = layout::get_networks(in);
    if (record.networks.empty() || !layout::validate(record.networks)) in.reject();
  }
  if (!in.ok() || in.remaining() != 0 || record.id == 0 || record.duty > Duty::kRemoving) {
    return fail(Errc::kCorrupt, "malformed data server record");
  }
  return record;
}

std::string encode(const control::Fence& fence) {
  xdr::Encoder out(40);
  control::encode(out, control::FenceRequest{{fence}});
  return text_of(out);
}

Result<control::Fence> decode_fence(std::string_view value) {
  const auto request = control::decode<control::FenceRequest>(bytes_of(value));
  if (!request || request->fences.size() != 1) return fail(Errc::kCorrupt, "malformed fence");
  return request->fences.front();
}

std::string encode_u32(std::uint32_t value) {
  xdr::Encoder out(4);
  out.u32(value);
  return text_of(out);
}

Result<std::uint32_t> decode_u32(std::string_view value) {
  xdr::Decoder in(bytes_of(value));
  const std::uint32_t number = in.u32();
  if (!in.ok() || in.remaining() != 0) return fail(Errc::kCorrupt, "malformed number");
  return number;
}

namespace cluster_keys {

std::string server(std::uint32_t ds_id) {
  std::string key = "S";
  put_big_endian(key, ds_id, 4);
  return key;
}

std::string device(std::uint64_t number) {
  std::string key = "D";
  put_big_endian(key, number, 8);
  return key;
}

std::string device_salt() { return "Wd"; }
std::string next_server() { return "Wn"; }
std::string longest_lease() { return "Wl"; }
std::string seal_key() { return "Ws"; }

std::string fence(std::uint32_t ds_id, const control::Fence& fence) {
  std::string key = fences_of(ds_id).begin;
  put_big_endian(key, static_cast<std::uint32_t>(fence.what), 1);
  if (fence.what == control::Fence::What::kObject) {
    put_big_endian(key, fence.object.fsid, 4);
    put_big_endian(key, fence.object.fileid, 8);
    put_big_endian(key, fence.object.generation, 4);
  } else {
    put_big_endian(key, fence.client_id, 8);
  }
  return key;
}

KeyRange all_servers() { return {"S", past("S")}; }
KeyRange all_devices() { return {"D", past("D")}; }

KeyRange fences_of(std::uint32_t ds_id) {
  std::string begin = "Wf";
  put_big_endian(begin, ds_id, 4);
  return {begin, past(begin)};
}

}  // namespace cluster_keys

// A record says what its key is, so that of a key no more has to be known than where it begins.
Result<> check_record(std::string_view key, std::string_view value) {
  const std::string_view kind = key.substr(0, key.starts_with('W') ? 2 : 1);
  if (kind == "S") {
    const auto record = decode_server(value);
    if (!record) return std::unexpected(record.error());
    if (cluster_keys::server(record->id) == key) return {};
    return fail(Errc::kCorrupt, "a data server record with another's number");
  }
  if (kind == "Wf") {
    const auto fence = decode_fence(value);
    if (!fence) return std::unexpected(fence.error());
    constexpr std::size_t kAt = 2;
    std::uint32_t ds_id = 0;
    for (const char byte : key.substr(kAt, sizeof(ds_id))) {
      ds_id = ds_id << 8 | static_cast<unsigned char>(byte);
    }
    if (cluster_keys::fence(ds_id, *fence) == key) return {};
    return fail(Errc::kCorrupt, "a fence under another's key");
  }
  if (kind == "Wr") {
    const auto ds_id = decode_u32(value);
    if (!ds_id) return std::unexpected(ds_id.error());
    if (cluster_keys::removed_server(*ds_id) == key) return {};
    return fail(Errc::kCorrupt, "a removed data server under another's key");
  }
  if (key == cluster_keys::seal_key()) {
    if (value.size() == sizeof(layout::HandleKey)) return {};
    return fail(Errc::kCorrupt, "malformed key of file handles");
  }
  if (key == cluster_keys::device_salt() || key == cluster_keys::next_server() ||
      key == cluster_keys::longest_lease()) {
    const auto number = decode_u32(value);
    if (!number) return std::unexpected(number.error());
    return {};
  }
  return fail(Errc::kCorrupt, "key of unknown kind");
}

}  // namespace weft::mds
