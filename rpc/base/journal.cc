#include "rpc/base/journal.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/pattern_formatter.h>
#include <sys/stat.h>

#include <cstdlib>

namespace weft {
namespace {

class Priority final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& into) override {
    fmt::format_to(std::back_inserter(into), "<{}>", journal_priority(message.level));
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Priority>();
  }
};

}  // namespace

bool goes_to_journal(int fd) {
  const char* const named = std::getenv("JOURNAL_STREAM");
  struct stat found{};
  if (named == nullptr || ::fstat(fd, &found) != 0) return false;
  return fmt::format("{}:{}", found.st_dev, found.st_ino) == named;
}

int journal_priority(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
    case spdlog::level::err: return 3;
    case spdlog::level::warn: return 4;
    case spdlog::level::info: return 6;
    default: return 7;
  }
}

std::unique_ptr<spdlog::formatter> log_formatter(int fd) {
  auto made = std::make_unique<spdlog::pattern_formatter>();
  if (goes_to_journal(fd)) {
    made->add_flag<Priority>('*').set_pattern("%*level=%l %v");
  } else {
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%f%z level=%l %v");
  }
  return made;
}

}  // namespace weft
