// A file with two copies, read, written and changed through a metadata server without Ganesha.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include "tests/ganesha-fsal/cluster/fake_nfs.h"
#include "tests/ganesha-fsal/files/mds_run.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {

// A file with two copies of one stripe; data servers with both their sides.
struct FileIoTest : NamespaceTest {
  FileIoTest() : FileIoTest(RunWaits{}) {}
  explicit FileIoTest(RunWaits waits)
      : f(file(kRootFileId, "f")), run(std::make_unique<Run>(*names, store, 0, &later, waits)) {
    run->policy.stripe_unit = 64 * 1024;
    run->policy.stripe_count = 1;
    run->policy.copies = 2;
    threads.start();
    for (std::uint8_t id = 1; id <= 2; ++id) {
      nfs.push_back(
          std::make_unique<FakeNfs>(id, threads, pool, peers, run->cluster().keys().sealing()));
      peers[id] = &nfs.back()->objects;
      control.push_back(std::make_unique<FakeServer>(id, run->port(), nfs.back()->tcp.port()));
      run->await_up(id);
    }
  }
  ~FileIoTest() {
    control.clear();
    run->proxy.stop();
    for (const auto& server : nfs) server->stop();
    threads.stop();
    run.reset();
  }
  Result<ProxyIo::WriteResult> write(std::uint64_t offset, std::span<const std::byte> data) {
    auto written = run->write(f, offset, data);
    for (const auto& server : nfs) {
      const std::lock_guard lock(server->objects.mutex);
      server->objects.file_size = attributes(f).size;
    }
    return written;
  }
  std::vector<std::byte> read(std::uint64_t offset, std::uint32_t count) {
    auto got = run->read(f, offset, count);
    REQUIRE(got);
    return got->data.flatten().value();
  }
  layout::LayoutMap map() { return **names->layout(f); }
  // Who would lead, or leads, one who writes now.
  std::uint32_t leader() {
    const auto target = run->mirrors.begin_write(f, no_layout);
    REQUIRE(target);
    return target->map.copies[target->leads.at(0)].ds_ids[0];
  }
  FakeObjects& objects(std::uint32_t id) { return nfs[id - 1]->objects; }
  Result<InodeAttributes> truncate(std::uint64_t size, ClientId client) {
    AttributeChange change;
    change.size = size;
    return run->data.set_attributes(kSuperuser, f, change, client);
  }

  // Its connection to the metadata server is lost, for longer than a restart takes.
  void lose(std::uint32_t id) {
    control[id - 1]->disconnect();
    for (int i = 0; i < 2000 && run->mirrors.reach(id) != Reach::kGone; ++i) {
      std::this_thread::sleep_for(5ms);
    }
    REQUIRE(run->mirrors.reach(id) == Reach::kGone);
  }
  void hang(std::uint32_t id) {
    const std::lock_guard lock(objects(id).mutex);
    objects(id).silent = true;
  }
  void await_held(std::uint32_t id) {
    for (int i = 0; i < 2000; ++i) {
      {
        const std::lock_guard lock(objects(id).mutex);
        if (!objects(id).held.empty()) return;
      }
      std::this_thread::sleep_for(1ms);
    }
    FAIL("nothing came");
  }
  layout::CopyState state_at(std::uint32_t id) {
    for (const layout::Copy& copy : map().copies) {
      if (copy.ds_ids[0] == id) return copy.state_of(0);
    }
    FAIL("not of the file");
    return layout::CopyState::kStale;
  }

  Later later{0s};
  const FileId f;
  std::unique_ptr<Run> run;
  BufferPool pool{64U << 20};
  rpc::IoThreads threads{1, false};
  FakeObjects::Peers peers;
  std::vector<std::unique_ptr<FakeNfs>> nfs;
  std::vector<std::unique_ptr<FakeServer>> control;
};

}  // namespace weft::mds
