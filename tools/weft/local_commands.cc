// fsck: what needs no running metadata server.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tools/weft/commands.h"
#include "tools/weft/output.h"

namespace weft::cli {

int fsck_command(const std::vector<std::string>& arguments) {
  std::string program = "weft-fsck";
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error && std::filesystem::exists(self.parent_path() / program, error)) {
    program = self.parent_path() / program;
  }
  std::vector<char*> argv{program.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execvp(program.c_str(), argv.data());
  return complain("cannot run " + program + ": " + std::strerror(errno) +
                  " (it is installed with the metadata server)");
}

}  // namespace weft::cli
