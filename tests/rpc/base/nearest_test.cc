#include "rpc/base/nearest.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>

namespace weft {
namespace {

TEST_CASE("letters added, left out or changed") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("copies", "copys") == 2);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest word, whatever the case") {
  constexpr std::array<std::string_view, 3> kKnown = {"Copies", "Key_File", "Reads"};
  CHECK(nearest("copys", kKnown) == "Copies");
  CHECK(nearest("READ", kKnown) == "Reads");
  CHECK(nearest(std::string(100'000, 'x'), kKnown) == "Copies");
  CHECK(nearest("x", {}).empty());
}

TEST_CASE("a word that a program does not know is named, with what was meant") {
  constexpr std::array<std::string_view, 2> kOptions = {"--config", "--supervise"};
  CHECK(unknown_word("--confg=x", kOptions) ==
        "there is no option --confg; did you mean --config?");
  CHECK(unknown_word("--bogus", kOptions) == "there is no option --bogus");
  CHECK(unknown_word("-x", kOptions) == "there is no option -x");
  CHECK(unknown_word("x", kOptions) == "x is one too many");
}

TEST_CASE("who stops early means a longer word, the shortest of several") {
  constexpr std::array<std::string_view, 4> kKnown = {"window", "timeout_seconds", "time_seconds",
                                                      "tomes"};
  CHECK(nearest("timeout", kKnown) == "timeout_seconds");
  CHECK(nearest("Time", kKnown) == "time_seconds");
  CHECK(nearest("times", kKnown) == "tomes");
  CHECK(is_near("Timeout", "timeout_seconds"));
  CHECK(is_near("tims", "tomes"));
  CHECK_FALSE(is_near("control", "mirror"));
}

}  // namespace
}  // namespace weft
