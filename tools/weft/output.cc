#include "tools/weft/output.h"

#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/weft/commands.h"
#include "tools/weft/table.h"

namespace weft::cli {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print(const nlohmann::ordered_json& document) {
  using Handler = nlohmann::ordered_json::error_handler_t;
  print(document.dump(2, ' ', false, Handler::replace) + "\n");
}

int complain(const std::string& text) {
  std::fprintf(stderr, "weft: %s\n", text.c_str());
  return kExitFailed;
}

std::string admin_trouble(const std::string& socket, const Error& error) {
  if (error == Errc::kNotFound || error == Errc::kUnreachable) {
    if (error.text.find(socket) != std::string::npos) {
      return fmt::format(
          "no metadata server {} at {}: run this on its machine, while weft-mds runs; --socket or "
          "WEFT_ADMIN_SOCKET names another Admin_Socket",
          error == Errc::kNotFound ? "is" : "listens", socket);
    }
  }
  if (error == Errc::kAccess && error.text.find(socket) != std::string::npos) {
    return "only root, and the user ganesha.nfsd runs as, may use " + socket;
  }
  if (error == Errc::kNotSupported && error.text.starts_with("no such request")) {
    return "the metadata server is of an older version and does not know this command: " +
           printable(error.text) + " (weft version --all)";
  }
  if (error == Errc::kTimedOut) {
    return "the metadata server did not answer at " + socket +
           ": it hangs, or is very busy; its log and `top` may say with what";
  }
  return printable(error.describe());
}

int complain_of_admin(const std::string& socket, const Error& error) {
  return complain(admin_trouble(socket, error));
}

}  // namespace weft::cli
