// Configuration files of Ganesha's, as people write them: reading ends, whatever is in them, and
// what is wrong is said with a file and a line.

#include <cstdlib>

#include "ganesha-fsal/config/options_check.h"

using namespace weft;
using namespace weft::mds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Whatever is included is the text itself, from its middle on.
  const auto files = [&](const std::string& path) -> Result<std::string> {
    if (path.size() % 2 == 0) return fail(Errc::kNotFound, path);
    return std::string(text.substr(text.size() / 2));
  };
  const auto conf = parse_conf(text, "g.conf", files);
  const auto checked =
      conf ? check_conf(*conf) : Result<CheckedConf>(std::unexpected(conf.error()));
  if (!checked) {
    if (checked.error() != Errc::kInvalid || !checked.error().text.contains(':')) std::abort();
    return 0;
  }
  if (checked->exports != checked->keys.size()) std::abort();
  return 0;
}
