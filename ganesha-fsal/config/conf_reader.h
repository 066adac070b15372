// Reads a configuration file of NFS-Ganesha's: blocks in braces, statements that end in semicolons.
// Ganesha has a parser of its own, which decides; this one is for a check before anything starts,
// and to say in one line what is wrong and where.
//
// %include is followed, as Ganesha does. What %dir and %url bring is not read.
//
// Threading: pure functions, but read_conf(), which reads files.
//
// Invariants:
//  1. Nothing is deeper than kDeepestBlock blocks, no file larger than kLargestConf, and a file is
//     included once only: whatever is in it, reading ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"

namespace weft::mds {

constexpr int kDeepestBlock = 16;
constexpr std::size_t kLargestConf = std::size_t{1} << 20;
constexpr std::size_t kMostConfFiles = 64;

struct ConfPlace {
  std::string file;
  int line = 0;
};

struct ConfTerm {
  std::string text;  // without quotes
  bool quoted = false;
};

struct ConfStatement {
  std::string name;
  ConfPlace place;
  std::vector<ConfTerm> terms;
};

struct ConfBlock {
  std::string name;  // empty: the file itself
  ConfPlace place;
  std::vector<ConfStatement> statements;
  std::vector<ConfBlock> blocks;
  bool incomplete = false;  // of the file itself: %dir or %url brings more
};

// "FILE:LINE: what".
[[nodiscard]] std::unexpected<Error> conf_error(const ConfPlace& place, std::string_view what);
// Ganesha's names have no case.
[[nodiscard]] bool same_name(std::string_view a, std::string_view b);

// "5", "017", "0x1F", as C has them; "-5" and "~5" are none.
[[nodiscard]] std::optional<std::uint64_t> parse_conf_number(std::string_view text);

// The first of this name in the block itself; null: there is none.
[[nodiscard]] const ConfStatement* find_statement(const ConfBlock& block, std::string_view name);
// The first of this name in the block itself, or in the file; null: there is none.
[[nodiscard]] const ConfBlock* find_block(const ConfBlock& outer, std::string_view name);
// It says that something is on, or off, as Ganesha has it.
[[nodiscard]] bool is_flag(const ConfStatement& statement, bool on);
// The only value of that; empty: there is none.
[[nodiscard]] std::string_view value_of(const ConfBlock& block, std::string_view name);

// Gives the text of an included file.
using ConfFiles = std::function<Result<std::string>(const std::string& path)>;

// kInvalid, naming file and line.
[[nodiscard]] Result<ConfBlock> parse_conf(std::string_view text, const std::string& file,
                                           const ConfFiles& files);
// As well kNotFound, kAccess, kIo.
[[nodiscard]] Result<ConfBlock> read_conf(const std::string& path);

}  // namespace weft::mds
