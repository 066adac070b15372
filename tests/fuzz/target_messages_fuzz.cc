// The decoders of what a data server and a target say to each other. The first byte chooses.
#include <cstdlib>

#include "dataserver/targets/messages.h"

using namespace weft;
using namespace weft::ds;

namespace {

void must(bool held) {
  if (!held) std::abort();
}

void request(std::span<const std::byte> input, std::size_t beyond) {
  const auto decoded = decode_request(input, beyond);
  const std::size_t located = locate_request(input.first(std::min<std::size_t>(input.size(), 512)));
  if (!decoded) return;
  must(decoded->bulk <= input.size());
  if (decoded->bulk != 0) {
    must(decoded->bulk + decoded->message.size <= input.size() + beyond);
    must(located == decoded->bulk);
  }
  const auto version = choose_version(decoded->message.tag);
  if (version) must(*version >= kTargetVersions.least && *version <= kTargetVersions.most);
  xdr::Encoder out;
  encode(out, decoded->message);
  if (decoded->bulk == 0) must(decode_request(out.bytes())->message == decoded->message);
}

void response(std::span<const std::byte> input, std::size_t beyond) {
  const auto decoded = decode_response(input, beyond);
  const std::size_t located =
      locate_response(input.first(std::min<std::size_t>(input.size(), 512)));
  if (!decoded) return;
  if (decoded->bulk != 0) {
    must(decoded->bulk + decoded->message.size <= input.size() + beyond);
    must(located == decoded->bulk);
  }
  const auto version = chosen_version(decoded->message.tag);
  if (version) must(*version >= kTargetVersions.least && *version <= kTargetVersions.most);
  xdr::Encoder out;
  encode(out, decoded->message);
  if (decoded->bulk == 0) must(decode_response(out.bytes()).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 5) {
    case 0: request(input, 0); break;
    case 1: request(input, data[0] / 5U * 64); break;
    case 2: response(input, 0); break;
    case 3: response(input, data[0] / 5U * 64); break;
    default: {
      const auto challenge = decode_challenge(input);
      if (challenge) must(challenge->socket.size() <= kMaxSocketPath);
    }
  }
  return 0;
}
