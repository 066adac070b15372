// What the metadata server asks a data server of its configuration as it runs; as messages.h.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/xdr/describe.h"

namespace weft::rpc::control {

// The options of its configuration file as they hold at the data server, those that nobody gave
// too, in the file's dialect. Of files with secrets these are paths, not what is in them.
struct Option {
  static constexpr std::size_t kMostName = 64;
  static constexpr std::size_t kMostText = 1024;
  std::string name;
  std::string value;
  std::string by_default;
  friend bool operator==(const Option&, const Option&) = default;
};
template <class Io>
void describe(Io& io, Option& r) {
  io("name", r.name, cut_at(Option::kMostName));
  io("value", r.value, cut_at(Option::kMostText));
  io("default", r.by_default, cut_at(Option::kMostText));
}
struct Options {
  static constexpr std::size_t kMost = 112;  // a message has room for the longest
  std::vector<Option> options;
  friend bool operator==(const Options&, const Options&) = default;
};
template <class Io>
void describe(Io& io, Options& r) {
  io("options", r.options, cut_at(Options::kMost));
}
struct GetOptions {
  static constexpr std::uint32_t kVerb = 32;
  using Reply = Options;
  friend bool operator==(const GetOptions&, const GetOptions&) = default;
};
template <class Io>
void describe(Io& /*io*/, GetOptions& /*r*/) {}

}  // namespace weft::rpc::control
