#include "tools/weft/plan_wan.h"

#include <rapidcheck.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "rpc/session/server_options.h"

using Catch::Approx;

namespace weft::cli {
namespace {

constexpr double kMiB = 1 << 20;

WanPlan plan(double bandwidth, double delay, std::uint32_t servers = 1) {
  const auto made = plan_wan({bandwidth, delay, servers});
  REQUIRE(made);
  return *made;
}

}  // namespace

TEST_CASE("a long link is filled by connections, before buffers are", "[weft]") {
  const WanPlan made = plan(119 * kMiB, .1);
  CHECK(wan_text(made) ==
        "A link of 119 MiB/s and 100 ms there and back holds 11.9 MiB.\n"
        "\n"
        "On each client, as root:\n"
        "  mount -t nfs -o vers=4.2,hard,nconnect=6 SERVER:/EXPORT /MNT\n"
        "  echo 24576 > /sys/class/bdi/$(mountpoint -d /MNT)/read_ahead_kb\n"
        "\n"
        "On each data server:\n"
        "  nothing: its defaults do\n"
        "\n"
        "To expect:\n"
        "  large files: up to 119 MiB/s\n"
        "  full speed about 900 ms after a connection's first byte\n"
        "  names: a call of the metadata server takes 100 ms or more, so that a process that\n"
        "  makes one file after the other makes at most one in that time\n");
  const auto json = wan_json(made);
  CHECK(json["mount_options"] == "vers=4.2,hard,nconnect=6");
  CHECK(json["slots"] == rpc::SessionServerOptions{}.max_slots);
  CHECK(json["bytes_per_second"].get<double>() == Approx(119 * kMiB));
}

TEST_CASE("a longer one needs slots and buffers at both ends", "[weft]") {
  const WanPlan made = plan(1190 * kMiB, .3);
  CHECK(made.slots == 512);
  CHECK(made.connections == 16);
  CHECK(made.buffer == 45 * kMiB);
  const std::string text = wan_text(made);
  CHECK(text.find("max_session_slots=512") != std::string::npos);
  CHECK(text.find("server.max_slots = 512") != std::string::npos);
  const auto sysctl = text.find("tcp_rmem='4096 131072 47185920'");
  REQUIRE(sysctl != std::string::npos);
  CHECK(text.find("tcp_rmem", sysctl + 1) != std::string::npos);
  CHECK(text.find("nothing: its defaults do") == std::string::npos);
  // Eight data servers share it.
  CHECK(plan(1190 * kMiB, .3, 8).slots == 64);
  CHECK(plan(1190 * kMiB, .3, 8).buffer == 6 * kMiB);
}

TEST_CASE("what one data server cannot carry is said", "[weft]") {
  const WanPlan made = plan(11900 * kMiB, .3);
  CHECK(made.slots == 1024);
  CHECK(made.rate == Approx(1024 * kMiB / .3));
  CHECK(wan_text(made).find("up to 3.33 GiB/s; more needs more data servers") != std::string::npos);
}

TEST_CASE("over a narrow link requests are small", "[weft]") {
  const WanPlan made = plan(kMiB, .3);
  CHECK(made.request == 128 * 1024);
  CHECK(wan_text(made).find("vers=4.2,hard,rsize=131072,wsize=131072 ") != std::string::npos);
}

TEST_CASE("a link of a machine room needs nothing", "[weft]") {
  const WanPlan made = plan(119 * kMiB, .0002);
  CHECK(made.connections == 1);
  CHECK(made.read_ahead == 2 * kMiB);
  const std::string text = wan_text(made);
  CHECK(text.find("nconnect") == std::string::npos);
  CHECK(text.find("less than 1 ms there and back") != std::string::npos);
}

TEST_CASE("a plan holds what the link holds", "[weft]") {
  REQUIRE(rc::check("slots, buffers and read-ahead are enough, and within limits", [] {
    const double bandwidth = *rc::gen::inRange<std::uint64_t>(64 << 10, std::uint64_t{1} << 40);
    const double delay = *rc::gen::inRange(1, 50'000) / 1e4;
    const auto servers = *rc::gen::inRange<std::uint32_t>(1, 257);
    const auto made = plan_wan({bandwidth, delay, servers});
    if (!made) {
      RC_ASSERT(made.error().text.starts_with("--bandwidth is too little"));
      return;
    }
    const double under_way = made->rate * delay / servers;  // at a data server
    RC_ASSERT(made->rate <= bandwidth);
    RC_ASSERT(double(made->slots) * double(made->request) >= under_way * .999999);
    RC_ASSERT(double(made->buffer) * made->connections >= 2 * under_way * .999999);
    RC_ASSERT(double(made->read_ahead) >= 2 * under_way * servers * .999999);
    RC_ASSERT(made->slots >= 64 && made->slots <= 1024);
    RC_ASSERT(made->connections >= 1 && made->connections <= 16);
    RC_ASSERT(made->rate >= bandwidth * .999999 || made->slots == 1024);
    RC_ASSERT(made->buffer <= 128 * kMiB);
    // All slots in use are answered well within a client's timeo of 60 s.
    RC_ASSERT(64.0 * servers * double(made->request) <= 10 * bandwidth);
  }));
}

TEST_CASE("what makes no plan is named", "[weft]") {
  const auto complaint = [](double bandwidth, double delay, std::uint32_t servers) {
    const auto made = plan_wan({bandwidth, delay, servers});
    return made ? std::string() : made.error().text;
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(complaint(kMiB, .1, 1).empty());
  for (const double bandwidth : {0.0, -1.0, 65535.0, 1e15, kNan, kInfinity}) {
    CHECK(complaint(bandwidth, .1, 1).starts_with("--bandwidth is 64KiB"));
  }
  for (const double delay : {0.0, -1.0, 1e-9, 5.1, kNan, kInfinity}) {
    CHECK(complaint(kMiB, delay, 1).starts_with("--delay"));
  }
  CHECK(complaint(kMiB, .1, 0).starts_with("--servers"));
  CHECK(complaint(kMiB, .1, 257).starts_with("--servers"));
  CHECK(complaint(65536, .1, 256).starts_with("--bandwidth is too little"));
}

}  // namespace weft::cli
