// Answers by RPC over RDMA, where memory is short.
#include "rpc/transport/rdma/answer.h"

#include <catch2/catch_test_macros.hpp>

#include "rpc/base/shared_memory.h"
#include "rpc/base/standing.h"
#include "tests/rpc/transport/rdma/fake_device.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

Message reading(Payload payload) {
  Message out;
  out.bytes().u32(1);
  out.splice(std::move(payload));
  return out;
}

}  // namespace

TEST_CASE("what reads have filled memory with can be sent, and so be let go of") {
  BufferPool pool(8 * kMebibyte,
                  std::make_shared<Arena>(SharedMemory::create(16 * kMebibyte, "test").value()));
  boost::asio::io_context context;
  const auto wire = std::make_shared<FakeWire>(context, pool);
  const auto queue_pair = wire->queue_pair();
  const Chunks places{.writes = {{{wire->expose(std::vector<std::byte>(kMebibyte))}}}};
  std::vector<Payload> read;
  while (has_room(pool, PoolShare::kReplies, 0)) {
    read.emplace_back().append(pool.allocate(kMebibyte / 2).value());
  }
  for (Payload& payload : read) {
    const auto work = make_answer({.xid = 1, .credits = 1}, reading(std::move(payload)), places,
                                  *queue_pair, pool);
    REQUIRE(work);
    CHECK(work->size() == 2);
  }
  read.clear();
  CHECK(pool.in_use_bytes() == 0);
  // What is to be copied first takes as much memory again, and waits.
  std::vector<Buffer> most;
  while (has_room(pool, PoolShare::kReplies, 0)) {
    most.push_back(pool.allocate(kMebibyte / 2).value());
  }
  Payload zeros;
  zeros.append(ZeroRange{kMebibyte / 2});
  CHECK(make_answer({.xid = 1, .credits = 1}, reading(std::move(zeros)), places, *queue_pair, pool)
            .error() == Errc::kBusy);
  // So does a long answer without bulk data of its own.
  const Chunks apart{.reads = {}, .writes = {}, .reply = places.writes.front()};
  Message longer;
  longer.bytes().raw(std::vector<std::byte>(100'000));
  CHECK(make_answer({.xid = 1, .credits = 1}, longer, apart, *queue_pair, pool).error() ==
        Errc::kBusy);
  // But not what goes to servers.
  const AnswerTo server{.xid = 1, .credits = 1, .share = PoolShare::kServers};
  Payload few;
  few.append(ZeroRange{kMebibyte / 4});
  CHECK(make_answer(server, reading(std::move(few)), places, *queue_pair, pool));
  CHECK(make_answer(server, longer, apart, *queue_pair, pool));
}
