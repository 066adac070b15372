// A file with two copies, read, written and changed through a metadata server.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include "tests/ganesha-fsal/cluster/fake_nfs.h"
#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {

// A file with two copies of one stripe; data servers with both their sides.
struct FileIoTest : ServerTest {
  struct Waits {
    std::chrono::milliseconds journal_linger = 5s;
    std::chrono::milliseconds commit_after = 10s;
    std::chrono::seconds proxy_timeout = 3s;
    std::chrono::seconds recall_timeout = 0s;  // a lease
  };
  FileIoTest() : FileIoTest(Waits{}) {}
  explicit FileIoTest(Waits waits) {
    options.journal_linger = waits.journal_linger;
    options.commit_after = waits.commit_after;
    options.proxy_timeout = waits.proxy_timeout;
    options.recall_timeout = waits.recall_timeout;
    start();
    f = file(kRootFileId, "f");
    policy.stripe_unit = 64 * 1024;
    policy.stripe_count = 1;
    policy.copies = 2;
    threads.start();
    for (std::uint8_t id = 1; id <= 2; ++id) {
      nfs.push_back(
          std::make_unique<FakeNfs>(id, threads, pool, peers, server->cluster().keys().sealing()));
      peers[id] = &nfs.back()->objects;
      control.push_back(std::make_unique<FakeServer>(id, port(), nfs.back()->tcp.port()));
      await_up(id);
    }
  }
  ~FileIoTest() {
    control.clear();
    if (server) server->proxy().stop();
    for (const auto& one : nfs) one->stop();
    threads.stop();
    stop();
  }
  Result<ProxyIo::WriteResult> write(std::uint64_t offset, std::span<const std::byte> data) {
    auto written = write_at(f, offset, data);
    for (const auto& one : nfs) {
      const std::lock_guard lock(one->objects.mutex);
      one->objects.file_size = attributes(f).size;
    }
    return written;
  }
  std::vector<std::byte> read(std::uint64_t offset, std::uint32_t count) {
    auto got = read_at(f, offset, count);
    REQUIRE(got);
    return got->data.flatten().value();
  }
  layout::LayoutMap map() { return **names->layout(f); }
  // Who would lead, or leads, one who writes now.
  std::uint32_t leader() {
    const auto target = server->mirrors().begin_write(f, no_layout);
    REQUIRE(target);
    return target->map.copies[target->leads.at(0)].ds_ids[0];
  }
  FakeObjects& objects(std::uint32_t id) { return nfs[id - 1]->objects; }
  Result<InodeAttributes> truncate(std::uint64_t size, ClientId client) {
    AttributeChange change;
    change.size = size;
    return server->data().set_attributes(kSuperuser, f, change, client);
  }

  // Its connection to the metadata server is lost, for longer than a restart takes.
  void lose(std::uint32_t id) {
    control[id - 1]->disconnect();
    REQUIRE(await_that([&] { return server->mirrors().reach(id) == Reach::kGone; }));
  }
  void hang(std::uint32_t id) {
    const std::lock_guard lock(objects(id).mutex);
    objects(id).silent = true;
  }
  void await_held(std::uint32_t id) {
    REQUIRE(await_that([&] {
      const std::lock_guard lock(objects(id).mutex);
      return !objects(id).held.empty();
    }));
  }
  layout::CopyState state_at(std::uint32_t id) {
    for (const layout::Copy& copy : map().copies) {
      if (copy.ds_ids[0] == id) return copy.state_of(0);
    }
    FAIL("not of the file");
    return layout::CopyState::kStale;
  }
  // Until the copies that are to be compared have been.
  void await_settled() {
    REQUIRE(await_that([&] {
      server->data().settle_due(true);
      return !server->journal().unsettled(f);
    }));
  }

  FileId f = 0;
  BufferPool pool{64U << 20};
  rpc::IoThreads threads{1, false};
  FakeObjects::Peers peers;
  std::vector<std::unique_ptr<FakeNfs>> nfs;
  std::vector<std::unique_ptr<FakeServer>> control;
};

}  // namespace weft::mds
