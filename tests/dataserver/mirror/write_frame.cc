// What the coroutine of a WRITE with copies costs (Duplicator::write_copies()): its frames, their
// bytes, and how much of the time of the smallest WRITE there is, 4 KiB into the page cache, with
// nothing of connection, session or partner. docs/architecture.md has what follows from it.
//
// Threading: all on the program's one thread. No test: it is run by hand.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <new>

#include "rpc/base/task.h"
#include "tests/dataserver/mirror/mirror_rig.h"

namespace {

// What was allocated while it is on.
struct Record {
  bool on = false;
  std::size_t count = 0;
  std::size_t first = 0;  // bytes
  std::size_t bytes = 0;
};
Record record;

}  // namespace

void* operator new(std::size_t size) {
  if (record.on) {
    if (record.count++ == 0) record.first = size;
    record.bytes += size;
  }
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace weft::test {
namespace {

constexpr int kWrites = 1'000;  // a round
constexpr int kRounds = 200;
constexpr std::size_t kBlock = 4096;

template <class Work>
Record recorded(const Work& work) {
  record = {.on = true};
  work();
  record.on = false;
  return record;
}

template <class Work>
double ns_each(const Work& work) {
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kWrites; ++i) work();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
    least = std::min(least, took.count() / kWrites);
  }
  return least;
}

// A frame in which nothing is done: what is looked at afterwards is kept in it.
template <std::size_t kPadding>
Flow idle_flow(const std::byte* from) {
  std::array<std::byte, kPadding> kept;
  kept[0] = *from;
  asm volatile("" : : "r"(kept.data()) : "memory");
  static_cast<void>(co_await Flow::self());
  asm volatile("" : : "r"(kept.data()) : "memory");
}

void run() {
  MirrorRig rig;
  MirrorRig::Server& server = rig.servers.at(kFirst);
  const layout::Handle handle = rig.handle(layout::Duplication::kNone);
  const Buffer block = rig.pool.allocate(kBlock).value();
  const auto shared = [&block] {
    std::vector<Buffer> data;
    data.push_back(block.share(0, kBlock).value());
    return data;
  };
  bool written = false;
  const auto done = [&](const Result<ds::WriteResult>& result) { written = result.has_value(); };
  const auto by_flow = [&] {
    written = false;
    server.duplicator->write(handle, 0, shared(), ds::Stability::kUnstable, {}, done);
    while (!written) rig.thread.poll();
  };
  const auto by_store = [&] {
    written = false;
    server.store->write(
        {.object = handle.object, .data = shared(), .wanted = ds::Stability::kUnstable}, done);
    while (!written) rig.thread.poll();
  };
  by_flow();

  std::vector<Buffer> data = shared();
  const Record flow = recorded([&] {
    server.duplicator->write(handle, 0, std::move(data), ds::Stability::kUnstable, {}, done);
  });
  constexpr std::size_t kPadding = 568;  // makes a frame as large
  const auto idle = [&] { idle_flow<kPadding>(block.data()).start(); };
  const Record same = recorded(idle);
  const double frame = ns_each(idle);
  const double whole = ns_each(by_flow);
  fmt::print("frame of a WRITE with copies: {} bytes, the first of {} allocations of {} bytes\n",
             flow.first, flow.count, flow.bytes);
  fmt::print("a frame of {} bytes, from allocated to freed: {:.0f} ns\n", same.first, frame);
  fmt::print("4 KiB into the page cache: {:.0f} ns; without the coroutine {:.0f} ns\n", whole,
             ns_each(by_store));
  fmt::print("the frame takes {:.1f} % of it\n", 100 * frame / whole);
}

}  // namespace
}  // namespace weft::test

int main() { weft::test::run(); }
