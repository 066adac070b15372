// weft plan wan: how a client and the data servers are set so that one client fills a long link.
//
// What a link holds is its bandwidth times its delay. So much has to be under way at a time: asked
// for by read-ahead, in requests that have a slot of the session with a data server (RFC 8881,
// 2.10.6), and in the buffers of its TCP connections (RFC 7323). Each of these is given enough.
//
// Threading: pure functions but for the command, which prints.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rpc/base/error.h"
#include "tools/weft/commands.h"

namespace weft::cli {

struct WanOptions {
  double bandwidth = 0;       // bytes a second
  double delay = 0;           // seconds, there and back
  std::uint32_t servers = 1;  // that a file is striped over
};

// Bytes and seconds.
struct WanPlan {
  WanOptions options;
  std::uint64_t link = 0;         // what the link holds
  std::uint64_t request = 0;      // rsize and wsize
  std::uint32_t connections = 1;  // nconnect: to each server
  std::uint32_t slots = 0;        // of the session with each data server
  std::uint64_t buffer = 0;       // the largest of a connection, at either end
  std::uint64_t read_ahead = 0;
  double rate = 0;   // a second: to expect
  double start = 0;  // until TCP is at full speed, about
};

// kInvalid, naming the option, for what is out of range or cannot be made to work.
[[nodiscard]] Result<WanPlan> plan_wan(const WanOptions& options);

[[nodiscard]] std::string wan_text(const WanPlan& plan);
[[nodiscard]] nlohmann::ordered_json wan_json(const WanPlan& plan);

[[nodiscard]] int plan_wan_command(const Settings& settings, const WanOptions& options);

}  // namespace weft::cli
