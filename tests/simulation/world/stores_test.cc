// The programs' own stores on simulated disks: what they have answered as durable is there after a
// power failure at any moment.
#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataserver/ring/io_ring.h"
#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "tests/dataserver/store/store_runner.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/disk_folder.h"
#include "tests/simulation/world/fork.h"

namespace weft::sim {
namespace {

constexpr std::uint64_t kCapacity = std::uint64_t{1} << 30;
constexpr Ns kMostUntilPowerFails = 100 * kMillisecond;

// What a program does until power fails, and how far it has come by its own account.
struct Work {
  std::uint64_t answered = 0;  // as durable
  bool stop = false;
};

// Runs `write` on a thread until power fails; then `check` on what the disk has kept.
template <class Write, class Check>
void fail_power(const std::string& folder, Write write, Check check) {
  const unsigned disk = disk::make(folder, kCapacity);
  // Some seeds go on with what was kept, until power fails once more.
  const std::uint64_t rounds = choose(4) == 0 ? 2 : 1;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Work work;
    std::thread writer([&] { write(disk::path(disk) + "/store", work); });
    sleep_until(now() + static_cast<Ns>(choose(kMostUntilPowerFails)));
    const std::string kept = disk::lose_power(disk);
    const std::uint64_t answered = work.answered;
    work.stop = true;
    writer.join();
    note(answered);
    check(kept + "/store", answered);
  }
}

std::unique_ptr<mds::KvStore> open_kv(const std::string& path, bool sync = true) {
  auto store = mds::open_rocks_kv({.path = path,
                                   .sync = sync,
                                   .block_cache_bytes = std::size_t{1} << 20,
                                   .write_buffer_bytes = std::size_t{64} << 10,
                                   .clock = system_clock()});
  if (!store) std::fprintf(stderr, "%s\n", store.error().describe().c_str());
  SIM_CHECK(store.has_value());
  return std::move(*store);
}
std::string value_of(std::uint64_t i) { return std::string(i * 37 % 3'000, 'v'); }
void put_some(const std::string& path, Work& work, bool sync) {
  const auto store = open_kv(path, sync);
  for (std::uint64_t i = 0; !work.stop; ++i) {
    auto transaction = store->begin();
    transaction->put("key" + std::to_string(i), value_of(i));
    const auto commit = transaction->commit();
    SIM_CHECK(commit.has_value());
    SIM_CHECK(store->wait_durable(*commit).has_value());
    work.answered = i + 1;
  }
}
void put_synced(const std::string& path, Work& work) { put_some(path, work, true); }
void put_unsynced(const std::string& path, Work& work) { put_some(path, work, false); }
void check_kv(const std::string& path, std::uint64_t answered) {
  if (answered == 0) return;
  const auto store = open_kv(path);
  for (std::uint64_t i = 0; i < answered; ++i) {
    const auto found = store->latest().peek("key" + std::to_string(i));
    SIM_CHECK(found.has_value() && found->has_value() && **found == value_of(i));
  }
}

ds::FileStoreOptions store_at(const std::string& path) {
  ds::FileStoreOptions options;
  options.path = path;
  options.create = true;
  return options;
}
layout::ObjectId object_at(std::uint64_t i) { return {.fileid = i / 3, .generation = 1}; }
std::uint64_t offset_at(std::uint64_t i) { return i % 3 * 5'000; }
std::string contents_of(std::uint64_t i) {
  return std::string(100 + i * 37 % 4'000, static_cast<char>('a' + i % 26));
}
void write_some(const std::string& path, Work& work) {
  test::StoreRunner runner(store_at(path));
  for (std::uint64_t i = 0; !work.stop; ++i) {
    const bool commit = i % 2 == 0;
    const auto how = commit ? ds::Stability::kUnstable : ds::Stability::kFileSync;
    SIM_CHECK(runner.write(object_at(i), offset_at(i), contents_of(i), how).has_value());
    if (commit) SIM_CHECK(runner.commit(object_at(i)).has_value());
    work.answered = i + 1;
  }
}
void check_store(const std::string& path, std::uint64_t answered) {
  if (answered == 0) return;
  test::StoreRunner runner(store_at(path));
  for (std::uint64_t i = 0; i < answered; ++i) {
    const std::string expected = contents_of(i);
    const auto size = static_cast<std::uint32_t>(expected.size());
    SIM_CHECK(runner.text(object_at(i), offset_at(i), size) == expected);
  }
}

TEST_CASE("a metadata store loses nothing that it has synced") {
  const DiskFolder folder;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    folder.empty();
    INFO("seed " << seed);
    CHECK(in_simulation(seed, [&] { fail_power(folder.disk(), put_synced, check_kv); }).status ==
          0);
  }
}

TEST_CASE("a metadata store that does not sync is found out") {
  const DiskFolder folder;
  int lost = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    folder.empty();
    const Outcome outcome =
        in_simulation(seed, [&] { fail_power(folder.disk(), put_unsynced, check_kv); });
    if (outcome.status != 0) ++lost;
  }
  CHECK(lost > 0);
}

TEST_CASE("a data server's store loses nothing that it has committed") {
  const DiskFolder folder;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    folder.empty();
    INFO("seed " << seed);
    CHECK(in_simulation(seed, [&] { fail_power(folder.disk(), write_some, check_store); }).status ==
          0);
  }
}

std::string uncached(test::StoreRunner& runner, const layout::ObjectId& object,
                     std::uint32_t size) {
  const auto read = runner.wait<ds::ReadResult>([&](auto done) {
    runner.any().read({.object = object, .count = size, .uncached = true}, std::move(done));
  });
  SIM_CHECK(read.has_value());
  const auto bytes = read->payload.flatten().value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Who makes copies equal relies on it: what differs on the disk must differ when it is compared.
TEST_CASE(
    "after a sync that failed, a store's uncached reads show what power failure would leave") {
  const DiskFolder folder;
  const auto run = [&folder] {
    const unsigned disk = disk::make(folder.disk(), kCapacity);
    const std::string path = disk::path(disk) + "/store";
    const std::string before(20'000, 'b');
    const std::string after(20'000, 'a');
    std::string seen;
    {
      test::StoreRunner runner(store_at(path));
      SIM_CHECK(runner.write(object_at(0), 0, before).has_value());
      SIM_CHECK(runner.commit(object_at(0)).has_value());
      SIM_CHECK(runner.write(object_at(0), 0, after).has_value());
      disk::behave(disk, {.errors_in_million = 1'000'000});
      SIM_CHECK(!runner.commit(object_at(0)).has_value());
      disk::behave(disk, {});
      SIM_CHECK(runner.text(object_at(0), 0, 20'000) == after);
      seen = uncached(runner, object_at(0), 20'000);
    }
    const std::string kept = disk::lose_power(disk);
    test::StoreRunner runner(store_at(kept + "/store"));
    SIM_CHECK(runner.text(object_at(0), 0, 20'000) == seen);
    SIM_CHECK(seen != after);
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    folder.empty();
    INFO("seed " << seed);
    CHECK(in_simulation(seed, run).status == 0);
  }
}

TEST_CASE("stores on a disk run the same way again") {
  const DiskFolder folder;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<Outcome> outcomes;
    for (int time = 0; time < 2; ++time) {
      folder.empty();
      outcomes.push_back(in_simulation(seed, [&] {
        fail_power(folder.disk(0), put_synced, check_kv);
        fail_power(folder.disk(1), write_some, check_store);
      }));
    }
    INFO("seed " << seed);
    CHECK(outcomes[0].status == 0);
    CHECK(outcomes[0] == outcomes[1]);
  }
}

// Many reads, writes and syncs at once, by a ring; more than its queues hold.
void use_ring(const std::string& path) {
  boost::asio::io_context context;
  auto ring = ds::IoRing::create(context, 0, 8).value();
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  std::array<std::array<char, 100>, 200> blocks{};
  std::array<iovec, 200> vectors{};
  int done = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].fill(static_cast<char>(i));
    vectors[i] = {blocks[i].data(), blocks[i].size()};
    ring->writev(fd, {&vectors[i], 1}, i * 100, [&done](int result) {
      SIM_CHECK(result == 100);
      ++done;
    });
  }
  ring->fdatasync(fd, [&done](int result) {
    SIM_CHECK(result == 0);
    ++done;
  });
  while (done < 201) {
    context.restart();
    context.run_one();
  }
  for (auto& block : blocks) block.fill('?');
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ring->readv(fd, {&vectors[i], 1}, i * 100, [&done](int result) {
      SIM_CHECK(result == 100);
      ++done;
    });
  }
  while (done < 401) {
    context.restart();
    context.run_one();
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    SIM_CHECK(blocks[i][0] == static_cast<char>(i) && blocks[i][99] == static_cast<char>(i));
  }
  context.restart();
  context.poll();
}

TEST_CASE("a ring does what it was asked, in any order") {
  const DiskFolder folder;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    folder.empty();
    INFO("seed " << seed);
    CHECK(in_simulation(seed, [&] {
            const unsigned disk = disk::make(folder.disk(), kCapacity);
            use_ring(disk::path(disk) + "/file");
          }).status == 0);
  }
}

}  // namespace
}  // namespace weft::sim
