// Places of connections by RDMA that show more than they had shown.
#include <catch2/catch_test_macros.hpp>

#include "rpc/base/shared_memory.h"
#include "rpc/transport/rdma/server_channel.h"
#include "tests/rpc/transport/rdma/fake_device.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;

namespace {

struct Deaf final : ChannelUser {
  void on_record(ReceivedRecord /*record*/) override {}
  void on_closed(const Error& /*why*/) override {}
};

}  // namespace

TEST_CASE("a connection that has shown as much before needs no further place for it") {
  constexpr std::size_t kMemory = std::size_t{16} << 20;
  boost::asio::io_context context;
  BufferPool pool(kMemory, std::make_shared<Arena>(SharedMemory::create(kMemory, "test").value()));
  const auto wire = std::make_shared<FakeWire>(context, pool);
  // Another session over the same connection, while there is room for one client.
  const auto admission = std::make_shared<Admission>(AdmissionLimits{.max_connections = 1});
  const auto place = admission->admit("a", admission->cuts(), [] {});
  const auto channel = serve(context, pool, wire->queue_pair(), {.standing = Standing::kStranger},
                             admission->place_of(place));
  channel->start(std::make_shared<Deaf>());
  CHECK(channel->promote(Standing::kClient));
  CHECK(channel->promote(Standing::kClient));
  CHECK(channel->promote(Standing::kServer));
  CHECK(channel->promote(Standing::kClient));
  // It is counted as what it has shown most.
  CHECK(admission->refused() == 0);
  const auto other = admission->admit("b", admission->cuts(), [] {});
  CHECK(admission->place_of(other).promoted(Standing::kClient));
  admission->leave(other);
  wire->disconnect();
  context.poll();
}
