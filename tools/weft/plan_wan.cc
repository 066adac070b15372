#include "tools/weft/plan_wan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "layout/striping.h"
#include "tools/weft/output.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

constexpr double kLeastBandwidth = 64.0 * kKiB;
constexpr double kMostBandwidth = double{1 << 20} * kMiB;
constexpr double kLeastDelay = 1e-4;  // seconds
constexpr double kMostDelay = 5;

// What a Linux client takes for a session, and weft-ds offers, unless told otherwise; and the most
// of both.
constexpr std::uint32_t kSlots = 64;
constexpr std::uint32_t kMostSlots = 1024;
constexpr std::uint32_t kMostConnections = 16;  // nconnect

constexpr std::uint64_t kLargestRequest = kMiB;
constexpr std::uint64_t kSmallestRequest = 4 * kKiB;
// A client with every slot in use waits so long for its last answer, well within its timeo of 60 s.
constexpr double kLongestQueue = 10;  // seconds

// The kernel's own limit for what a connection has to send (the third number of tcp_wmem); that for
// what it receives is greater. About half of a buffer is data, the rest is the kernel's
// bookkeeping.
constexpr std::uint64_t kBuffer = 4 * kMiB;
constexpr std::uint64_t kPerData = 2;

constexpr double kFirstWindow = 10.0 * 1448;  // bytes TCP sends before the first answer (RFC 6928)

std::uint64_t whole_mib(double value) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(value / kMiB))) * kMiB;
}

// The largest with which all slots in use do not fill the link for longer than kLongestQueue.
Result<std::uint64_t> request_size(const WanOptions& options) {
  std::uint64_t request = kLargestRequest;
  while (double(kSlots) * options.servers * double(request) > kLongestQueue * options.bandwidth) {
    request /= 2;
    if (request < kSmallestRequest) {
      return fail(Errc::kInvalid, "--bandwidth is too little for files over so many --servers");
    }
  }
  return request;
}

Result<> validate(const WanOptions& options) {
  // Written so that what is not a number is refused.
  if (!(options.bandwidth >= kLeastBandwidth && options.bandwidth <= kMostBandwidth)) {
    return fail(Errc::kInvalid, "--bandwidth is 64KiB to 1TiB a second");
  }
  if (!(options.delay >= kLeastDelay && options.delay <= kMostDelay)) {
    return fail(Errc::kInvalid, "--delay is 0.1ms to 5s");
  }
  if (options.servers == 0 || options.servers > layout::kMaxServers) {
    return fail(Errc::kInvalid, "--servers is 1 to " + std::to_string(layout::kMaxServers));
  }
  return {};
}

std::string mount_options(const WanPlan& plan) {
  std::string text = "vers=4.2,hard";
  if (plan.connections > 1) text += ",nconnect=" + std::to_string(plan.connections);
  if (plan.request < kLargestRequest) {
    const std::string size = std::to_string(plan.request);
    text += ",rsize=" + size + ",wsize=" + size;
  }
  return text;
}

// The first two numbers are the kernel's own.
std::string buffer_lines(const WanPlan& plan) {
  if (plan.buffer <= kBuffer) return "";
  const std::string most = std::to_string(plan.buffer);
  return "  sysctl -w net.ipv4.tcp_rmem='4096 131072 " + most + "'\n" +
         "  sysctl -w net.ipv4.tcp_wmem='4096 16384 " + most + "'\n";
}

std::string milliseconds(double seconds) {
  if (seconds < 1e-3) return "less than 1 ms";
  return human_duration(static_cast<std::uint64_t>(std::lround(seconds * 1000)));
}

std::string per_second(double rate) { return human_bytes(static_cast<std::uint64_t>(rate)) + "/s"; }

}  // namespace

Result<WanPlan> plan_wan(const WanOptions& options) {
  if (auto valid = validate(options); !valid) return pass(valid);
  const auto request = request_size(options);
  if (!request) return std::unexpected(request.error());
  WanPlan plan;
  plan.options = options;
  plan.request = *request;
  const double link = options.bandwidth * options.delay;
  plan.link = static_cast<std::uint64_t>(std::llround(link));
  // A data server's part of what is under way, as far as slots can be had for it.
  const double part = std::min(link / options.servers, double(kMostSlots) * double(*request));
  plan.rate = std::min(options.bandwidth, part * options.servers / options.delay);
  // One more than the link holds: an answered request's slot is taken by the next only a moment
  // later.
  const auto needed = static_cast<std::uint32_t>(std::ceil(part / double(*request))) + 1;
  plan.slots = std::clamp(std::bit_ceil(needed), kSlots, kMostSlots);
  plan.connections = static_cast<std::uint32_t>(
      std::clamp(std::ceil(part * kPerData / kBuffer), 1.0, double{kMostConnections}));
  const double connection = part / plan.connections;
  plan.buffer = std::max(kBuffer, whole_mib(connection * kPerData));
  // The next window is asked for when the first page of the last one has come. So one window is
  // enough to keep the link full, if nothing is ever late.
  plan.read_ahead = whole_mib(2 * std::max(part * options.servers, double(*request)));
  // The window doubles each time that answers come back.
  plan.start = (1 + std::ceil(std::log2(std::max(1.0, connection / kFirstWindow)))) * options.delay;
  return plan;
}

std::string wan_text(const WanPlan& plan) {
  const WanOptions& options = plan.options;
  const std::string slots = std::to_string(plan.slots);
  const std::string delay = milliseconds(options.delay);
  std::string text = "A link of " + per_second(options.bandwidth) + " and " + delay +
                     " there and back holds " + human_bytes(plan.link) +
                     ".\n\nOn each client, as root:\n";
  if (plan.slots > kSlots) {
    text += "  echo options nfs max_session_slots=" + slots +
            " > /etc/modprobe.d/weft-wan.conf      (and restart)\n";
  }
  text += buffer_lines(plan);
  text += "  mount -t nfs -o " + mount_options(plan) + " SERVER:/EXPORT /MNT\n";
  text += "  echo " + std::to_string(plan.read_ahead / kKiB) +
          " > /sys/class/bdi/$(mountpoint -d /MNT)/read_ahead_kb\n";
  text += "\nOn each data server:\n" + buffer_lines(plan);
  if (plan.slots > kSlots) text += "  server.max_slots = " + slots + " in weft-ds.toml\n";
  if (plan.slots <= kSlots && plan.buffer <= kBuffer) text += "  nothing: its defaults do\n";
  text += "\nTo expect:\n  large files: up to " + per_second(plan.rate);
  if (plan.rate < options.bandwidth) {
    text += "; more needs more data servers: a client has\n  at most " +
            std::to_string(kMostSlots) + " requests under way at each";
  }
  text += "\n  full speed about " + milliseconds(plan.start) + " after a connection's first byte\n";
  text += "  names: a call of the metadata server takes " + delay +
          " or more, so that a process that\n" +
          "  makes one file after the other makes at most one in that time\n";
  return text;
}

nlohmann::ordered_json wan_json(const WanPlan& plan) {
  return {{"bandwidth", plan.options.bandwidth},  {"delay_s", plan.options.delay},
          {"servers", plan.options.servers},      {"link_bytes", plan.link},
          {"mount_options", mount_options(plan)}, {"request_bytes", plan.request},
          {"nconnect", plan.connections},         {"slots", plan.slots},
          {"tcp_buffer_bytes", plan.buffer},      {"read_ahead_bytes", plan.read_ahead},
          {"bytes_per_second", plan.rate},        {"start_s", plan.start}};
}

int plan_wan_command(const Settings& settings, const WanOptions& options) {
  const auto plan = plan_wan(options);
  if (!plan) return complain(plan.error().text);
  settings.json ? print(wan_json(*plan)) : print(wan_text(*plan));
  return kExitGood;
}

}  // namespace weft::cli
