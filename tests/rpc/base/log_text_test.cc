#include "rpc/base/log_text.h"

#include <catch2/catch_test_macros.hpp>

namespace weft {
namespace {

TEST_CASE("text of a peer cannot end its line or its quotes") {
  CHECK(log_text("Linux NFSv4.2 client.example") == "Linux NFSv4.2 client.example");
  CHECK(log_text("x\"\n[error] event=\\") == "x\\x22\\x0a[error] event=\\x5c");
  CHECK(log_text(std::string_view("\0\x7f\xc3\xa4\x1b", 5)) == "\\x00\\x7f\\xc3\\xa4\\x1b");
  CHECK(log_text("").empty());
  CHECK(log_text(std::string(1000, 'a')) == std::string(256, 'a') + "...");
}

}  // namespace
}  // namespace weft
