// What the metadata server asks a data server of its targets as programs: version and options; as
// messages.h. A data server that does not know the question says kNotSupported.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "rpc/control/options.h"
#include "rpc/control/target_keys.h"

namespace weft::rpc::control {

// What a program says of itself.
struct About {
  static constexpr std::size_t kMostVersion = 64;
  std::string version;
  Options options;  // that hold
  friend bool operator==(const About&, const About&) = default;
};
template <class Io>
void describe(Io& io, About& r) {
  io("version", r.version, cut_at(About::kMostVersion));
  io("options", r.options);
}

// Of one of the targets that a data server has, as it told within the last seconds.
struct AboutTarget {
  std::uint32_t targets = 0;  // how many there are; 0: nothing else here is of use
  std::string address;        // as the data server's configuration has it
  About about;
  std::string why;  // it is not known, for people; empty: it is
  friend bool operator==(const AboutTarget&, const AboutTarget&) = default;
};
template <class Io>
void describe(Io& io, AboutTarget& r) {
  io("targets", r.targets);
  io("address", r.address, cut_at(TargetKeys::kMostAddress));
  io("about", r.about);
  io("why", r.why, cut_at(kMaxText));
}
struct GetAboutTarget {
  static constexpr std::uint32_t kVerb = 36;
  using Reply = AboutTarget;
  std::uint32_t at = 0;  // which of them
  friend bool operator==(const GetAboutTarget&, const GetAboutTarget&) = default;
};
template <class Io>
void describe(Io& io, GetAboutTarget& r) {
  io("at", r.at);
}

}  // namespace weft::rpc::control
