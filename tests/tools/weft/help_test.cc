#include "tools/weft/help.h"

#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "tools/weft/units.h"

using namespace weft;
using namespace weft::cli;

TEST_CASE("help fits a screen, and names values as people do", "[weft]") {
  CLI::App app("What it is for", "tool");
  app.formatter(std::make_shared<HelpFormatter>());
  auto* make = app.add_subcommand("make", "Makes what takes more words to say than a line holds");
  unsigned copies = 2;
  double patience = 0;
  std::uint64_t size = 0;
  std::string file;
  std::string how = "table";
  std::vector<std::string> codes;
  bool quiet = false;
  make->add_option("FILE", file, "Where to")->required();
  make->add_option("--copies", copies, "How many")->check(CLI::Range(1, 3))->capture_default_str();
  make->add_option("--limit", patience, "How long: 30s")
      ->transform(seconds(0.1, 86400.0, "100ms to 1d"));
  make->add_option("--size", size, "How much")->transform(bytes())->required();
  make->add_option("-o,--output", how, "In which form")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  make->add_option("--codes", codes, "Which")->type_name("CODE");
  make->add_flag("-q,--quiet", quiet, "Say nothing");
  CHECK(app.help() == R"(What it is for
Usage: tool [OPTIONS] [SUBCOMMAND]

Options:
  -h,--help                   Print this help message and exit

Subcommands:
  make                        Makes what takes more words to say than a line
                              holds

)");
  CHECK(make->help() ==
        R"(Makes what takes more words to say than a line holds
Usage: make [OPTIONS] FILE

Positionals:
  FILE                        Where to

Options:
  -h,--help                   Print this help message and exit
  --copies N                  How many (1 to 3; default 2)
  --limit DURATION            How long: 30s (100ms to 1d)
  --size SIZE                 How much (required)
  -o,--output table|json      In which form (default table)
  --codes CODE...             Which
  -q,--quiet                  Say nothing

)");
}
