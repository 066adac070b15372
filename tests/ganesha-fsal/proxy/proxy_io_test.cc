// Proxied I/O against data servers that are real NFSv4.1 session servers on loopback, with objects
// in memory.

#include "ganesha-fsal/proxy/proxy_io.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <future>
#include <thread>

#include "rpc/control/mds_boot.h"
#include "tests/ganesha-fsal/proxy/proxy_fixture.h"

using namespace weft;
using namespace weft::mds;
using rpc::nfs4::Status;

TEST_CASE("what is written over several data servers reads back, each with its part") {
  ProxyFixture f(3);
  const auto data = pattern(10 * kUnit + 777, 1);
  const auto written = f.write(5, data);
  REQUIRE(written);
  CHECK(written->bytes == data.size());
  CHECK(written->stability == ProxyIo::Stability::kUnstable);
  CHECK(f.bytes(5, static_cast<std::uint32_t>(data.size())) == data);
  const auto middle = f.bytes(kUnit - 1, 2 * kUnit);
  CHECK(std::equal(middle.begin(), middle.end(), data.begin() + kUnit - 6));
  for (std::uint32_t id = 1; id <= 3; ++id) CHECK(f.objects(id).writes > 0);
  // Sparse packing: server 2 holds the second unit at its place in the file.
  CHECK(std::equal(data.begin() + kUnit - 5, data.begin() + 2 * kUnit - 5,
                   f.objects(2).object.begin() + kUnit));
}

TEST_CASE("reads end at the file's size, with eof there") {
  ProxyFixture f(2);
  REQUIRE(f.write(0, pattern(1000, 2)));
  const auto all = f.read(0, 5000);
  REQUIRE(all);
  CHECK(all->data.size() == 1000);
  CHECK(all->eof);
  const auto part = f.read(0, 999);
  REQUIRE(part);
  CHECK(part->data.size() == 999);
  CHECK_FALSE(part->eof);
  const auto past = f.read(1000, 10);
  REQUIRE(past);
  CHECK(past->data.size() == 0);
  CHECK(past->eof);
}

TEST_CASE("bytes that no object holds are zeros up to the file's size") {
  ProxyFixture f(3);
  REQUIRE(f.write(0, pattern(100, 3)));
  f.set_size(5 * kUnit);
  const auto data = f.bytes(0, 5 * kUnit);
  REQUIRE(data.size() == 5 * kUnit);
  CHECK(std::equal(data.begin(), data.begin() + 100, pattern(100, 3).begin()));
  CHECK(std::all_of(data.begin() + 100, data.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("a data server that knows less of the size than we do is no loss") {
  ProxyFixture f(2);
  REQUIRE(f.write(0, pattern(100, 4)));
  f.size = 3 * kUnit;  // not told to the data servers: they answer eof early
  CHECK(f.bytes(0, 3 * kUnit).size() == 3 * kUnit);
}

TEST_CASE("writes leave memory for the answers that end them") {
  ProxyFixture f(1);
  BufferPool small(1U << 20);
  ProxyIo proxy(f.config(20s), *f.registry, small);
  const std::vector<std::byte> byte(1);
  const std::span<const std::byte> data(byte);
  std::mutex mutex;
  std::size_t well = 0;
  std::vector<Errc> failed;
  const auto write = [&](std::uint64_t at) {
    proxy.write(f.file, at, {&data, 1}, ProxyIo::Stability::kUnstable,
                [&](const Result<ProxyIo::WriteResult>& result, const Failures&) {
                  const std::lock_guard lock(mutex);
                  if (result) return void(++well);
                  failed.push_back(result.error().code);
                });
  };
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return well + failed.size();
  };
  const auto await_count = [&](std::size_t wanted) {
    const auto until = std::chrono::steady_clock::now() + 8s;
    while (count() < wanted && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(10ms);
    }
    return count() == wanted;
  };
  write(0);
  REQUIRE(await_count(1));
  f.set_silent(1, true);
  std::size_t begun = 1;
  while (count() == 1 && begun < 500) write(begun++);
  REQUIRE(count() == 2);  // one was refused
  f.servers[0]->let_go(Status::NFS4ERR_DELAY);
  CHECK(await_count(begun));
  const std::lock_guard lock(mutex);
  CHECK(failed == std::vector{Errc::kBusy});
}

TEST_CASE("short reads are continued, delays waited out") {
  ProxyFixture f(2);
  const auto data = pattern(3 * kUnit, 5);
  REQUIRE(f.write(0, data));
  f.objects(1).half_reads = true;
  f.objects(2).delays = 2;
  CHECK(f.bytes(0, 3 * kUnit) == data);
}

TEST_CASE("a data server's error is the caller's") {
  ProxyFixture f(2);
  f.objects(2).failure = Status::NFS4ERR_NOSPC;
  CHECK(f.write(0, pattern(2 * kUnit, 6)).error() == Errc::kNoSpace);
  f.objects(2).failure = Status::NFS4ERR_IO;
  CHECK(f.commit().error() == Errc::kIo);
  CHECK(f.write(layout::kMaxFileSize, pattern(1, 1)).error() == Errc::kFileTooLarge);
}

TEST_CASE("the verifier changes when a data server's does") {
  ProxyFixture f(2);
  const auto first = f.write(0, pattern(2 * kUnit, 7));
  REQUIRE(first);
  CHECK(f.commit().value() == first->verifier);
  CHECK(f.objects(1).commits == 1);
  CHECK(f.objects(2).commits == 1);
  {
    const std::lock_guard lock(f.objects(2).mutex);
    f.objects(2).verifier = 2;  // it restarted
  }
  CHECK(f.commit().value() != first->verifier);
  const auto second = f.write(0, pattern(2 * kUnit, 8));
  REQUIRE(second);
  CHECK(f.commit().value() == second->verifier);
}

TEST_CASE("a data server that moved is found at its new address") {
  ProxyFixture f(1);
  const auto data = pattern(1000, 9);
  REQUIRE(f.write(0, data));
  auto moved = std::make_unique<FakeNfs>(1, f.threads, f.pool, f.peers);
  moved->objects.object = f.objects(1).object;
  moved->objects.file_size = f.size;
  std::swap(f.servers[0], moved);
  moved->stop();
  f.add(1);
  CHECK(f.bytes(0, 1000) == data);
}

TEST_CASE("stopping completes what waits for a data server that is not there") {
  ProxyFixture f(1);
  control::Register request;
  request.store.fill(std::byte{99});
  request.addresses = {layout::make_address("127.0.0.1", 1).value()};
  REQUIRE(f.registry->register_server(request.addresses[0], request)->ds_id == 2);
  f.file.map.copies[0].ds_ids = {2};
  std::promise<Errc> failed;
  f.proxy->commit(f.file, [&](const Result<std::uint64_t>& result, const Failures&) {
    failed.set_value(result ? Errc::kInternal : result.error().code);
  });
  f.proxy->stop();
  const Errc code = failed.get_future().get();
  CHECK((code == Errc::kClosed || code == Errc::kCancelled || code == Errc::kUnreachable));
  CHECK(f.commit().error() == Errc::kClosed);
}

TEST_CASE("nothing waits for a data server that is gone, with one copy either") {
  ProxyFixture f(2, 1, 60s);
  const auto data = pattern(2 * kUnit, 10);
  REQUIRE(f.write(0, data));
  f.objects(2).silent = true;
  const auto begun = std::chrono::steady_clock::now();
  SECTION("while it is asked") {
    std::thread loss([&] {
      std::this_thread::sleep_for(200ms);
      f.lose(2);
    });
    CHECK(f.read(0, 2 * kUnit).error() == Errc::kUnreachable);
    loss.join();
  }
  SECTION("when it is known before") {
    f.lose(2);
    CHECK(f.read(0, 2 * kUnit).error() == Errc::kUnreachable);
    CHECK(f.write(0, data).error() == Errc::kUnreachable);
    CHECK(f.commit().error() == Errc::kUnreachable);
  }
  CHECK(std::chrono::steady_clock::now() - begun < 30s);
  CHECK(f.bytes(0, kUnit).size() == kUnit);  // of the other
}

TEST_CASE("a write that was given up is not carried out over a later one") {
  ProxyFixture f(1, 1, 300ms);
  const auto first = pattern(1000, 1);
  const auto last = pattern(1000, 2);
  REQUIRE(f.write(0, last));
  const int before = f.objects(1).writes;
  f.give_up_a_write(first);
  SECTION("it is carried out before the later one, or the later one is not either") {
    CHECK(f.write(0, last).error() == Errc::kTimedOut);
    CHECK(f.objects(1).writes == before);
    f.file.object.fileid += 1;  // another's object is written
    CHECK(f.write(0, last));
  }
  SECTION("when its data server was restarted it is settled") {
    auto again = std::make_unique<FakeNfs>(1, f.threads, f.pool, f.peers);
    again->objects.object = f.objects(1).object;
    again->objects.file_size = f.size;
    std::swap(f.servers[0], again);
    again->stop();
    f.add(1);
    const auto end = std::chrono::steady_clock::now() + 20s;
    bool written = false;
    while (!written && std::chrono::steady_clock::now() < end) {
      written = f.write(0, last).has_value();
    }
    CHECK(written);
    CHECK_FALSE(f.proxy->unsettled(f.file.object, f.file.map));
    CHECK(f.bytes(0, 1000) == last);
  }
}

TEST_CASE("a data server with other addresses is still who was sent what was given up") {
  ProxyFixture f(1, 1, 300ms);
  const auto first = pattern(1000, 1);
  const auto last = pattern(1000, 2);
  REQUIRE(f.write(0, last));
  const int before = f.objects(1).writes;
  f.give_up_a_write(first);
  FakeNfs& server = *f.servers[0];
  rpc::TcpServer other(
      f.threads, f.pool, {.address = "127.0.0.1", .limits = {}},
      [&](std::shared_ptr<rpc::Channel> channel) { server.sessions.serve(std::move(channel)); });
  REQUIRE(other.listen());
  server.tcp.cut();
  server.tcp.stop();
  control::Register request = f.registration(1);
  request.addresses = {layout::make_address("127.0.0.1", other.port()).value()};
  REQUIRE(f.registry->register_server(request.addresses[0], request)->ds_id == 1);
  CHECK(f.write(0, last).error() == Errc::kTimedOut);
  CHECK(f.objects(1).writes == before);
  CHECK(f.proxy->unsettled(f.file.object, f.file.map));
  server.let_go(rpc::nfs4::Status::NFS4ERR_IO);
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (f.proxy->unsettled(f.file.object, f.file.map) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(10ms);
  }
  CHECK(f.write(0, last));
  CHECK(f.bytes(0, 1000) == last);
  f.proxy.reset();  // before what serves it
  other.cut();
  other.stop();
}

TEST_CASE("a write waits until its data server has fenced what earlier runs sent") {
  ProxyFixture f(1, 1, 60s, false, control::mds_boot(ProxyFixture::kBootEpoch, 1234));
  const auto data = pattern(1000, 1);
  auto written = std::async(std::launch::async, [&] { return f.write(0, data); });
  f.set_size(1000);
  CHECK(f.read(0, 1000));  // that waits for nothing
  CHECK(written.wait_for(0s) == std::future_status::timeout);
  {
    const std::lock_guard lock(f.objects(1).mutex);
    CHECK(f.objects(1).writes == 0);
  }
  const std::vector<control::Fence> earlier{{.what = control::Fence::What::kClient,
                                             .client_id = control::kOwnClientId,
                                             .epoch = ProxyFixture::kBootEpoch}};
  REQUIRE(f.registry->fences_done(1, earlier));
  CHECK(written.get());
  CHECK(f.bytes(0, 1000) == data);
}

TEST_CASE("handles tell which run of the metadata server they are of") {
  const std::uint32_t copies = GENERATE(1, 2);
  ProxyFixture f(1, copies);
  REQUIRE(f.write(0, pattern(1000, 1)));
  const std::lock_guard lock(f.objects(1).mutex);
  CHECK(f.objects(1).last_write.client_id == control::kOwnClientId);
  CHECK(f.objects(1).last_write.client_epoch == ProxyFixture::kBootEpoch);
}

TEST_CASE("beyond the bound nothing is sent to a data server that does not answer") {
  ProxyFixture f(2);
  REQUIRE(f.write(0, pattern(2 * kUnit, 11)));
  {
    const std::lock_guard lock(f.objects(2).mutex);
    f.objects(2).silent = true;
  }
  std::atomic<unsigned> ended = 0;
  const std::size_t most =
      ProxyIo::Config{.clock = system_clock(), .random = system_random()}.max_calls;
  for (std::size_t i = 0; i < most; ++i) {
    f.proxy->read(f.file, f.size, kUnit, 100, [&](const auto&) { ++ended; });
  }
  CHECK(f.read(kUnit, 100).error() == Errc::kBusy);
  const int before = f.objects(1).writes;
  CHECK(f.write(0, pattern(2 * kUnit, 12)).error() == Errc::kBusy);
  CHECK(f.failures.empty());
  CHECK(f.objects(1).writes == before);
  CHECK(f.bytes(0, kUnit) != pattern(kUnit, 12));
  f.lose(2);
  for (int i = 0; i < 2000 && ended < most; ++i) std::this_thread::sleep_for(5ms);
  CHECK(ended == most);
}
