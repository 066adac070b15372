// SIGHUP: what changed in the configuration file, what of it holds from now on, and what needs a
// restart. A file that is not good changes nothing.
//
// Threading: from the program's main thread; it reads a file.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "rpc/base/error.h"

namespace weft::ds {

class Reloader {
 public:
  // `keys` are those that hold without a restart.
  Reloader(std::string path, std::span<const std::string_view> keys);

  // Logs each key whose value is another than the last time, event=reloaded or
  // event=reload_needs_restart. `apply` checks the file and takes over what holds; an error is
  // logged, event=reload_refused, and leaves all as it was.
  void reload(const std::function<Result<>()>& apply);

 private:
  const std::string path_;
  const std::span<const std::string_view> keys_;
  std::map<std::string, std::string> values_;
};

}  // namespace weft::ds
