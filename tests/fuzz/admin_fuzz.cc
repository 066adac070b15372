// The admin socket's decoders: both directions.
#include "ganesha-fsal/admin/protocol.h"

using namespace weft::mds;
using namespace weft::mds::admin;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (auto request = decode_request(bytes)) {
    // What decoded is what was meant: it encodes to something that decodes the same.
    auto again = decode_request(encode(*request));
    if (!again || *again != *request) __builtin_trap();
  }
  (void)decode_reply<StatusReport>(bytes);
  (void)decode_reply<std::vector<DataServerReport>>(bytes);
  if (auto policy = decode_reply<PolicyReport>(bytes)) {
    auto again = decode_reply<PolicyReport>(encode_reply(*policy));
    if (!again || *again != *policy) __builtin_trap();
  }
  if (auto said = decode_reply<MaintenanceReport>(bytes)) {
    auto again = decode_reply<MaintenanceReport>(encode_reply(*said));
    if (!again || *again != *said) __builtin_trap();
  }
  if (auto file = decode_reply<FileReport>(bytes)) {
    if (!decode_reply<FileReport>(encode_reply(*file))) __builtin_trap();
  }
  return 0;
}
