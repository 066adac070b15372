#include "ganesha-fsal/server/before_start.h"

#include <spdlog/fmt/fmt.h>

#include "rpc/base/listen_trouble.h"
#include "rpc/peer/resolve.h"

namespace weft::mds {

std::unexpected<Error> of_option(const char* option, const Error& error) {
  return fail(error.code, fmt::format("{}: {}", option, error.describe()));
}

Result<std::shared_ptr<rpc::peer::Keyring>> load_keys(const ServerOptions& options) {
  if (options.key_file.empty()) {
    return fail(Errc::kInvalid, "Key_File is missing (weft keygen makes one)");
  }
  auto keys = rpc::peer::Keyring::load(options.key_file);
  if (!keys) return of_option("Key_File", keys.error());
  return keys;
}

Result<> check_before_store(const ServerOptions& options) {
  if (auto keys = load_keys(options); !keys) return pass(keys);
  const std::pair<const char*, const std::string&> addresses[] = {
      {"Control_Address", options.control_address},
      {"Metrics_Address", options.metrics_address},
      {"Status_Address", options.status_address}};
  for (const auto& [option, given] : addresses) {
    if (given.empty()) continue;
    const auto address = rpc::peer::resolve_address(given);
    if (!address) return of_option(option, address.error());
    const std::string text = layout::to_string(*address);
    if (const std::string why = listen_trouble(text); !why.empty()) {
      return fail(Errc::kIo, fmt::format("{}: {}: {}", option, text, why));
    }
  }
  return {};
}

}  // namespace weft::mds
