#include "rpc/base/journal.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace weft {
namespace {

class Stream {
 public:
  Stream() : file_(std::tmpfile()) { REQUIRE(file_ != nullptr); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    ::unsetenv("JOURNAL_STREAM");
    std::fclose(file_);
  }
  [[nodiscard]] int fd() const { return ::fileno(file_); }
  // As systemd has it, with this added to the inode.
  void name_it(unsigned other = 0) const {
    struct stat found{};
    REQUIRE(::fstat(fd(), &found) == 0);
    const std::string text =
        std::to_string(found.st_dev) + ":" + std::to_string(found.st_ino + other);
    ::setenv("JOURNAL_STREAM", text.c_str(), 1);
  }

 private:
  std::FILE* file_;
};

std::string line_of(int fd, spdlog::level::level_enum level) {
  std::ostringstream text;
  spdlog::logger log("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  log.set_level(spdlog::level::trace);
  log.set_formatter(log_formatter(fd));
  log.log(level, "event=x");
  return text.str();
}

}  // namespace

TEST_CASE("lines for the journal begin with their priority, and have no time") {
  const Stream stream;
  stream.name_it();
  CHECK(goes_to_journal(stream.fd()));
  CHECK(line_of(stream.fd(), spdlog::level::critical) == "<3>level=critical event=x\n");
  CHECK(line_of(stream.fd(), spdlog::level::err) == "<3>level=error event=x\n");
  CHECK(line_of(stream.fd(), spdlog::level::warn) == "<4>level=warning event=x\n");
  CHECK(line_of(stream.fd(), spdlog::level::info) == "<6>level=info event=x\n");
  CHECK(line_of(stream.fd(), spdlog::level::debug) == "<7>level=debug event=x\n");
}

TEST_CASE("lines that go elsewhere begin with the time") {
  const Stream stream;
  CHECK_FALSE(goes_to_journal(stream.fd()));
  stream.name_it(1);  // systemd's stream is another: somebody has redirected ours
  CHECK_FALSE(goes_to_journal(stream.fd()));
  ::setenv("JOURNAL_STREAM", "", 1);
  CHECK_FALSE(goes_to_journal(stream.fd()));
  CHECK_FALSE(goes_to_journal(-1));
  const std::string line = line_of(stream.fd(), spdlog::level::warn);
  CHECK(line.starts_with("20"));
  CHECK(line.ends_with(" level=warning event=x\n"));
}

}  // namespace weft
