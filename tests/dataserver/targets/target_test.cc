// A target and data servers' stores over it, by shared memory and by TCP.
#include "dataserver/targets/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <numeric>
#include <optional>
#include <thread>

#include "dataserver/targets/target_server.h"
#include "tests/dataserver/store/store_model.h"
#include "tests/dataserver/targets/target_rig.h"
#include "tests/rpc/transport/silent_channel.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::by_tcp;
using test::key_text;
using test::quick_link;
using test::RemoteRunner;
using test::TargetChild;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};

TEST_CASE("a remote store behaves like strings in memory, by shared memory and by TCP") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  const bool shm = GENERATE(true, false);
  options.prefer_shared_memory = shm;
  RemoteRunner runner(rig, shm ? rig.local() : by_tcp(*target), options);
  CHECK(test::behaves_like_strings(runner));
  CHECK(runner.view().transport == (shm ? TargetTransport::kSharedMemory : TargetTransport::kTcp));
  CHECK((runner.view().lent_bytes > 0) == shm);
  CHECK((target->counts().lent_bytes > 0) == shm);
  CHECK(runner.eventually([&] { return runner.pool().in_use_bytes() == 0; }));
}

TEST_CASE("a read of nothing is answered, and is no mistake") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.prefer_shared_memory = GENERATE(true, false);
  const auto address = options.prefer_shared_memory ? rig.local() : by_tcp(*target);
  RemoteRunner runner(rig, address, options, 1, 'a', false, 0);  // not past the target
  REQUIRE(runner.write(kObject, 0, "weft"));
  const auto nothing = runner.read(kObject, 0, 0);
  REQUIRE(nothing);
  CHECK(nothing->object_end == 4);
  CHECK(target->counts().refused == 0);
  CHECK(runner.text(kObject, 0, 10) == "weft");
}

TEST_CASE("a target takes the time of reads, writes and commits") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.prefer_shared_memory = false;
  RemoteRunner runner(rig, by_tcp(*target), options);
  const auto counted = [&target](TargetTimed op) {
    const LatencyTotals took = target->times()[static_cast<std::size_t>(op)];
    return std::accumulate(took.buckets.begin(), took.buckets.end(), std::uint64_t{0});
  };
  const auto before = counted(TargetTimed::kWrite);
  REQUIRE(runner.write(kObject, 0, "bytes"));
  REQUIRE(runner.write(kObject, 4096, "more"));
  CHECK(counted(TargetTimed::kWrite) - before == 2);
  REQUIRE(runner.commit(kObject));
  CHECK(counted(TargetTimed::kCommit) == 1);
  REQUIRE(runner.read(kObject, 0, 5));
  CHECK(counted(TargetTimed::kRead) == 1);
}

TEST_CASE("a target says where its data is, with what was written past it") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.prefer_shared_memory = GENERATE(true, false);
  const auto address = options.prefer_shared_memory ? rig.local() : by_tcp(*target);
  RemoteRunner runner(rig, address, options, 1, 'a', false, 64);
  CHECK(runner.next_data(kObject, 0).error() == Errc::kNotFound);
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
  REQUIRE(runner.write(kObject, kFar, "there"));
  CHECK(runner.next_data(kObject, 0).value().begin == kFar);
  REQUIRE(runner.write(kObject, 1 << 20, "here"));
  CHECK((runner.view().past_written > 0) == options.prefer_shared_memory);
  CHECK(runner.next_data(kObject, 0).value().begin == 1 << 20);
  CHECK(runner.next_data(kObject, kFar + 4096).value() == DataRun{});
}

TEST_CASE("a direct store reads and writes in lent memory") {
  const TargetRig rig;
  TargetConfig config = rig.config();
  config.store.mode = IoMode::kDirect;
  const auto target = Target::open(config).value();
  RemoteRunner runner(rig, rig.local());
  CHECK(test::behaves_like_strings(runner));
  CHECK(runner.view().past_bytes == 0);
}

TEST_CASE("each data server of a target may have a connection for each of its threads") {
  TargetConfig config;
  config.max_spaces = 3;
  CHECK(max_connections(config) == 3 * 256);
  config.max_connections = 5;  // said
  CHECK(max_connections(config) == 5);
}

TEST_CASE("a target has as many connections of data servers as it is told, and no more") {
  const TargetRig rig;
  TargetConfig config = rig.config();
  config.max_connections = 2;
  const auto target = Target::open(config).value();
  LinkOptions options = quick_link();
  options.prefer_shared_memory = GENERATE(true, false);
  const auto address = options.prefer_shared_memory ? rig.local() : by_tcp(*target);
  RemoteRunner runner(rig, address, options, 1, 'a', false, 64, 3);
  REQUIRE(runner.eventually([&] { return runner.view().connected.load() == 2; }));
  runner.run_for(300ms);  // the third thread tries again and again
  CHECK(runner.view().connected.load() == 2);
}

TEST_CASE("on the same machine an address turns into shared memory by itself") {
  const TargetRig rig;
  const auto target = rig.start();
  RemoteRunner runner(rig, by_tcp(*target));
  REQUIRE(runner.write(kObject, 0, "weft"));
  CHECK(runner.view().transport == TargetTransport::kSharedMemory);
  // And stays TCP where the socket cannot be reached.
  ::unlink(rig.socket().c_str());
  RemoteRunner other(rig, by_tcp(*target));
  CHECK(other.text(kObject, 0, 10) == "weft");
  CHECK(other.view().transport == TargetTransport::kTcp);
}

TEST_CASE("data servers of one target have each their own objects") {
  const TargetRig rig;
  const auto target = rig.start();
  RemoteRunner one(rig, rig.local());
  REQUIRE(one.write(kObject, 0, "of one"));
  const TargetRig other;  // another data server's folder
  RemoteRunner two(other, rig.local(), quick_link(), 2);
  CHECK(two.read(kObject, 0, 10).error() == Errc::kNotFound);
  REQUIRE(two.write(kObject, 0, "of two"));
  one.ring().bind_to_this_thread();
  CHECK(one.text(kObject, 0, 10) == "of one");
}

TEST_CASE("a target whose store was wiped is not taken for the one that had the data") {
  const TargetRig rig;
  {
    const auto target = rig.start();
    RemoteRunner runner(rig, rig.local());
    REQUIRE(runner.write(kObject, 0, "precious"));
  }
  std::filesystem::remove_all(rig.folder.path() + "/objects");
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.patience = 300ms;
  RemoteRunner runner(rig, rig.local(), options);
  CHECK(runner.read(kObject, 0, 10).error() == Errc::kTimedOut);
  CHECK(runner.view().connected == 0);
}

TEST_CASE("a new and empty store may take the place of a member, one with objects may not") {
  const TargetRig rig;
  LinkOptions options = quick_link();
  options.patience = 1000ms;
  {
    const auto target = rig.start();
    RemoteRunner runner(rig, rig.local());
    REQUIRE(runner.write(kObject, 0, "precious"));
  }
  std::filesystem::remove_all(rig.folder.path() + "/objects");
  {
    const auto target = rig.start();
    RemoteRunner runner(rig, rig.local(), options, 1, 'a', true);
    CHECK_FALSE(runner.read(kObject, 0, 10));
    REQUIRE(runner.eventually([&] { return runner.remote().offered(); }));
    REQUIRE(runner.remote().accept());
    CHECK_FALSE(runner.remote().offered());
    CHECK(runner.remote().accept().error() == Errc::kNotFound);
    REQUIRE(runner.write(kObject, 0, "anew"));
  }
  const TargetRig other;  // its folder knows another store
  {
    const auto target = other.start();
    RemoteRunner runner(other, other.local());
    REQUIRE(runner.write(kObject, 0, "other"));
  }
  // Before its objects are counted, too.
  std::promise<void> counts;
  auto config = rig.config();
  config.store.count_wait = 0ms;
  config.store.counting = [go_on = counts.get_future().share()](unsigned) { go_on.wait(); };
  const auto target = ds::Target::open(config).value();
  RemoteRunner runner(other, rig.local(), options, 1, 'a', true);
  CHECK_FALSE(runner.read(kObject, 0, 10));
  CHECK_FALSE(runner.remote().offered());
  counts.set_value();
  CHECK_FALSE(runner.read(kObject, 0, 10));
  CHECK_FALSE(runner.remote().offered());
}

TEST_CASE("without the cluster's key nothing is served") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.patience = 300ms;
  RemoteRunner stranger(rig, rig.local(), options, 1, 'b');
  CHECK(stranger.read(kObject, 0, 10).error() == Errc::kTimedOut);
  CHECK(target->counts().refused > 0);
}

TEST_CASE("a target and its data servers change the key one after the other") {
  const TargetRig rig;
  const auto target = rig.start();
  const auto write_keys = [&](const std::string& text) {
    std::ofstream(rig.folder.path() + "/key", std::ios::trunc) << text;
    REQUIRE(target->tick());
  };
  const auto writes = [&](RemoteRunner& by) {
    by.ring().bind_to_this_thread();
    return by.write(kObject, 0, "bytes").has_value();
  };
  RemoteRunner old(rig, rig.local());
  REQUIRE(writes(old));
  write_keys(key_text('a') + key_text('b'));
  REQUIRE(writes(old));
  const TargetRig other;  // another data server's folder
  RemoteRunner fresh(other, rig.local(), quick_link(), 2, 'b');
  REQUIRE(writes(fresh));
  write_keys(key_text('b') + key_text('a'));
  REQUIRE(writes(old));
  CHECK(old.view().connections.load() == 1);
  write_keys(key_text('b'));
  REQUIRE(writes(fresh));
  CHECK(fresh.view().connections.load() == 1);
  // Its connection was of the key that is gone now, and so it gets no other.
  old.ring().bind_to_this_thread();
  REQUIRE(old.eventually([&] { return old.view().connected.load() == 0; }));
  old.run_for(100ms);
  CHECK(old.view().connected.load() == 0);
}

TEST_CASE("a data server leaves a target whose key it has dropped, and comes back with another") {
  const TargetRig rig;
  const auto target = rig.start();
  const auto key = [](char digit) { return rpc::peer::parse_cluster_key(key_text(digit)).value(); };
  LinkOptions options = quick_link();
  options.prefer_shared_memory = GENERATE(true, false);
  RemoteRunner runner(rig, options.prefer_shared_memory ? rig.local() : by_tcp(*target), options);
  REQUIRE(runner.write(kObject, 0, "old"));
  runner.keys().use({key('b'), key('a')});
  runner.run_for(600ms);  // longer than the link is silent
  CHECK(runner.view().connections.load() == 1);
  // The target has it, too.
  std::ofstream(rig.folder.path() + "/key", std::ios::trunc) << key_text('a') + key_text('b');
  REQUIRE(target->tick());
  runner.keys().use({key('b')});
  REQUIRE(runner.eventually([&] { return runner.view().connections.load() == 2; }));
  REQUIRE(runner.write(kObject, 0, "new"));
  runner.run_for(600ms);
  CHECK(runner.view().connections.load() == 2);
  // With a key that the target does not have there is no connection.
  runner.keys().use({key('c')});
  REQUIRE(runner.eventually([&] { return runner.view().connected.load() == 0; }));
  runner.run_for(300ms);
  CHECK(runner.view().connections.load() == 2);
}

TEST_CASE("a target says which keys it has, anew when they change, while it is there") {
  const TargetRig rig;
  auto target = rig.start();
  LinkOptions options = quick_link();
  options.prefer_shared_memory = GENERATE(true, false);
  const auto address = options.prefer_shared_memory ? rig.local() : by_tcp(*target);
  RemoteRunner runner(rig, address, options);
  const auto fingerprint = [](char digit) {
    return rpc::peer::fingerprint(rpc::peer::parse_cluster_key(key_text(digit)).value());
  };
  const auto says = [&](const std::vector<std::uint64_t>& keys) {
    return runner.eventually([&] {
      const auto told = runner.remote().keys();
      return told && *told == keys;
    });
  };
  CHECK(says({fingerprint('a')}));
  std::ofstream(rig.folder.path() + "/key", std::ios::trunc) << key_text('b') + key_text('a');
  REQUIRE(target->tick());
  CHECK(says({fingerprint('b'), fingerprint('a')}));
  CHECK(runner.view().connections == 1);
  REQUIRE(target->stop());
  target.reset();
  const auto away = [&] {
    const auto told = runner.remote().keys();
    return !told && told.error() == Errc::kUnreachable;
  };
  CHECK(runner.eventually(away));
  CHECK(runner.view().keys().empty());
}

TEST_CASE("a target says which version and options it has, anew when it read its file again") {
  const TargetRig rig;
  auto target = rig.start();
  RemoteRunner runner(rig, rig.local());
  const auto says = [&](const std::string& name, const std::string& value, bool is_default) {
    return runner.eventually([&] {
      const auto told = runner.remote().about();
      if (!told || told->version.empty()) return false;
      return std::ranges::any_of(told->options.options, [&](const rpc::control::Option& one) {
        return one.name == name && one.value == value && (one.by_default == value) == is_default;
      });
    });
  };
  CHECK(says("target.threads", "2", false));
  CHECK(says("target.drain_seconds", "10 s", true));
  TargetConfig next = rig.config();
  next.drain = 7s;
  next.threads = 3;
  target->reload(next);
  CHECK(says("target.drain_seconds", "7 s", false));
  CHECK(says("target.threads", "2", false));  // that needs a restart
  REQUIRE(target->stop());
  target.reset();
  CHECK(runner.eventually([&] {
    const auto told = runner.remote().about();
    return !told && told.error() == Errc::kUnreachable;
  }));
}

TEST_CASE("a connection with nothing to do stays, however short the silence is that is allowed") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.silence = 600ms;
  RemoteRunner runner(rig, rig.local(), options);
  REQUIRE(runner.write(kObject, 0, "x"));
  runner.run_for(5 * options.silence);
  CHECK(runner.view().connections <= 2);  // a machine with much to do may be silent once
}

TEST_CASE("a call that is not answered fails in time, and its memory comes back in the end") {
  const TargetRig rig;
  LinkOptions options = quick_link();
  options.patience = 200ms;
  RemoteRunner runner(rig, rig.local(), options);
  CHECK(runner.write(kObject, 0, "nobody there").error() == Errc::kTimedOut);
  CHECK(runner.pool().in_use_bytes() == 0);
  CHECK(runner.any().usage().error() == Errc::kUnreachable);
  const auto target = rig.start();
  CHECK(runner.eventually([&] { return runner.write(kObject, 0, "now").has_value(); }));
  CHECK(runner.eventually([&] { return runner.any().usage().has_value(); }));
  CHECK(runner.any().usage()->capacity_bytes > 0);
}

TEST_CASE("nothing waits for a target whose data server has stopped serving") {
  const TargetRig rig;
  auto target = rig.start();
  LinkOptions options = quick_link();
  options.patience = options.commit_patience = 60'000ms;
  RemoteRunner runner(rig, rig.local(), options);
  REQUIRE(runner.write(kObject, 0, "weft"));
  target.reset();
  REQUIRE(runner.eventually([&] { return runner.view().connected == 0; }));
  std::optional<Result<WriteVerifier>> committed;
  runner.any().commit(kObject, [&](Result<WriteVerifier> result) { committed = result; });
  runner.run_for(300ms);
  REQUIRE_FALSE(committed);
  runner.remote().wait_for_target(false);
  REQUIRE(runner.eventually([&] { return committed.has_value(); }));
  CHECK(committed->error() == Errc::kTimedOut);
  CHECK(runner.write(kObject, 0, "more").error() == Errc::kTimedOut);
  CHECK_FALSE(runner.remote().settled());
  // It is looked for all the same.
  target = rig.start();
  REQUIRE(runner.eventually([&] { return runner.any().usage().has_value(); }));
  CHECK(runner.remote().settled());
  CHECK(runner.write(kObject, 0, "next"));
  runner.remote().wait_for_target(true);
  target.reset();
  REQUIRE(runner.eventually([&] { return runner.view().connected == 0; }));
  committed.reset();
  runner.any().commit(kObject, [&](Result<WriteVerifier> result) { committed = result; });
  runner.run_for(500ms);
  CHECK_FALSE(committed);
  target = rig.start();
  REQUIRE(runner.eventually([&] { return committed.has_value(); }));
  CHECK(*committed);
}

TEST_CASE("a target that answers, but not a call, is not waited for much longer then") {
  const TargetRig rig;
  ds::TargetConfig config = rig.config();
  config.emulated_disk = {.rate = 400'000, .capacity = 1 << 20};
  const auto target = Target::open(config).value();
  LinkOptions options = quick_link();
  options.silence = 600ms;
  options.patience = 60'000ms;
  RemoteRunner runner(rig, rig.local(), options);
  runner.remote().wait_for_target(false);
  REQUIRE(runner.eventually([&] { return runner.view().connected == 1; }));
  CHECK(runner.write(kObject, 0, "at once"));
  const std::string much(1'000'000, 'w');
  CHECK(runner.write(kObject, 0, much, Stability::kFileSync).error() == Errc::kTimedOut);
  CHECK(runner.view().timed_out == 1);
  CHECK_FALSE(runner.remote().settled());
  CHECK(runner.eventually([&] { return runner.remote().settled(); }));
}

TEST_CASE("what a target said last is not told for ever") {
  const TargetRig rig;
  auto target = rig.start();
  RemoteRunner runner(rig, rig.local(), quick_link());
  REQUIRE(runner.eventually([&] { return runner.any().usage().has_value(); }));
  target.reset();
  CHECK(runner.eventually([&] { return !runner.any().usage(); }));
  CHECK(runner.any().usage().error().text.find("does not answer") != std::string::npos);
  target = rig.start();
  CHECK(runner.eventually([&] { return runner.any().usage().has_value(); }));
}

TEST_CASE("the spaces of a target are on one emulated disk") {
  const TargetRig rig;
  ds::TargetConfig config = rig.config();
  config.emulated_disk = {.rate = 1 << 20, .capacity = 1 << 20};
  const auto target = Target::open(config).value();
  RemoteRunner one(rig, rig.local());
  RemoteRunner other(rig, rig.local(), test::quick_link(), 2);
  const std::string text(200'000, 'x');
  one.ring().bind_to_this_thread();
  const auto began = std::chrono::steady_clock::now();
  REQUIRE(one.write(kObject, 0, text));
  other.ring().bind_to_this_thread();
  REQUIRE(other.write(kObject, 0, text));
  CHECK(std::chrono::steady_clock::now() - began >= 380ms);
  CHECK(other.text(kObject, 0, 300'000) == text);
}

TEST_CASE("a target's configuration names what is wrong with it") {
  const auto text = [](std::string_view body) { return parse_target_config(body, "t.toml"); };
  const auto good = text(
      "[target]\nsocket = \"/run/weft/t.sock\"\nsocket_mode = \"0600\"\n"
      "users = [\"root\", \"1000\"]\nlisten = \"192.0.2.1:9640\"\n"
      "[store]\npath = \"/srv/t\"\nmode = \"direct\"\n"
      "[cluster]\nkey_file = \"/etc/weft/key\"\n");
  REQUIRE(good);
  CHECK(good->socket_mode == 0600);
  CHECK(good->users == std::vector<std::uint32_t>{0, 1000});
  CHECK(check_target_config(*good));
  CHECK(text("[target]\nsokcet = \"/x\"\n").error().text.find("socket") != std::string::npos);
  CHECK(text("[target]\nsocket_mode = \"0999\"\n").error().text.find("t.toml:2") !=
        std::string::npos);
  CHECK_FALSE(check_target_config(*text("[store]\npath = \"/srv/t\"\n")));
  CHECK_FALSE(text("[target]\nusers = \"nobody-of-that-name\"\n"));
  CHECK(text("[cache]\nsize = \"1 GiB\"\n")->cache_bytes == std::size_t{1} << 30);
  CHECK(text("[cache]\nsize = 4096\n").error().text.find("t.toml:2") != std::string::npos);
  CHECK(text("[cache]\nsise = 0\n").error().text.find("'cache.size'") != std::string::npos);
  auto cached = *good;
  cached.cache_bytes = std::size_t{1} << 20;
  CHECK(check_target_config(cached));
  cached.store.mode = IoMode::kBuffered;
  CHECK_FALSE(check_target_config(cached));
  const std::vector<rpc::control::Option> told = target_options(*good).options;
  const auto tells = [&](rpc::control::Option one) {
    return std::ranges::find(told, one) != told.end();
  };
  CHECK(tells({"target.socket_mode", "0600", "0660"}));
  CHECK(tells({"target.users", "0, 1000", ""}));
  CHECK(tells({"target.listen", "192.0.2.1:9640", ""}));
  CHECK(tells({"cluster.key_file", "/etc/weft/key", ""}));
}

TEST_CASE("a target with a cache answers from it, but for who wants to see the disk") {
  const TargetRig rig;
  TargetConfig config = rig.config();
  config.store.mode = IoMode::kDirect;
  config.cache_bytes = std::size_t{8} << 20;
  const auto target = Target::open(config).value();
  LinkOptions options = quick_link();
  const bool shm = GENERATE(true, false);
  options.prefer_shared_memory = shm;
  RemoteRunner runner(rig, shm ? rig.local() : by_tcp(*target), options);
  CHECK(test::behaves_like_strings(runner));
  REQUIRE(target->cache() != nullptr);
  const layout::ObjectId object{.fileid = 9, .generation = 1};  // none of the model's
  const std::string text(100'000, 'x');
  REQUIRE(runner.write(object, 0, text, Stability::kFileSync));
  CHECK(runner.text(object, 0, 200'000) == text);
  const std::uint64_t hits = target->cache()->hits.load();
  CHECK(runner.text(object, 0, 200'000) == text);
  CHECK(target->cache()->hits.load() == hits + 1);
  // What the disk has now, nobody has told the cache.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(config.store.path)) {
    if (!entry.is_regular_file() || entry.file_size() != text.size()) continue;
    std::fstream(entry.path(), std::ios::in | std::ios::out) << "rot";
  }
  const auto seen = runner.wait<ReadResult>([&](auto done) {
    runner.any().read({.object = object, .count = 100, .uncached = true}, std::move(done));
  });
  CHECK(seen->payload.flatten().value()[0] == std::byte{'r'});
  CHECK(runner.text(object, 0, 3) == "xxx");
}

TEST_CASE("a store is not settled from when a call fails until the target says hello") {
  const TargetRig rig;
  const TargetChild child(rig);
  LinkOptions options = quick_link();
  options.silence = 20'000ms;
  options.patience = 300ms;
  RemoteRunner runner(rig, rig.local(), options);
  REQUIRE(runner.eventually([&] { return runner.view().connected.load() == 1; }));
  CHECK(runner.remote().settled());
  child.tell(SIGSTOP);
  bool settled_then = true;
  const auto failed = runner.wait<WriteResult>([&](auto done) {
    std::vector<Buffer> data;
    data.push_back(runner.buffer("late"));
    runner.any().write(kObject, 0, std::move(data), Stability::kUnstable,
                       [&, done = std::move(done)](Result<WriteResult> result) mutable {
                         settled_then = runner.remote().settled();
                         done(std::move(result));
                       });
  });
  CHECK(failed.error() == Errc::kTimedOut);
  CHECK_FALSE(settled_then);
  CHECK_FALSE(runner.remote().settled());
  child.tell(SIGCONT);
  CHECK(runner.eventually([&] { return runner.remote().settled(); }));
}

// A disk that takes long to make the name of one object durable.
class SlowName final : public Faults {
 public:
  static constexpr layout::ObjectId kSlow{.fileid = 2, .generation = 1};
  [[nodiscard]] bool allows_past() const override { return true; }
  int entry_sync_error(const layout::ObjectId& object) override {
    for (int i = 0; object == kSlow && i < 20'000 && !go_on; ++i) std::this_thread::sleep_for(1ms);
    return 0;
  }
  std::atomic<bool> go_on{false};
};

TEST_CASE("nothing is written past a target while a call of any thread may be carried out yet") {
  const TargetRig rig;
  SlowName disk;
  ds::TargetConfig config = rig.config();
  config.store.faults = &disk;
  const auto target = Target::open(config).value();
  LinkOptions options = quick_link();
  options.commit_patience = 300ms;
  RemoteRunner runner(rig, rig.local(), options, 1, 'a', false, 64, 2);
  REQUIRE(runner.eventually([&] { return runner.view().connected.load() == 2; }));
  runner.be_thread(1);
  REQUIRE(runner.write(kObject, 0, "old"));
  REQUIRE(runner.write(kObject, 0, "new"));
  REQUIRE(runner.view().past_written == 3);
  runner.be_thread(0);
  const auto late = runner.write(SlowName::kSlow, 0, "late", Stability::kFileSync);
  CHECK(late.error() == Errc::kTimedOut);
  // The other thread's connection is as good as ever, and is given a descriptor again.
  runner.be_thread(1);
  REQUIRE(runner.write(kObject, 0, "next"));
  REQUIRE(runner.write(kObject, 0, "more"));
  CHECK_FALSE(runner.remote().settled());
  CHECK(runner.view().past_written == 3);
  disk.go_on = true;
  REQUIRE(runner.eventually([&] { return runner.remote().settled(); }));
  REQUIRE(runner.write(kObject, 0, "past"));
  CHECK(runner.view().past_written == 7);
  CHECK(runner.text(kObject, 0, 10) == "past");
}

TEST_CASE("a data server that was stopped for a while finds its target's answers") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.silence = 300ms;
  options.patience = 500ms;
  options.prefer_shared_memory = false;
  RemoteRunner runner(rig, by_tcp(*target), options);
  const std::string text(std::size_t{1} << 20, 'x');
  REQUIRE(runner.write(kObject, 0, text, Stability::kFileSync));
  std::vector<Result<ReadResult>> results;
  for (int i = 0; i < 8; ++i) {
    runner.any().read(kObject, 0, 1 << 20,
                      [&](Result<ReadResult> result) { results.push_back(std::move(result)); });
  }
  std::this_thread::sleep_for(2500ms);
  REQUIRE(runner.eventually([&] { return results.size() == 8; }));
  for (auto& result : results) CHECK(result.has_value());
  CHECK(runner.view().timed_out.load() == 0);
  CHECK(runner.view().connections.load() == 1);
}

TEST_CASE("who connects while a target goes down is closed, and goes with it") {
  const TargetRig rig;
  BufferPool pool(std::size_t{1} << 20);
  Spaces spaces({.base = rig.config().store, .max_spaces = 1}, pool, nullptr);
  std::weak_ptr<rpc::Channel> gone;
  {
    TargetServer server({.spaces = spaces,
                         .keys = std::make_shared<rpc::peer::Keyring>(
                             rpc::peer::parse_cluster_key(key_text('a')).value()),
                         .socket = "",
                         .random = system_random()});
    CHECK(server.stop(0ms));
    const auto late = std::make_shared<rpc::test::SilentChannel>();
    gone = late;
    server.serve(late);
    CHECK(late->closed == Errc::kClosed);
    CHECK(server.counts().connections == 1);
  }
  CHECK(gone.expired());
  spaces.stop();
  CHECK(spaces.close());
}

TEST_CASE("where a target is comes as unix:PATH, tcp:HOST:PORT or HOST:PORT") {
  CHECK(parse_target_address("unix:/run/t").value().path == "/run/t");
  CHECK(to_string(parse_target_address("tcp:192.0.2.1:7").value()) == "tcp:192.0.2.1:7");
  CHECK(parse_target_address("[2001:db8::1]:7").value().path.empty());
  const TargetAddress named = parse_target_address("tcp:disks1.example:7").value();
  CHECK(named.host == "disks1.example");
  CHECK(named.inet.port == 7);
  CHECK(to_string(named) == "tcp:disks1.example:7");
  CHECK(named == parse_target_address("disks1.example:7").value());
  CHECK_FALSE(named == parse_target_address("disks2.example:7").value());
  CHECK_FALSE(parse_target_address("unix:run/t"));
  CHECK_FALSE(parse_target_address("tcp:192.0.2.1:0"));
  CHECK_FALSE(parse_target_address("tcp:disks1:0"));
  CHECK_FALSE(parse_target_address("tcp:disks1"));
  CHECK_FALSE(parse_target_address("tcp:192.0.2:7"));  // meant to be numeric
  CHECK_FALSE(parse_target_address("rdma:192.0.2.1:7"));
}

}  // namespace
}  // namespace weft::ds
