// What --help prints: no wider than a screen, with values as weft(1) names them.
//
// Threading: one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weft::cli {

// For an application before it gets its commands, which take it over.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace weft::cli
