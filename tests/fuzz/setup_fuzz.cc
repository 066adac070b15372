// What the commands that set a system up read: what comes from a peer once it has proved its token,
// files of tokens, tokens, and what weft doctor reads of this machine. The first byte chooses.
#include <cstdlib>

#include "tools/weft/doctor/checks.h"
#include "tools/weft/observe.h"
#include "tools/weft/setup/join_messages.h"
#include "tools/weft/setup/setup_texts.h"
#include "tools/weft/setup/tokens.h"

using namespace weft;
using namespace weft::cli;

namespace {

template <class T>
void message(std::span<const std::byte> input) {
  const auto read = xdr::read_whole<T>(input, "message");
  if (!read) return;
  if (!xdr::read_whole<T>(rpc::peer::to_bytes(*read), "message")) std::abort();
}

void tokens(std::string_view text) {
  const auto read = parse_tokens(text);
  if (!read) return;
  if (read->size() > kMostTokens) std::abort();
  for (const Token& token : *read) {
    if (!token_secret(token.text) || token.expires_s < 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span(data + 1, size - 1));
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 7) {
    case 0: message<Join>(input); break;
    case 1: message<Joined>(input); break;
    case 2: tokens(text); break;
    case 3: (void)token_secret(text); break;
    case 4: (void)toml_texts(text, "path"); break;
    case 5: (void)nfs_servers(text); break;
    default: (void)without_secrets(std::string(text)); break;
  }
  return 0;
}
