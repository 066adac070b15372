// How much of a data server's memory is lent to a target for what clients read.
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "tests/dataserver/targets/target_rig.h"

using namespace weft;
using namespace weft::ds;
using namespace weft::test;

TEST_CASE("reads of clients that waited for a target leave memory to those of servers") {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  const TargetRig rig;
  boost::asio::io_context context;
  const auto ring = IoRing::create(context).value();
  ring->bind_to_this_thread();
  BufferPool pool(8 * kMebibyte,
                  std::make_shared<Arena>(SharedMemory::create(16 * kMebibyte, "test").value()));
  const OwnedFd folder = open_directory(rig.folder.path() + "/ds").value();
  const auto store = RemoteStore::open({.address = rig.local(),
                                        .space = space_of(1),
                                        .keys = std::make_shared<rpc::peer::Keyring>(
                                            rpc::peer::parse_cluster_key(key_text('a')).value()),
                                        .options = quick_link(),
                                        .pool = pool,
                                        .random = system_random(),
                                        .rings = {ring.get()},
                                        .folder = folder.get()})
                         .value();
  // None is sent, and has memory, before all are there.
  std::map<PoolShare, int> busy;
  std::map<PoolShare, int> ended;
  const auto read = [&](PoolShare share) {
    store->read({.object = {.fileid = 1}, .count = kMebibyte, .share = share},
                [&, share](const Result<ReadResult>& result) {
                  ++ended[share];
                  busy[share] += !result && result.error() == Errc::kBusy ? 1 : 0;
                });
  };
  for (int i = 0; i < 12; ++i) read(PoolShare::kReplies);
  read(PoolShare::kServers);
  CHECK(pool.in_use_bytes() == 0);
  const auto target = rig.start();
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (ended[PoolShare::kReplies] + ended[PoolShare::kServers] < 13) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    context.restart();
    context.run_one_for(10ms);
  }
  // Messages have some, too.
  CHECK(busy[PoolShare::kReplies] >= 5);
  CHECK(busy[PoolShare::kReplies] < 8);
  CHECK(busy[PoolShare::kServers] == 0);
  store->close();
  context.restart();
  context.run_for(50ms);
}
