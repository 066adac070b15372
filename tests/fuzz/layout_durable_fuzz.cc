// What the metadata server keeps of layouts, data-server handles, loads in heartbeats: whatever
// decodes is valid and encodes to something that decodes to the same.

#include <algorithm>
#include <cstdlib>

#include "layout/device_table.h"
#include "layout/handle.h"
#include "layout/layout_map.h"
#include "layout/layout_servers.h"
#include "layout/load.h"
#include "layout/read_choice.h"
#include "layout/siphash.h"

using namespace weft;
using namespace weft::layout;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  if (const auto map = decode_layout_map(input)) {
    if (!validate(*map)) std::abort();
    const auto again = decode_layout_map(std::string_view(encode_layout_map(*map)));
    if (!again || *again != *map) std::abort();
    (void)map->striping(map->copies.size() - 1).object_end(0, kMaxFileSize);
    const auto always = [](std::size_t, std::size_t) { return true; };
    if (const auto mirrors = flex_mirrors(*map, always, true)) {
      if (mirrors->empty() || mirrors->size() > map->copies.size()) std::abort();
    }
    const ReaderView idle;
    if (const auto spares = spares_of(*map, [&](std::uint32_t) { return &idle; }, size)) {
      const auto servers = servers_in_turn(*map, share_reads(*spares, kMaxServers));
      if (servers.ds_ids.size() % map->copies[0].ds_ids.size() != 0) std::abort();
    }
    if (const auto partners = partners_of(*map, 0, 0); partners && (*partners)[0] != 0) {
      if ((*partners)[0] == map->copies[0].ds_ids[0]) std::abort();
    }
  }
  if (const auto device = decode_device(input)) {
    const std::string stored = encode_device(*device);
    const auto again = decode_device(std::as_bytes(std::span(stored)));
    if (!again || *again != *device) std::abort();
  }
  xdr::Decoder load_in(input);
  ServerLoad load;
  xdr::get(load_in, load);
  if (load_in.ok() && load_in.remaining() == 0) {
    xdr::Encoder out;
    xdr::put(out, load);
    if (out.size() != size || available(load.disk) < 0 || load.cpu_percent.size() > kMaxCpus) {
      std::abort();
    }
  }
  // A claim as the fuzzer likes it, under a MAC that holds.
  if (size >= kHandleBytes) {
    SealedHandle sealed;
    std::ranges::copy(input.first<kHandleBytes>(), sealed.begin());
    const SipHash128 mac = siphash128(HandleKey{}, std::span(sealed).first<48>());
    std::ranges::copy(mac, sealed.begin() + 48);
    if (const auto handle = unseal(sealed, HandleKey{}, 1)) {
      if (!validate(*handle) || seal(*handle, HandleKey{}) != sealed) std::abort();
    }
  }
  if (unseal(input, HandleKey{}, 1)) {
    // Only the fuzzer's luck against a 128-bit MAC, or a bug.
    std::abort();
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto address = parse_address(text)) {
    const auto again = parse_address(to_string(*address));
    if (!again || *again != *address) std::abort();
  }
  return 0;
}
