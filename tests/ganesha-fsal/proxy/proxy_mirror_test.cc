// Proxied I/O of files with several copies.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "rpc/control/mds_boot.h"
#include "tests/ganesha-fsal/proxy/proxy_fixture.h"

using namespace weft;
using namespace weft::mds;
using rpc::nfs4::Status;

namespace {

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

TEST_CASE("a write goes to each stripe's leader, with a handle that names the partners") {
  ProxyFixture f(2, 2);
  f.file.map.object_epoch = 7;
  f.file.leads = {1, 0};
  const auto data = pattern(4 * kUnit, 1);
  REQUIRE(f.write(0, data));
  CHECK(f.objects(1).writes == 0);
  CHECK(f.objects(2).writes == 2);
  CHECK(f.objects(3).writes == 2);
  CHECK(f.objects(4).writes == 0);
  const layout::Handle handle = f.objects(3).last_write;
  CHECK(handle.access == layout::Access::kReadWrite);
  CHECK(handle.object_epoch == 7);
  CHECK(handle.client_id == rpc::control::kOwnClientId);
  CHECK(handle.duplication == layout::Duplication::kServerSync);
  CHECK(handle.partners == std::array<std::uint32_t, 2>{1, 0});
  CHECK(f.objects(1).object == f.objects(3).object);
  CHECK(f.objects(2).object == f.objects(4).object);
  CHECK(f.bytes(0, 4 * kUnit) == data);
}

TEST_CASE("the way of duplication is the map's, as far as servers know it") {
  ProxyFixture f(1, 3);
  f.file.map.duplication = layout::Duplication::kServerAsync;
  REQUIRE(f.write(0, pattern(100, 1)));
  CHECK(f.objects(1).last_write.duplication == layout::Duplication::kServerAsync);
  CHECK(f.objects(1).last_write.partners == std::array<std::uint32_t, 2>{2, 3});
  f.file.map.duplication = layout::Duplication::kClientSync;
  REQUIRE(f.write(0, pattern(100, 1)));
  CHECK(f.objects(1).last_write.duplication == layout::Duplication::kServerSync);
}

TEST_CASE("a file with one copy is written with the metadata server's own right") {
  ProxyFixture f(2);
  f.file.map.object_epoch = 7;
  REQUIRE(f.write(0, pattern(2 * kUnit, 1)));
  CHECK(f.objects(1).last_write.access == layout::Access::kControl);
  CHECK(f.objects(1).last_write.object_epoch == 7);
  CHECK(f.objects(1).last_write.duplication == layout::Duplication::kNone);
}

TEST_CASE("what goes by a map of before a fence is refused, whatever it is") {
  ProxyFixture f(1);
  REQUIRE(f.write(0, pattern(100, 1)));
  f.objects(1).least_epoch = f.file.map.object_epoch + 1;
  CHECK(f.write(0, pattern(100, 2)).error() == Errc::kAccess);
  CHECK(f.commit().error() == Errc::kAccess);
  CHECK(f.read(0, 100).error() == Errc::kAccess);
}

TEST_CASE("leads that are not of the map are refused") {
  ProxyFixture f(2, 2);
  f.file.leads = {0};
  CHECK(f.write(0, pattern(1, 1)).error() == Errc::kInvalid);
  f.file.leads = {0, 2};
  CHECK(f.commit().error() == Errc::kInvalid);
  CHECK(f.failures.empty());
}

TEST_CASE("COMMIT goes to the leaders") {
  ProxyFixture f(2, 2);
  f.file.leads = {1, 0};
  const auto written = f.write(0, pattern(2 * kUnit, 1));
  REQUIRE(written);
  CHECK(f.commit().value() == written->verifier);
  CHECK(f.objects(3).commits == 1);
  CHECK(f.objects(2).commits == 1);
  CHECK(f.objects(1).commits + f.objects(4).commits == 0);
}

TEST_CASE("units of a stripe are read from its copies in turn, or from one, as the map says") {
  ProxyFixture f(2, 2);
  const auto data = pattern(8 * kUnit, 1);
  REQUIRE(f.write(0, data));
  CHECK(f.bytes(0, 8 * kUnit) == data);
  for (std::uint32_t id = 1; id <= 4; ++id) CHECK(f.objects(id).reads == 2);
  f.file.map.reads = layout::ReadPolicy::kOneCopy;
  CHECK(f.bytes(0, 8 * kUnit) == data);
  CHECK(f.objects(1).reads == 6);
  CHECK(f.objects(3).reads == 2);
  f.read_leads = true;
  f.file.leads = {1, 1};
  CHECK(f.bytes(0, 8 * kUnit) == data);
  CHECK(f.objects(1).reads == 6);
  CHECK(f.objects(3).reads == 6);
}

TEST_CASE("only current copies are read, stripe by stripe") {
  ProxyFixture f(2, 2);
  const auto data = pattern(8 * kUnit, 1);
  REQUIRE(f.write(0, data));
  f.file.map.copies[0].set_state(0, layout::CopyState::kStale);
  f.file.map.copies[1].set_state(1, layout::CopyState::kResyncing);
  CHECK(f.bytes(0, 8 * kUnit) == data);
  CHECK(f.objects(1).reads + f.objects(4).reads == 0);
  f.file.map.copies[1].set_state(0, layout::CopyState::kStale);
  CHECK_FALSE(f.read(0, kUnit));
}

TEST_CASE("a read takes another copy when one fails, is gone, or is silent") {
  ProxyFixture f(2, 2);
  const auto data = pattern(8 * kUnit, 1);
  REQUIRE(f.write(0, data));
  SECTION("an error") {
    f.objects(1).failure = Status::NFS4ERR_IO;
    CHECK(f.bytes(0, 8 * kUnit) == data);
    CHECK(f.objects(3).reads == 4);
  }
  SECTION("gone: it is not even asked") {
    f.lose(3);
    CHECK(f.bytes(0, 8 * kUnit) == data);
    CHECK(f.objects(3).reads == 0);
  }
  SECTION("dead, and nobody has noticed") {
    f.servers[0]->stop();
    CHECK(f.bytes(0, 8 * kUnit) == data);
  }
  SECTION("silent") {
    {
      const std::lock_guard lock(f.objects(1).mutex);
      f.objects(1).silent = true;
    }
    const auto began = std::chrono::steady_clock::now();
    CHECK(f.bytes(0, 8 * kUnit) == data);
    CHECK(std::chrono::steady_clock::now() - began < 4s);
  }
  SECTION("all: the error is the caller's") {
    f.objects(1).failure = Status::NFS4ERR_IO;
    f.objects(3).failure = Status::NFS4ERR_IO;
    CHECK(f.read(0, 8 * kUnit).error() == Errc::kIo);
  }
}

TEST_CASE("a hole in one copy reads as zeros from any") {
  ProxyFixture f(1, 2);
  REQUIRE(f.write(4 * kUnit, pattern(kUnit, 1)));
  // The second copy's object ends where a hole begins: it was made equal without writing zeros.
  f.objects(2).object.resize(0);
  f.set_size(5 * kUnit);
  CHECK(all_zero(f.bytes(0, 4 * kUnit)));
  CHECK(f.objects(1).reads > 0);
}

TEST_CASE("failures name the data server and say how it failed") {
  ProxyFixture f(2, 2);
  SECTION("fenced: the map is old") {
    f.objects(2).least_epoch = 2;
    CHECK(f.write(0, pattern(4 * kUnit, 1)).error() == Errc::kAccess);
    REQUIRE(f.failures.size() == 1);
    CHECK(f.failures[0].ds_id == 2);
    CHECK(f.failures[0].error == Errc::kAccess);
    f.file.map.object_epoch = 2;  // read anew
    CHECK(f.write(0, pattern(4 * kUnit, 1)));
    CHECK(f.failures.empty());
  }
  SECTION("full, and gone") {
    f.objects(1).failure = Status::NFS4ERR_NOSPC;
    f.kill(2);
    CHECK_FALSE(f.write(0, pattern(4 * kUnit, 1)));
    REQUIRE(f.failures.size() == 2);
    std::ranges::sort(f.failures, {}, &Failure::ds_id);
    CHECK(f.failures[0].error == Errc::kNoSpace);
    CHECK(f.failures[1].error == Errc::kUnreachable);
  }
}

TEST_CASE("a data server that is busy until the deadline is not dead") {
  ProxyFixture f(2, 2, 300ms);
  f.objects(1).delays = 1 << 20;
  CHECK(f.write(0, pattern(kUnit, 1)).error() == Errc::kBusy);
}

TEST_CASE("a leader that dies while it writes fails the write at once; the next one has it all") {
  ProxyFixture f(2, 2);
  const auto data = pattern(8 * kUnit, 1);
  {
    const std::lock_guard lock(f.objects(2).mutex);
    f.objects(2).silent = true;
  }
  std::thread killer([&] {
    for (int i = 0; i < 2000; ++i) {
      {
        const std::lock_guard lock(f.objects(2).mutex);
        if (!f.objects(2).held.empty()) break;
      }
      std::this_thread::sleep_for(1ms);
    }
    f.lose(2);
  });
  const auto began = std::chrono::steady_clock::now();
  CHECK(f.write(0, data).error() == Errc::kUnreachable);
  CHECK(std::chrono::steady_clock::now() - began < 4s);
  killer.join();
  REQUIRE(f.failures.size() == 1);
  CHECK(f.failures[0].ds_id == 2);
  f.file.leads = {0, 1};
  f.file.map.object_epoch = 2;
  f.file.map.copies[0].set_state(1, layout::CopyState::kStale);
  REQUIRE(f.write(0, data));
  CHECK(f.bytes(0, 8 * kUnit) == data);
  CHECK(f.objects(2).reads == 0);
}

TEST_CASE("what was written unstable through other leaders is written again") {
  ProxyFixture f(1, 2);
  const auto written = f.write(0, pattern(kUnit, 1));
  REQUIRE(written);
  f.file.leads = {1};  // the other never had to say anything of what the first may have lost
  CHECK(f.commit().value() != written->verifier);
  const auto again = f.write(0, pattern(kUnit, 1));
  REQUIRE(again);
  CHECK(f.commit().value() == again->verifier);
}

TEST_CASE("what was written unstable to a data server that the file has left is written again") {
  ProxyFixture f(1, 2);
  f.file.map.copies.resize(1);
  f.file.leads = {0};
  const auto written = f.write(0, pattern(kUnit, 1));
  REQUIRE(written);
  {
    const std::lock_guard lock(f.objects(1).mutex);
    f.objects(1).verifier = 77;  // it restarts, and nobody asks it for anything
  }
  SECTION("it was moved") { f.file.map.copies.front().ds_ids = {2}; }
  SECTION("it is being moved") {
    f.file.map.copies.push_back(f.file.map.copies.front());
    f.file.map.copies.back().ds_ids = {2};
  }
  CHECK(f.commit().value() != written->verifier);
  const auto again = f.write(0, pattern(kUnit, 1));
  REQUIRE(again);
  CHECK(f.commit().value() == again->verifier);
}

TEST_CASE("a leader's verifier is its own with each set of partners") {
  ProxyFixture f(1, 2);
  const auto first = f.write(0, pattern(100, 1));
  REQUIRE(first);
  ProxyIo::File alone = f.file;
  alone.map.copies.resize(1);
  alone.object.fileid += 1;
  {
    const std::lock_guard lock(f.objects(1).mutex);
    f.objects(1).verifier = 77;  // of files that it holds alone
  }
  const auto [other, failed] = await_with<ProxyIo::WriteResult, Failures>([&](auto done) {
    const auto data = pattern(100, 1);
    const std::span<const std::byte> piece(data);
    f.proxy->write(alone, 0, {&piece, 1}, ProxyIo::Stability::kUnstable, std::move(done));
  });
  REQUIRE(other);
  {
    const std::lock_guard lock(f.objects(1).mutex);
    f.objects(1).verifier = 1;
  }
  CHECK(f.commit().value() == first->verifier);
}
