#include "layout/load.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::layout;

namespace {

std::vector<std::byte> wire_of(const ServerLoad& load) {
  xdr::Encoder out;
  xdr::put(out, load);
  return out.take();
}

ServerLoad busy(std::vector<std::uint8_t> cpus, std::uint32_t run_queue_milli) {
  ServerLoad load;
  load.cpu_percent = std::move(cpus);
  load.run_queue_milli = run_queue_milli;
  return load;
}

}  // namespace

TEST_CASE("what one more stream can expect is CEFT-PVFS's estimate") {
  CHECK(available({10, 32, 1}) == 16);
  CHECK(available({20, 32, 1}) == 12);
  CHECK(available({32, 32, 4}) == 0);
  CHECK(available({0, 40, 4}) == 8);
  CHECK(available({41, 40, 0}) == 0);  // measured above what was thought the most
  CHECK(available({7, 0, 0}) == 0);    // the most is not known
  CHECK(available({0, UINT64_MAX, UINT32_MAX}) > 0);
}

TEST_CASE("a CPU-busy server has no idle CPU and more than two waiting") {
  CHECK(cpu_is_busy(busy({100}, 3000)));
  CHECK(cpu_is_busy(busy({99, 100}, 2001)));
  CHECK_FALSE(cpu_is_busy(busy({100}, 2000)));
  CHECK_FALSE(cpu_is_busy(busy({100, 40}, 3000)));
  CHECK_FALSE(cpu_is_busy(busy({98}, 9000)));
  CHECK_FALSE(cpu_is_busy(busy({}, 9000)));  // not measured
}

TEST_CASE("a load survives the wire, cut short it does not") {
  CHECK(rc::check([](std::uint64_t used, std::uint64_t max, std::uint32_t small) {
    ServerLoad load;
    load.cpu_percent =
        *rc::gen::container<std::vector<std::uint8_t>>(rc::gen::inRange<std::uint8_t>(0, 101));
    load.run_queue_milli = small;
    load.memory_free = used ^ max;
    load.disk = {used, max, small};
    load.network = {max, used, small / 2};
    const auto wire = wire_of(load);
    xdr::Decoder in(wire);
    ServerLoad back;
    xdr::get(in, back);
    RC_ASSERT(in.ok());
    RC_ASSERT(in.remaining() == 0U);
    RC_ASSERT(back == load);
  }));
  const auto wire = wire_of(busy({1, 2, 3}, 4));
  for (std::size_t size = 0; size < wire.size(); ++size) {
    xdr::Decoder in(std::span(wire).first(size));
    ServerLoad back;
    xdr::get(in, back);
    CHECK_FALSE(in.ok());
  }
}

TEST_CASE("a load with a percent above 100 or too many CPUs is refused") {
  for (const ServerLoad& load :
       {busy({101}, 0), busy(std::vector<std::uint8_t>(kMaxCpus + 1, 5), 0)}) {
    const auto wire = wire_of(load);
    xdr::Decoder in(wire);
    ServerLoad back;
    xdr::get(in, back);
    CHECK_FALSE(in.ok());
  }
}
