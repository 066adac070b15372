// What is logged while this lives, a line each: "info event=... ...".
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace weft::rpc::test {

class LogLines {
 public:
  explicit LogLines(spdlog::level::level_enum level = spdlog::level::info) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    sink->set_pattern("%l %v");
    auto logger = std::make_shared<spdlog::logger>("", std::move(sink));
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogLines() { spdlog::set_default_logger(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  // Those since it was asked last.
  [[nodiscard]] std::vector<std::string> take() {
    std::istringstream lines(text_.str());
    text_.str("");
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);) all.push_back(line);
    return all;
  }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace weft::rpc::test
