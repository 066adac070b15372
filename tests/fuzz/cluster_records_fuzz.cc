// The cluster's records in the metadata store: whatever decodes comes back equal.

#include <cstdlib>

#include "ganesha-fsal/cluster/records.h"

using namespace weft;
using namespace weft::mds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto record = decode_server(input)) {
    const auto again = decode_server(encode(*record));
    if (!again || *again != *record) std::abort();
  }
  if (const auto fence = decode_fence(input)) {
    const auto again = decode_fence(encode(*fence));
    if (!again || *again != *fence) std::abort();
    (void)cluster_keys::fence(1, *fence);
  }
  const std::size_t key = size == 0 ? 0 : data[0] % size;
  (void)check_record(input.substr(0, key), input.substr(key));
  if (const auto number = decode_u32(input)) {
    if (encode_u32(*number) != input) std::abort();
  }
  return 0;
}
