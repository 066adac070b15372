#include "dataserver/main/config.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <utility>

#include "dataserver/main/addresses.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

constexpr std::string_view kWhole = R"(
[server]
listen = ["10.0.0.1:2051", "[2001:db8::1]:2051"]
advertise = ["192.0.2.9:12051"]
name = "ds1"
failure_domain = "rack1"
threads = 4
pin_threads = false
memory_limit = "256 MiB"
max_connections = 100
max_connections_per_peer = 10
watchdog_seconds = 5
silence_seconds = 6
drain_seconds = 3
lease_wait_seconds = 4
log_level = "debug"
metrics = "127.0.0.1:9631"
shared_memory = false
socket = "/run/weft/ds1.sock"

[store]
path = "/srv/weft/ds1"
create = false
mode = "direct"
max_open_files = 1000
worker_threads = 3
target_descriptors = false

[cluster]
mds = ["mds1:9630", "[2001:db8::2]:9630"]
key_file = "/etc/weft/cluster.key"
)";

std::string error_of(std::string_view text) {
  auto config = parse_config(text, "ds.toml");
  return config ? "" : config.error().text;
}

TEST_CASE("every key arrives where it belongs") {
  const auto config = parse_config(kWhole, "ds.toml");
  REQUIRE(config);
  REQUIRE(config->listen.size() == 2);
  CHECK(layout::to_string(config->listen[1]) == "[2001:db8::1]:2051");
  CHECK(layout::to_string(config->advertise.at(0)) == "192.0.2.9:12051");
  CHECK(config->name == "ds1");
  CHECK(config->failure_domain == "rack1");
  CHECK(config->threads == 4);
  CHECK_FALSE(config->pin_threads);
  CHECK(config->memory_limit_bytes == 256U << 20);
  CHECK(config->max_connections == 100);
  CHECK(config->max_connections_per_peer == 10);
  CHECK(config->watchdog.count() == 5);
  CHECK(config->silence.count() == 6);
  CHECK(config->drain.count() == 3);
  CHECK(config->lease_wait.count() == 4);
  CHECK(config->log_level == "debug");
  CHECK(layout::to_string(config->metrics.value()) == "127.0.0.1:9631");
  CHECK_FALSE(config->shared_memory);
  CHECK(config->socket == "/run/weft/ds1.sock");
  CHECK(config->store.path == "/srv/weft/ds1");
  CHECK_FALSE(config->store.create);
  CHECK(config->store.mode == IoMode::kDirect);
  CHECK(config->store.max_open_files == 1000);
  CHECK(config->store.worker_threads == 3);
  CHECK_FALSE(config->target_descriptors);
  CHECK(config->mds == std::vector<HostPort>{{"mds1", 9630}, {"2001:db8::2", 9630}});
  CHECK(config->key_file == "/etc/weft/cluster.key");
  CHECK(check_config(*config, false));
}

TEST_CASE("an unknown key is an error with file, line and the nearest key") {
  CHECK(error_of("[server]\nlisten = []\nlisen = []\n") ==
        "ds.toml:3: unknown key 'server.lisen'; the nearest there is: 'server.listen'");
  CHECK(error_of("[store]\nnone = 1\n").starts_with("ds.toml:2: unknown key 'store.none'; "));
  CHECK(error_of("[store]\npath.x = 1\n").starts_with("ds.toml:2:"));
}

TEST_CASE("the nearest of a table is a table, and of a key one of its table") {
  const auto near = [](const std::string& text) {
    const std::string error = error_of(text);
    const std::size_t at = error.find("is: '");
    return at == std::string::npos ? error : error.substr(at + 5, error.size() - at - 6);
  };
  const std::array<std::pair<const char*, const char*>, 7> tables = {{{"sever", "server"},
                                                                      {"servr", "server"},
                                                                      {"stor", "store"},
                                                                      {"mirrr", "mirror"},
                                                                      {"laod", "load"},
                                                                      {"segmets", "segments"},
                                                                      {"clutser", "cluster"}}};
  for (const auto& [table, meant] : tables) CHECK(near(fmt::format("[{}]\n", table)) == meant);
  const auto key = [&near](const std::string& table, const std::string& name) {
    return near(fmt::format("[{}]\n{} = 1\n", table, name));
  };
  CHECK(key("mirror", "timeout") == "mirror.timeout_seconds");
  CHECK(key("mirror", "window_s") == "mirror.window_seconds");
  CHECK(key("server", "watchdog") == "server.watchdog_seconds");
  CHECK(key("server", "drain") == "server.drain_seconds");
  CHECK(key("server", "lease_wait") == "server.lease_wait_seconds");
  CHECK(key("server", "silence") == "server.silence_seconds");
  CHECK(key("store", "parity_scrub_every") == "store.parity_scrub_every_seconds");
  CHECK(key("server", "path") == "store.path");  // of another table
  CHECK(near("listen = 1\n") == "server.listen");
  CHECK(error_of("[control]\n") ==
        "ds.toml:1: unknown key 'control'; there are: cache, cluster, load, mirror, network, "
        "segments, server, store");
}

TEST_CASE("what is no TOML is an error of one line") {
  CHECK_FALSE(error_of("[store]\ncreate = fals\n").contains('\n'));
  CHECK(error_of("[store]\ncreate = fals\n").starts_with("ds.toml:2: "));
}

TEST_CASE("a byte that is not ASCII is an error with its line") {
  // Found by fuzzing: the TOML library runs into undefined behaviour on this character.
  CHECK(error_of("\n\xef\xb9\xbf") == "ds.toml:2: only ASCII is allowed");
}

TEST_CASE("a header with too many brackets is an error with its line") {
  // Found by fuzzing: the TOML library asserts, or lets the optimiser assume, that a key follows.
  CHECK(error_of("\n[[[[").starts_with("ds.toml:2:"));
}

TEST_CASE("the metadata server's port is that of every one unless it is given") {
  using All = std::vector<HostPort>;
  const auto of = [](std::string_view mds) {
    return parse_config(fmt::format("[cluster]\nmds = [{}]\n", mds), "ds.toml").value().mds;
  };
  CHECK(of(R"("127.0.0.1", "mds1", "[2001:db8::1]")") ==
        All{{"127.0.0.1", 20480}, {"mds1", 20480}, {"2001:db8::1", 20480}});
  CHECK(of(R"("127.0.0.1:1", "mds1:65535", "[2001:db8::1]:1")") ==
        All{{"127.0.0.1", 1}, {"mds1", 65535}, {"2001:db8::1", 1}});
  for (const std::string_view wrong : {"", ":1", "mds1:", "mds1:0", "mds1:65536", "2001:db8::1",
                                       "[]:1", "[2001:db8::1", "[::1]1"}) {
    CHECK(error_of(fmt::format("[cluster]\nmds = [\"{}\"]\n", wrong)) ==
          fmt::format("ds.toml:2: cluster.mds: '{}' is not host, host:port or, of IPv6, "
                      "[address]:port",
                      wrong));
  }
}

TEST_CASE("wrong types, wrong values and bad syntax name their line") {
  CHECK(error_of("[server]\nthreads = \"4\"\n") == "ds.toml:2: server.threads must be an integer");
  CHECK(error_of("[server]\nthreads = 1000\n") ==
        "ds.toml:2: server.threads: must be from 0 to 256");
  CHECK(error_of("[store]\nmode = \"fast\"\n") ==
        "ds.toml:2: store.mode: must be \"buffered\" or \"direct\"");
  CHECK(error_of("[server]\nlisten = [\"somewhere:1\"]\n").starts_with("ds.toml:2:"));
  CHECK(error_of("[server]\nmemory_limit = \"1 MB\"\n").starts_with("ds.toml:2:"));
  CHECK(error_of("[server\n") ==
        "ds.toml:1: Error while parsing table header: expected ']', saw '\\n'");
}

TEST_CASE("durations take units, as sizes do") {
  const auto config = parse_config(
      "[server]\nwatchdog_seconds = \"2 min\"\ndrain_seconds = \"30s\"\n"
      "[store]\nparity_scrub_every_seconds = \"7 d\"\ntarget_patience_seconds = \"20\"\n"
      "[cache]\nsize = \"4G\"\n",
      "ds.toml");
  REQUIRE(config);
  CHECK(config->watchdog == std::chrono::minutes(2));
  CHECK(config->drain == std::chrono::seconds(30));
  CHECK(config->parity_scrub_every == std::chrono::days(7));
  CHECK(config->target_patience == std::chrono::seconds(20));
  CHECK(config->cache_bytes == std::size_t{4} << 30);
  CHECK(error_of("[server]\ndrain_seconds = \"30 sec\"\n") ==
        "ds.toml:2: server.drain_seconds must be a number of seconds, or a string like \"30 s\", "
        "\"5 min\", \"7 d\"");
  CHECK(error_of("[server]\ndrain_seconds = \"1 h\"\n") ==
        "ds.toml:2: server.drain_seconds: must be from 0 s to 10 min");
  CHECK(parse_seconds("2 h") == 7200);
  for (const char* bad : {"", "s", "-1", "1 w", "0.5", "9223372036854775807 d"}) {
    CHECK_FALSE(parse_seconds(bad).has_value());
  }
}

TEST_CASE("what load is measured of: the machine, the process, or a cgroup") {
  CHECK(parse_config("", "ds.toml")->load.counters == "machine");
  const auto config = parse_config(
      "[load]\ncounters = \"/sys/fs/cgroup/a\"\ndisk_max = \"200 MiB\"\nnet_max = 125000000\n",
      "ds.toml");
  REQUIRE(config);
  CHECK(config->load.counters == "/sys/fs/cgroup/a");
  CHECK(config->load.disk_max == std::uint64_t{200} << 20);
  CHECK(config->load.net_max == 125'000'000);
  CHECK(error_of("[load]\ncounters = \"cgroup\"\n").starts_with("ds.toml:2: load.counters: must"));
}

TEST_CASE("how long a partner may take, and how much it may be owed") {
  const auto config = parse_config(
      "[mirror]\ntimeout_seconds = 7\nwindow = \"1 MiB\"\nwindow_seconds = 0\n", "ds.toml");
  REQUIRE(config);
  CHECK(config->mirror.timeout == std::chrono::seconds(7));
  CHECK(config->mirror.window_bytes == std::size_t{1} << 20);
  CHECK(config->mirror.window_age == std::chrono::seconds(0));
  CHECK(error_of("[mirror]\ntimeout_seconds = 0\n") ==
        "ds.toml:2: mirror.timeout_seconds: must be from 1 s to 1 min");
}

TEST_CASE("a list of one may be written without brackets") {
  const auto config = parse_config("[server]\nlisten = \"10.0.0.1:1\"\n", "ds.toml");
  REQUIRE(config);
  CHECK(config->listen.size() == 1);
}

TEST_CASE("a parity group is two targets or more, and not beside a target") {
  const auto with = [](const std::string& keys) {
    const auto config = parse_config("[store]\n" + keys, "ds.toml");
    if (!config) return config.error().text;
    auto whole = parse_config(kWhole, "ds.toml").value();
    whole.parity = config->parity;
    whole.parity_chunk = config->parity_chunk;
    whole.target = config->target;
    const auto checked = check_config(whole, false);
    return checked ? std::string("good") : checked.error().text;
  };
  const std::string three = R"(parity = ["unix:/a", "unix:/b", "tcp:192.0.2.1:9640"])"
                            "\n";
  CHECK(with(three) == "good");
  CHECK(with(three + "parity_chunk = \"128 KiB\"\n") == "good");
  CHECK(with(three + "parity_chunk = 5000\n") == "store.parity_chunk must be a power of two");
  CHECK(with(R"(parity = ["unix:/a", "unix:/b"])") == "good");
  CHECK(with(R"(parity = ["unix:/a"])") == "store.parity needs 2 to 32 targets");
  CHECK(with(R"(parity = ["unix:/a", "unix:/b", "unix:/a"])").starts_with("ds.toml:2: "));
  CHECK(with(three + "target = \"unix:/d\"\n") ==
        "store.target and store.parity exclude each other");
}

TEST_CASE("a disk is emulated where the objects are, and only when asked for") {
  CHECK_FALSE(parse_config(kWhole, "ds.toml")->emulated_disk.on());
  const auto config = parse_config(
      "[store.emulated_disk]\nrate = \"51 MiB\"\nseek_us = 3800\nrotation_us = 2000\n"
      "capacity = \"1 GiB\"\nmemory = \"64 MiB\"\nseed = 5\n",
      "ds.toml");
  REQUIRE(config);
  CHECK(config->emulated_disk.on());
  CHECK(config->emulated_disk.rate == std::uint64_t{51} << 20);
  CHECK(config->emulated_disk.seek == std::chrono::microseconds(3800));
  CHECK(config->emulated_disk.rotation == std::chrono::milliseconds(2));
  CHECK(config->emulated_disk.capacity == std::uint64_t{1} << 30);
  CHECK(config->emulated_disk.memory == std::uint64_t{64} << 20);
  CHECK(config->emulated_disk.seed == 5);
  CHECK(error_of("[store]\nemulated_disk = {seek_us = -1}\n") ==
        "ds.toml:2: store.emulated_disk.seek_us: must be from 0 to 1000000");
  auto whole = parse_config(kWhole, "ds.toml").value();
  whole.emulated_disk = config->emulated_disk;
  CHECK(check_config(whole, false));
  whole.target = TargetAddress{.path = "/a"};
  CHECK_FALSE(check_config(whole, false));
}

TEST_CASE("what is expected is read ahead where the disk turns, unless it is said") {
  auto config = parse_config(kWhole, "ds.toml").value();
  config.store.mode = IoMode::kBuffered;
  config.cache_bytes = 0;
  config.emulated_disk = {};
  CHECK(reads_ahead(config, true));
  CHECK_FALSE(reads_ahead(config, false));
  const auto with = [&](std::string_view word) {
    const std::string text = "[store]\nprefetch = \"" + std::string(word) + "\"\n";
    config.prefetch = parse_config(text, "ds.toml").value().prefetch;
  };
  with("on");
  CHECK(reads_ahead(config, false));
  config.store.mode = IoMode::kDirect;
  CHECK_FALSE(reads_ahead(config, true));  // it would be forgotten
  config.segments.size = 1 << 30;
  CHECK_FALSE(reads_ahead(config, true));  // so it would
  config.cache_bytes = 1 << 20;
  CHECK(reads_ahead(config, false));
  with("off");
  CHECK_FALSE(reads_ahead(config, true));
  with("auto");
  config.store.mode = IoMode::kBuffered;
  config.target = TargetAddress{.path = "/a"};
  CHECK_FALSE(reads_ahead(config, true));  // nobody knows of the target's
  config.target.reset();
  config.emulated_disk.rate = 1 << 20;
  config.cache_bytes = 0;
  CHECK_FALSE(reads_ahead(config, false));
  config.emulated_disk.memory = 1 << 20;
  CHECK(reads_ahead(config, false));
  CHECK(error_of("[store]\nprefetch = \"yes\"\n") ==
        "ds.toml:2: store.prefetch: must be \"auto\", \"on\" or \"off\"");
}

TEST_CASE("segments are of folders, and off unless they have a size") {
  const auto plain = parse_config(kWhole, "ds.toml").value();
  CHECK_FALSE(plain.segments.on());
  const auto config = parse_config(
      "[segments]\nsize = \"20 GiB\"\ncache = \"1 GiB\"\nbest = 1\nrecent = 2\nhistory = 4096\n"
      "idle_seconds = 7\n",
      "ds.toml");
  REQUIRE(config);
  CHECK(config->segments.size == std::uint64_t{20} << 30);
  CHECK(config->segments.cache_bytes == std::uint64_t{1} << 30);
  CHECK(config->segments.best == 1);
  CHECK(config->segments.recent == 2);
  CHECK(config->segments.history == 4096);
  CHECK(config->segments.idle == std::chrono::seconds(7));
  CHECK(parse_config("[segments]\nsize = 0\n", "ds.toml"));
  CHECK(error_of("[segments]\nsize = \"1 MiB\"\n") ==
        "ds.toml:2: segments.size: must be 0, or from 16 MiB to 64 GiB");
  CHECK(error_of("[segments]\nrecent = 9\n") == "ds.toml:2: segments.recent: must be from 1 to 8");
  DsConfig checked = plain;
  checked.segments.size = std::uint64_t{1} << 30;
  CHECK(check_config(checked, true).has_value());
  checked.segments.best = 5;
  CHECK(check_config(checked, true).error().text ==
        "segments.best must be at most segments.recent");
  checked.segments.best = 2;
  checked.target = TargetAddress{.path = "/run/target.sock"};
  CHECK(check_config(checked, true).error().text.starts_with("segments.size is for objects in"));
}

TEST_CASE("checksums are of folders, and off unless they are asked for") {
  DsConfig checked = parse_config(kWhole, "ds.toml").value();
  CHECK_FALSE(checked.checksums);
  CHECK(parse_config("[store]\nchecksums = true\n", "ds.toml")->checksums);
  checked.checksums = true;
  CHECK(check_config(checked, true).has_value());
  checked.target = TargetAddress{.path = "/run/target.sock"};
  CHECK(check_config(checked, true).error().text.starts_with("store.checksums is for objects in"));
}

TEST_CASE("a cache is of a size that is worth it, and where the kernel has none") {
  CHECK(parse_config(kWhole, "ds.toml")->cache_bytes == 0);
  CHECK(parse_config("[cache]\nsize = \"256 MiB\"\n", "ds.toml")->cache_bytes == 256U << 20);
  CHECK(parse_config("[cache]\nsize = 0\n", "ds.toml")->cache_bytes == 0);
  CHECK(error_of("[cache]\nsize = \"64 KiB\"\n") ==
        "ds.toml:2: cache.size: must be 0, or from 1 MiB to 16 TiB");
  CHECK(error_of("[cache]\nsize = \"lots\"\n").starts_with("ds.toml:2: cache.size must be a size"));
  CHECK(error_of("[cache]\nsizes = 1\n") ==
        "ds.toml:2: unknown key 'cache.sizes'; the nearest there is: 'cache.size'");
  auto whole = parse_config(kWhole, "ds.toml").value();
  whole.cache_bytes = 1U << 20;
  CHECK(check_config(whole, false));  // direct I/O
  whole.store.mode = IoMode::kBuffered;
  CHECK(check_config(whole, false).error().text.starts_with("cache.size needs store.target"));
  whole.target = TargetAddress{.path = "/a"};
  CHECK(check_config(whole, false));
  whole.target.reset();
  for (const char* path : {"/a", "/b", "/c"}) whole.parity.push_back({.path = path});
  CHECK(check_config(whole, false));
}

TEST_CASE("a folder in direct mode goes around the page cache; targets have one of their own") {
  DsConfig config;
  CHECK(load_options(config).page_cache);
  config.store.mode = IoMode::kDirect;
  CHECK_FALSE(load_options(config).page_cache);
  config.target = TargetAddress{};
  CHECK(load_options(config).page_cache);
}

TEST_CASE("what is missing is said, and a wildcard cannot be advertised") {
  auto config = parse_config(kWhole, "ds.toml").value();
  config.mds.clear();
  CHECK(check_config(config, false).error().text == "cluster.mds is not set");
  CHECK(check_config(config, true));
  config = parse_config(kWhole, "ds.toml").value();
  config.listen = {layout::make_address("0.0.0.0", 2051).value()};
  CHECK(check_config(config, false));  // clients are told another address
  config.advertise.clear();
  CHECK_FALSE(check_config(config, false));
}

TEST_CASE("addresses for RDMA are told by their scheme, and have a port of their own") {
  const auto config = parse_config(
      "[server]\nlisten = [\"10.0.0.1:2051\", \"rdma://10.0.0.1\", \"rdma://[2001:db8::1]\", "
      "\"rdma://[2001:db8::1]:99\", \"rdma://10.0.0.1:98\"]\n",
      "ds.toml");
  REQUIRE(config);
  REQUIRE(config->listen.size() == 1);
  std::vector<std::string> addresses;
  for (const auto& one : config->listen_rdma) addresses.push_back(layout::to_string(one));
  CHECK(addresses == std::vector<std::string>{"10.0.0.1:20049", "[2001:db8::1]:20049",
                                              "[2001:db8::1]:99", "10.0.0.1:98"});
  for (const char* bad : {"rdma://", "rdma://host", "rdma://10.0.0.1:", "rdma://10.0.0.1:70000",
                          "rdma:10.0.0.1", "rdma://2001:db8::1:99", "tcp://10.0.0.1:1"}) {
    INFO(bad);
    CHECK_FALSE(error_of("[server]\nlisten = [\"" + std::string(bad) + "\"]\n").empty());
  }
}

TEST_CASE("RDMA needs TCP beside it, at another port") {
  auto config = parse_config(kWhole, "ds.toml").value();
  config.listen_rdma = {layout::make_address("10.0.0.1", 20049).value()};
  CHECK(check_config(config, false));
  config.listen_rdma[0].port = 2051;
  CHECK_FALSE(check_config(config, false));
  config.listen_rdma[0].port = 0;
  CHECK_FALSE(check_config(config, false));
  config.listen_rdma = {layout::make_address("0.0.0.0", 20049).value()};
  config.advertise_rdma = {layout::make_address("10.0.0.1", 20049).value()};
  CHECK_FALSE(check_config(config, false));  // whose device goes is not known
  config.listen_rdma = config.advertise_rdma;
  config.advertise_rdma.clear();
  CHECK(check_config(config, false));
  config.listen.clear();
  CHECK_FALSE(check_config(config, false));
}

TEST_CASE("clients are told of RDMA where it listens, or of what advertise says") {
  const auto of = [](const std::string& advertise) {
    return parse_config(
               "[server]\nlisten = [\"10.0.0.1:2051\", \"rdma://10.0.0.1\", "
               "\"rdma://10.0.0.2\"]\nname = \"a\"\n" +
                   advertise,
               "ds.toml")
        .value();
  };
  const auto texts = [](const std::vector<layout::NetAddress>& addresses) {
    std::vector<std::string> texts;
    for (const auto& one : addresses) texts.push_back(layout::to_string(one));
    return texts;
  };
  using Texts = std::vector<std::string>;
  const DsConfig all = of("");
  CHECK(texts(told(all, {}).tcp) == Texts{"10.0.0.1:2051"});
  CHECK(texts(told(all, {true, true}).rdma) == Texts{"10.0.0.1:20049", "10.0.0.2:20049"});
  CHECK(texts(told(all, {false, true}).rdma) == Texts{"10.0.0.2:20049"});
  CHECK(told(all, {false, false}).rdma.empty());
  const DsConfig said = of("advertise = [\"192.0.2.1:2051\", \"rdma://192.0.2.1\"]\n");
  CHECK(texts(told(said, {}).tcp) == Texts{"192.0.2.1:2051"});
  CHECK(texts(told(said, {false, true}).rdma) == Texts{"192.0.2.1:20049"});
  CHECK(told(said, {false, false}).rdma.empty());
  const DsConfig own =
      of("advertise = [\"10.0.0.1:2051\", \"rdma://10.0.0.2\", \"rdma://10.0.0.1\"]\n");
  CHECK(texts(told(own, {true, true}).rdma) == Texts{"10.0.0.2:20049", "10.0.0.1:20049"});
  CHECK(texts(told(own, {true, false}).rdma) == Texts{"10.0.0.1:20049"});
  CHECK(told(of("advertise = [\"192.0.2.1:2051\"]\n"), {true, true}).rdma.empty());
}

TEST_CASE("what cannot be told of RDMA is refused") {
  const auto fits = [](std::vector<std::string> rdma, std::vector<std::string> tcp = {}) {
    auto config = parse_config(kWhole, "ds.toml").value();
    config.listen_rdma = {layout::make_address("10.0.0.1", 20049).value()};
    for (const auto& text : tcp) config.advertise.push_back(layout::parse_address(text).value());
    for (const auto& text : rdma)
      config.advertise_rdma.push_back(layout::parse_address(text).value());
    return check_config(config, false).has_value();
  };
  CHECK(fits({"192.0.2.1:20049"}));
  CHECK_FALSE(fits({"192.0.2.1:0"}));
  CHECK_FALSE(fits({"0.0.0.0:20049"}));
  CHECK_FALSE(fits({"192.0.2.1:20049"}, {"192.0.2.1:20049"}));
  CHECK_FALSE(fits(std::vector<std::string>(8, "192.0.2.1:20049")));
  auto config = parse_config(kWhole, "ds.toml").value();
  config.advertise_rdma = {layout::make_address("192.0.2.1", 20049).value()};
  CHECK_FALSE(check_config(config, false));  // listens at none
  config.listen_rdma = config.advertise_rdma;
  CHECK(check_config(config, false));
  config.advertise.clear();
  CHECK_FALSE(check_config(config, false));  // TCP is left out
}

TEST_CASE("networks of clients are tables of their own, as many as there are") {
  const std::string listen = "[server]\nlisten = [\"10.0.0.1:2051\", \"rdma://10.0.0.1\"]\n";
  const std::string storage =
      "[[network]]\nname = \"storage\"\naddresses = [\"rdma://10.0.0.1\", \"10.0.0.1:2051\"]\n"
      "clients = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n";
  const std::string office =
      "[[network]]\nname = \"office\"\naddresses = \"192.0.2.1:2051\"\nclients = "
      "\"192.0.2.0/24\"\n";
  const auto config = parse_config(listen + storage + office, "ds.toml").value();
  REQUIRE(config.networks.size() == 2);
  CHECK(config.networks[0].name == "storage");
  CHECK(list_text(config.networks[0].addresses) == "rdma://10.0.0.1:20049, 10.0.0.1:2051");
  CHECK(list_text(config.networks[1].clients) == "192.0.2.0/24");
  const auto shown = config_values(config);
  const auto value = std::ranges::find(shown, "network", &ConfigValue::key);
  REQUIRE(value != shown.end());
  CHECK(value->value ==
        "storage: rdma://10.0.0.1:20049, 10.0.0.1:2051 for 10.0.0.0/8, 2001:db8::/32; "
        "office: 192.0.2.1:2051 for 192.0.2.0/24");
  CHECK(value->by_default.empty());
  CHECK(told(config, {true}).networks == config.networks);
  // As clients' addresses are compared.
  const auto clients = [](const std::string& range) {
    const std::string text = "[[network]]\nclients = \"" + range + "\"\n";
    return list_text(parse_config(text, "ds.toml").value().networks[0].clients);
  };
  CHECK(clients("::ffff:10.0.0.0/104") == "10.0.0.0/8");
  CHECK(clients("::ffff:192.0.2.7") == "192.0.2.7/32");
  CHECK(clients("::ffff:0:0/96") == "0.0.0.0/0");
  CHECK(clients("::/0") == "::/0");
  // Without a device its addresses are not told.
  CHECK(list_text(told(config, {false}).networks[0].addresses) == "10.0.0.1:2051");
}

TEST_CASE("what is wrong with a network is said with its line, or its name") {
  CHECK(error_of("[network]\nname = \"n\"\n").contains("ds.toml:1: network must be tables"));
  CHECK(error_of("network = 5\n").contains("ds.toml:1: network must be tables"));
  CHECK(error_of("[[network]]\nnames = \"n\"\n")
            .contains(
                "ds.toml:2: unknown key 'network.names'; the nearest there is: 'network.name'"));
  CHECK(error_of("[[networks]]\nname = \"n\"\n").contains("nearest there is: 'network'"));
  CHECK(error_of("[[network]]\nclients = \"10.0.0.1/8\"\n").contains("10.0.0.0/8 would do"));
  CHECK(error_of("[[network]]\naddresses = \"10.0.0.1\"\n").contains("network.addresses"));
  const auto checked = [](const auto& spoil) {
    auto config = parse_config(kWhole, "ds.toml").value();
    config.networks = {{.name = "n",
                        .addresses = {layout::make_address("10.0.0.1", 2051).value()},
                        .clients = {layout::parse_range("10.0.0.0/8").value()}}};
    spoil(config);
    const auto good = check_config(config, false);
    return good ? std::string() : good.error().text;
  };
  CHECK(checked([](auto&) {}).empty());
  CHECK(checked([](auto& config) {
          config.networks[0].clients.clear();
        }).contains("network 'n' needs 1 to 32 ranges"));
  CHECK(checked([](auto& config) {
          config.networks[0].addresses[0].transport = layout::Transport::kRdma;
        }).contains("network 'n' tells of RDMA, and server.listen has none"));
  CHECK(checked([](auto& config) {
          config.listen_rdma = {layout::make_address("10.0.0.1", 20049).value()};
          config.networks[0].addresses = {
              {layout::make_address("10.0.0.1", 20049).value(), layout::Transport::kRdma}};
        }).contains("network 'n' needs an address for TCP, too"));
}

TEST_CASE("a file is read, an absent one is not found") {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/ds.toml";
  CHECK(load_config(path).error() == Errc::kNotFound);
  std::ofstream(path) << kWhole;
  CHECK(load_config(path)->name == "ds1");
}

TEST_CASE("names in a file that is read again are not looked up") {
  const auto read = [](const std::string& address) {
    return parse_config("[server]\nlisten = [\"" + address + "\"]\n", "ds.toml",
                        &unresolved_address);
  };
  CHECK(layout::to_string(read("no-such-host.invalid:2051")->listen.at(0)) == "192.0.2.0:2051");
  CHECK(layout::to_string(read("10.0.0.1:2051")->listen.at(0)) == "10.0.0.1:2051");
  CHECK(layout::to_string(read("rdma://no-such-host.invalid")->listen_rdma.at(0)) ==
        "192.0.2.0:20049");
  CHECK(read("no-such-host.invalid").error() == Errc::kInvalid);
}

TEST_CASE("sizes with units") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("64KiB") == 65536);
  CHECK(parse_bytes("1 GiB") == 1 << 30);
  for (const char* bad : {"", "x", "-1", "1 MB", "9999999999 TiB"}) {
    CHECK_FALSE(parse_bytes(bad).has_value());
  }
}

TEST_CASE("where a metadata server of this machine finds the data server") {
  DsConfig config;
  config.store.path = "/srv/weft/ds1";
  CHECK(local_endpoint(config).socket == "/srv/weft/ds1/nfs.sock");
  CHECK(is_this_machine(local_endpoint(config).machine));
  config.store.path = std::string("/") + std::string(100, 'x');
  CHECK(local_endpoint(config) == LocalEndpoint{});  // no room for a socket's path
  config.socket = "/run/weft/ds1.sock";
  CHECK(local_endpoint(config).socket == "/run/weft/ds1.sock");
  config.shared_memory = false;
  CHECK(local_endpoint(config) == LocalEndpoint{});
}

TEST_CASE("a socket needs a path that it can have") {
  auto config = parse_config(kWhole, "ds.toml");
  REQUIRE(config);
  CHECK(check_config(*config, false));
  config->socket = "ds1.sock";
  CHECK(check_config(*config, false).error() == Errc::kInvalid);
  config->socket = "/" + std::string(107, 'x');
  CHECK(check_config(*config, false).error() == Errc::kInvalid);
}

}  // namespace
}  // namespace weft::ds
